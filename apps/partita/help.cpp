#include <algorithm>
#include <sstream>

#include "command_pages.hpp"

namespace partita {

namespace {

constexpr std::size_t page_width = 80;

/// `title` on the left, `text` wrapped on the right of it, from `column` on.
std::string entry(const std::string& title, const std::string& text, std::size_t column) {
  std::string page, line = "  " + title;
  line.resize(std::max(column, line.size() + 2), ' ');
  bool fresh = true;
  std::istringstream words(text);
  for (std::string word; words >> word; fresh = false) {
    if (!fresh && line.size() + 1 + word.size() > page_width) {
      page += line + "\n";
      line = std::string(column, ' ');
      fresh = true;
    }
    line += (fresh ? "" : " ") + word;
  }
  return page + line + "\n";
}

/// Entries with their texts in one column; nothing where there are none.
std::string chapter(const std::string& title, const std::vector<Term>& entries) {
  if (entries.empty()) return {};
  std::size_t column = 0;
  for (const Term& term : entries) column = std::max(column, term.word.size() + 4);
  std::string page = "\n" + title + ":\n";
  for (const Term& term : entries) page += entry(term.word, term.text, column);
  return page;
}

std::vector<Term> terms(const std::vector<OptionPage>& options) {
  std::vector<Term> list;
  list.reserve(options.size());
  for (const OptionPage& option : options) list.push_back({option.title(), option.text});
  return list;
}

} // namespace

std::string programHelp(const ProgramPages& pages) {
  std::vector<Term> commands;
  for (const CommandPage& command : pages.commands) commands.push_back({command.name, command.text});
  return "Usage: partita COMMAND [options]\n       mpirun -n RANKS partita train DECK\n\n" +
         pages.program.text + "\n" + chapter("Commands", commands) +
         chapter("Options", terms(pages.program.options)) + chapter("Exit codes", exitCodes()) +
         "\n`partita COMMAND --help` tells more, `man partita` all. Flags that begin with\n--kokkos- go to "
         "Kokkos.\n";
}

std::string commandHelp(const CommandPage& page) {
  std::vector<Term> list = terms(page.operands);
  const std::vector<Term> options = terms(page.options);
  list.insert(list.end(), options.begin(), options.end());
  return "Usage: " + page.usage() + "\n\n" + page.text + "\n" + chapter("Options", list);
}

} // namespace partita
