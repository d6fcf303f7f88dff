#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
} // namespace CLI

namespace partita {

/// The pages generated from the definition of the command line: help, man page and shell completion. They
/// depend on nothing but the version, so that the copies in the repository can be compared.

/// An option, or an operand (which has no flags). `value` describes its argument, as alternatives separated
/// by '|': lower-case words stand for themselves, and DECK, FILE, DIR and RUN are completed with what they
/// name.
struct OptionPage {
  std::vector<std::string> flags; ///< "-d", "--directory"
  std::string value;              ///< "DIR", "latest|FILE"; empty for a flag without an argument
  std::string text;
  bool required, repeated;

  std::string title() const; ///< "-d, --directory DIR"
  std::string usage() const; ///< "[DECK]", "-o FILE"
};

struct CommandPage {
  std::string name, text;
  std::vector<OptionPage> options, operands;

  std::string usage() const; ///< "train [options] [DECK] [section/key=value ...]"
};

/// The program itself, and its commands.
struct ProgramPages {
  CommandPage program;
  std::vector<CommandPage> commands;
};

/// A word and its meaning.
struct Term {
  std::string word, text;
};

/// A key of the deck as an override names it, and the values to offer, in the form of OptionPage::value.
struct DeckKey {
  std::string name, values;
};

CommandPage commandPage(const CLI::App& command);
/// The page of a command, or those of its subcommands, whose names begin with its own: "plan predict".
std::vector<CommandPage> commandPages(const CLI::App& command);
ProgramPages programPages(const CLI::App& app);
const std::vector<Term>& exitCodes();
std::vector<DeckKey> deckKeys();

/// Returns whether an alternative of a value is a word that stands for itself.
bool isLiteral(const std::string& alternative);
/// `text` with every `from` replaced.
std::string replaced(std::string text, const std::string& from, const std::string& to);

/// What `--help` prints.
std::string programHelp(const ProgramPages& pages);
std::string commandHelp(const CommandPage& page);
/// The same for a command with subcommands; `name` is "partita plan".
std::string groupHelp(const std::string& name, const std::string& text,
                      const std::vector<CommandPage>& pages);
/// roff with the macros of man(7).
std::string manPage(const ProgramPages& pages);
std::string bashCompletion(const ProgramPages& pages);

} // namespace partita
