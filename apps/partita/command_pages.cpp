#include "command_pages.hpp"

#include "partita/config/parameters.hpp"
#include "partita/config/text.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cctype>
#include <sstream>

namespace partita {

namespace {

OptionPage optionPage(const CLI::Option& option) {
  OptionPage page;
  for (const std::string& name : option.get_snames()) page.flags.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) page.flags.push_back("--" + name);
  if (option.get_positional()) page.value = option.get_name(true);
  if (!page.flags.empty() && option.get_expected_max() > 0) page.value = option.get_type_name();
  page.text = option.get_description();
  page.required = option.get_required();
  page.repeated = option.get_positional() && option.get_expected_max() > 1;
  return page;
}

std::string valuesOf(const Parameter& parameter) {
  if (std::holds_alternative<bool*>(parameter.target)) return "true|false";
  if (std::holds_alternative<std::string*>(parameter.target)) return "FILE";
  std::vector<std::string> names;
  if (const auto* choice = std::get_if<Choice>(&parameter.target)) names = choice->names;
  if (std::holds_alternative<Cuts>(parameter.target)) names = Cuts::ruleNames();
  return joined(names, "|");
}

} // namespace

std::string OptionPage::title() const {
  const std::string names = joined(flags, ", ");
  return names + (names.empty() || value.empty() ? "" : " ") + value + (repeated ? " ..." : "");
}

std::string OptionPage::usage() const {
  const std::string words = flags.empty() ? value + (repeated ? " ..." : "") : flags.front() + " " + value;
  return required ? words : "[" + words + "]";
}

std::string CommandPage::usage() const {
  std::string line = name;
  for (const OptionPage& operand : operands)
    if (operand.required) line += " " + operand.usage();
  for (const OptionPage& option : options)
    if (option.required) line += " " + option.usage();
  line += " [options]";
  for (const OptionPage& operand : operands)
    if (!operand.required) line += " " + operand.usage();
  return line;
}

CommandPage commandPage(const CLI::App& command) {
  CommandPage page{command.get_name(), command.get_description(), {}, {}};
  for (const CLI::Option* option : command.get_options())
    (option->get_positional() ? page.operands : page.options).push_back(optionPage(*option));
  // CLI11 puts help first; readers look for it last.
  std::rotate(page.options.begin(), page.options.begin() + 1, page.options.end());
  return page;
}

std::vector<CommandPage> commandPages(const CLI::App& command) {
  std::vector<CommandPage> pages;
  for (const CLI::App* inner : command.get_subcommands([](const CLI::App*) { return true; })) {
    pages.push_back(commandPage(*inner));
    pages.back().name = command.get_name() + " " + pages.back().name;
  }
  return pages.empty() ? std::vector<CommandPage>{commandPage(command)} : pages;
}

ProgramPages programPages(const CLI::App& app) {
  ProgramPages pages{commandPage(app), {}};
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    for (CommandPage& page : commandPages(*command)) pages.commands.push_back(std::move(page));
  }
  return pages;
}

const std::vector<Term>& exitCodes() {
  static const std::vector<Term> codes{
      {"0", "success"},
      {"1", "failure of the program or the system"},
      {"2", "error in the deck, the data or the command line"},
      {"75", "a run with `-d` was stopped by `-t` or a signal; `-r latest` continues it"}};
  return codes;
}

std::vector<DeckKey> deckKeys() {
  RunConfig defaults;
  std::vector<DeckKey> keys;
  for (const Section& section : describe(defaults).sections)
    for (const Parameter& parameter : section.parameters)
      keys.push_back({section.name + "/" + parameter.key, valuesOf(parameter)});
  return keys;
}

bool isLiteral(const std::string& alternative) {
  return std::islower(static_cast<unsigned char>(alternative.front())) != 0 &&
         alternative.find('/') == std::string::npos;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

namespace {

constexpr std::size_t page_width = 80;

/// `title` on the left, and `text` wrapped to its right, starting at `column`.
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

/// The entries with their texts in one column; empty if there are none.
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

std::vector<Term> terms(const std::vector<CommandPage>& commands) {
  std::vector<Term> list;
  list.reserve(commands.size());
  for (const CommandPage& command : commands) list.push_back({command.name, command.text});
  return list;
}

} // namespace

std::string programHelp(const ProgramPages& pages) {
  const std::vector<Term> commands = terms(pages.commands);
  return "Usage: partita COMMAND [options]\n       mpirun -n RANKS partita train DECK\n\n" +
         pages.program.text + "\n" + chapter("Commands", commands) +
         chapter("Options", terms(pages.program.options)) + chapter("Exit codes", exitCodes()) +
         "\nSee also `partita COMMAND --help` and `man partita`. Flags that begin with\n--kokkos- go to "
         "Kokkos.\n";
}

std::string groupHelp(const std::string& name, const std::string& text,
                      const std::vector<CommandPage>& pages) {
  return "Usage: " + name + " COMMAND [options]\n\n" + text + "\n" + chapter("Commands", terms(pages)) +
         "\nSee also `" + name + " COMMAND --help`.\n";
}

std::string commandHelp(const CommandPage& page) {
  std::vector<Term> list = terms(page.operands);
  const std::vector<Term> options = terms(page.options);
  list.insert(list.end(), options.begin(), options.end());
  return "Usage: " + page.usage() + "\n\n" + page.text + "\n" + chapter("Options", list);
}

} // namespace partita
