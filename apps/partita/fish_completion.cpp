#include "command_pages.hpp"

namespace partita {

namespace {

std::string quoted(const std::string& text) {
  return "'" + replaced(replaced(text, "\\", "\\\\"), "'", "\\'") + "'";
}

/// The words to offer for a value, as fish's `-a` takes them.
std::string candidates(const std::string& value) {
  std::vector<std::string> words;
  for (const std::string& kind : alternatives(value)) {
    if (kind == "DECK") words.emplace_back("(__fish_complete_suffix .toml)");
    if (kind == "RUN") words.emplace_back("(__fish_complete_suffix .h5)");
    if (kind == "FILE") words.emplace_back("(__fish_complete_path)");
    if (kind == "DIR") words.emplace_back("(__fish_complete_directories)");
    if (kind == "section/key=value") words.emplace_back("(__partita_overrides)");
    if (isLiteral(kind)) words.push_back(kind);
  }
  return joined(words, " ");
}

std::string optionLine(const std::string& condition, const OptionPage& option) {
  std::string line = "complete -c partita -n " + quoted(condition);
  for (const std::string& flag : option.flags)
    line += flag.rfind("--", 0) == 0 ? " -l " + flag.substr(2) : " -s " + flag.substr(1);
  if (!option.value.empty()) line += " -x -a " + quoted(candidates(option.value));
  return line + " -d " + quoted(option.text) + "\n";
}

/// Files are offered behind a '=' by fish itself.
std::string valueCases(const std::vector<DeckKey>& keys) {
  std::string cases;
  for (const DeckKey& key : keys) {
    if (key.values.empty() || key.values == "FILE") continue;
    cases += "            case " + key.name + "\n                set values " +
             joined(alternatives(key.values), " ") + "\n";
  }
  return cases;
}

/// Keys with their meaning; behind the '=' the values they can have.
std::string overridesFunction() {
  std::string keys;
  for (const DeckKey& key : deckKeys())
    keys += " \\\n            " + quoted(key.name + "=") + " " + quoted(key.text);
  return R"(
function __partita_overrides
    set -l parts (string split -m 1 = -- (commandline -ct))
    if set -q parts[2]
        set -l values
        switch $parts[1]
)" + valueCases(deckKeys()) +
         R"(        end
        for value in $values
            echo $parts[1]=$value
        end
    else
        printf '%s\t%s\n')" +
         keys + R"(
    end
end
)";
}

} // namespace

std::string fishCompletion(const ProgramPages& pages) {
  std::string page = "# Completion of partita in fish; made by `partita info --completion fish`.\n" +
                     overridesFunction() + "\ncomplete -c partita -f\n";
  for (const OptionPage& option : pages.program.options) page += optionLine("__fish_use_subcommand", option);
  for (const CommandPage& command : pages.commands) {
    page += "\ncomplete -c partita -n __fish_use_subcommand -a " + command.name + " -d " +
            quoted(command.text) + "\n";
    const std::string condition = "__fish_seen_subcommand_from " + command.name;
    for (const OptionPage& option : command.options) page += optionLine(condition, option);
    for (const OptionPage& operand : command.operands)
      page +=
          "complete -c partita -n " + quoted(condition) + " -a " + quoted(candidates(operand.value)) + "\n";
  }
  return page;
}

} // namespace partita
