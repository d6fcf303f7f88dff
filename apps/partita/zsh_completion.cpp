#include "command_pages.hpp"

namespace partita {

namespace {

/// Text inside a single-quoted specification of _arguments or _describe.
std::string escaped(std::string text) {
  for (const char* special : {"\\", ":", "[", "]"})
    text = replaced(text, special, std::string("\\") + special);
  return replaced(text, "'", "'\\''");
}

/// What completes a value, as the action of a specification.
std::string action(const std::string& value) {
  std::vector<std::string> words, actions;
  for (const std::string& kind : alternatives(value)) {
    if (kind == "DECK") actions.emplace_back("_files -g \"*.toml(-.)\"");
    if (kind == "RUN") actions.emplace_back("_files -g \"*.h5(-.)\"");
    if (kind == "FILE") actions.emplace_back("_files");
    if (kind == "DIR") actions.emplace_back("_files -/");
    if (kind == "section/key=value") actions.emplace_back("_partita_override");
    if (isLiteral(kind)) words.push_back(kind);
  }
  if (!words.empty()) actions.insert(actions.begin(), "compadd -- " + joined(words, " "));
  return joined(actions, "; ");
}

std::string optionSpec(const OptionPage& option) {
  std::string tail = "[" + escaped(option.text) + "]";
  if (!option.value.empty()) tail += ":" + escaped(option.value) + ":{" + action(option.value) + "}";
  std::vector<std::string> names;
  for (const std::string& flag : option.flags)
    names.push_back(flag + (option.value.empty() ? "" : flag.rfind("--", 0) == 0 ? "=" : "+"));
  if (names.size() == 1) return "'" + names.front() + tail + "'";
  return "'(" + joined(option.flags, " ") + ")'{" + joined(names, ",") + "}'" + tail + "'";
}

std::string operandSpec(const CommandPage& command, std::size_t place) {
  const OptionPage& operand = command.operands[place];
  std::string what = action(operand.value);
  if (!operand.required && place + 1 < command.operands.size())
    what += " || " + action(command.operands[place + 1].value);
  return "'" + (operand.repeated ? std::string("*") : std::to_string(place + 1)) + ":" +
         escaped(operand.value) + ":{" + what + "}'";
}

std::string specifications(const CommandPage& command, const std::string& indent) {
  std::string page;
  for (const OptionPage& option : command.options) page += " \\\n" + indent + optionSpec(option);
  for (std::size_t place = 0; place < command.operands.size(); ++place)
    page += " \\\n" + indent + operandSpec(command, place);
  return page;
}

std::string overrideFunction() {
  std::string keys, cases;
  for (const DeckKey& key : deckKeys()) {
    keys += "      '" + escaped(key.name) + "=:" + escaped(key.text) + "'\n";
    if (!key.values.empty()) cases += "      (" + key.name + ") " + action(key.values) + " ;;\n";
  }
  return "_partita_override() {\n  if [[ $PREFIX == *=* ]]; then\n    local key=${PREFIX%%=*}\n"
         "    compset -P '*='\n    case $key in\n" +
         cases + "    esac\n  else\n    local -a keys=(\n" + keys +
         "    )\n    _describe -t keys 'key of the deck' keys -S ''\n  fi\n}\n";
}

} // namespace

std::string zshCompletion(const ProgramPages& pages) {
  std::string names, cases;
  for (const CommandPage& command : pages.commands) {
    names += "        '" + command.name + ":" + escaped(command.text) + "'\n";
    cases += "        (" + command.name + ") _arguments -s" + specifications(command, "          ") + " ;;\n";
  }
  return "#compdef partita\n# Completion of partita in zsh; made by `partita info --completion zsh`.\n\n" +
         overrideFunction() + R"(
_partita() {
  local context state state_descr line
  typeset -A opt_args
  _arguments -C)" +
         specifications(pages.program, "    ") +
         R"( \
    '1: :->command' '*:: :->words'
  case $state in
    (command)
      local -a commands=(
)" + names +
         R"(      )
      _describe -t commands command commands
      ;;
    (words)
      case $words[1] in
)" + cases +
         R"(      esac
      ;;
  esac
}

_partita "$@"
)";
}

} // namespace partita
