#include "partita/config/text.hpp"

#include "command_pages.hpp"

namespace partita {

namespace {

// Readline breaks words at '=' and ':' if COMP_WORDBREAKS contains them, and then only takes what follows.
const char* const logic = R"bash(
# The words to offer for $1, a list of alternatives such as 'latest|FILE', that begin with $2.
_partita_offer() {
  local kind words=''
  while IFS= read -r kind; do
    case $kind in
      DECK) _partita_files "$2" '!*.toml' ;;
      RUN | RUN...) _partita_files "$2" '!*.h5' ;;
      FILE) _partita_files "$2" '' ;;
      DIR) _partita_files "$2" '*' ;;
      section/key=value) _partita_override "$2" ;;
      [[:lower:]]*) words+=" $kind" ;;
    esac
  done <<<"${1//|/$'\n'}"
  _partita_add < <(compgen -W "$words" -- "$2")
}

_partita_add() {
  local line
  while IFS= read -r line; do COMPREPLY+=("$line"); done
}

# Folders, and files that the pattern does not leave out.
_partita_files() {
  compopt -o filenames 2>/dev/null
  _partita_add < <({ compgen -d -- "$1"; compgen -f -X "$2" -- "$1"; } | sort -u)
}

_partita_override() {
  if [[ $1 == *=* ]]; then
    _partita_assigned "$1" "$(_partita_values "${1%%=*}")"
  else
    compopt +o filenames -o nospace 2>/dev/null
    _partita_add < <(compgen -W "$_partita_keys" -- "$1")
  fi
}

# The value in $1, 'key=value' or '--option=value'.
_partita_assigned() {
  _partita_offer "$2" "${1#*=}"
  [[ $COMP_WORDBREAKS == *=* ]] || COMPREPLY=("${COMPREPLY[@]/#/${1%%=*}=}")
}

_partita() {
  local IFS=$' \t\n' words=() word glued='' i
  for ((i = 0; i <= COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    if [[ -n $word && ${#words[@]} -gt 0 && ( -n $glued || $word != *[!=:]* ) ]]; then
      words[${#words[@]} - 1]+=$word
    else
      words+=("$word")
    fi
    glued=
    [[ -n $word && $word != *[!=:]* ]] && glued=yes
  done

  local command='' expected='' operands=0 last=$((${#words[@]} - 1))
  for ((i = 1; i < last; i++)); do
    word=${words[i]}
    if [[ -n $expected ]]; then
      expected=
    elif [[ $word == -* ]]; then
      [[ $word == *=* ]] || expected=$(_partita_value "$command" "$word")
    elif [[ -z $command ]]; then
      command=$word
    elif [[ -n $(_partita_inner "$command") ]]; then
      command+=" $word"
    else
      operands=$((operands + 1))
    fi
  done

  local current=${words[last]} kind
  COMPREPLY=()
  if [[ -n $expected ]]; then
    _partita_offer "$expected" "$current"
  elif [[ $current == -*=* ]]; then
    _partita_assigned "$current" "$(_partita_value "$command" "${current%%=*}")"
  elif [[ $current == -* ]]; then
    _partita_add < <(compgen -W "$(_partita_options "$command")" -- "$current")
  elif [[ -z $command ]]; then
    _partita_add < <(compgen -W "$_partita_commands" -- "$current")
  elif [[ -n $(_partita_inner "$command") ]]; then
    _partita_add < <(compgen -W "$(_partita_inner "$command")" -- "$current")
  else
    for kind in $(_partita_operands "$command" "$operands"); do
      _partita_offer "$kind" "$current"
      [[ ${#COMPREPLY[@]} -eq 0 ]] || break # the deck may be left out
    done
  fi
}

complete -F _partita partita
)bash";

std::string function(const std::string& name, const std::string& subject, const std::string& cases) {
  return "\n" + name + "() {\n  case " + subject + " in\n" + cases + "  esac\n}\n";
}

std::string answer(const std::string& pattern, const std::string& words) {
  return "    " + pattern + ") echo '" + words + "' ;;\n";
}

std::string flags(const std::vector<OptionPage>& options, const std::string& between) {
  std::string line;
  for (const OptionPage& option : options)
    line += (line.empty() ? "" : between) + joined(option.flags, between);
  return line;
}

std::string optionCases(const std::vector<CommandPage>& commands) {
  std::string cases;
  for (const CommandPage& command : commands)
    cases += answer("'" + command.name + "'", flags(command.options, " "));
  return cases;
}

std::string valueCases(const std::vector<CommandPage>& commands) {
  std::string cases;
  for (const CommandPage& command : commands) {
    for (const OptionPage& option : command.options) {
      if (option.value.empty()) continue;
      std::string pattern;
      for (const std::string& flag : option.flags)
        pattern += (pattern.empty() ? "" : " | ") + ("'" + command.name + " " + flag + "'");
      cases += answer(pattern, option.value);
    }
  }
  return cases;
}

/// The words offered at each position; a position that may be omitted can hold what comes after it.
std::string operandCases(const std::vector<CommandPage>& commands) {
  std::string cases;
  for (const CommandPage& command : commands) {
    for (std::size_t place = 0; place < command.operands.size(); ++place) {
      std::vector<std::string> kinds;
      for (std::size_t i = place; i < command.operands.size(); ++i) {
        kinds.push_back(command.operands[i].value);
        if (command.operands[i].required) break;
      }
      const std::string start = command.name + " ";
      const bool repeated = command.operands[place].repeated;
      const std::string pattern = repeated ? "'" + start + "'*" : "'" + start + std::to_string(place) + "'";
      cases += answer(pattern, joined(kinds, " "));
    }
  }
  return cases;
}

/// The commands inside another, by its name.
std::string innerCases(const std::vector<CommandPage>& commands) {
  std::string cases, group, inner;
  const auto end = [&] {
    if (!inner.empty()) cases += answer("'" + group + "'", inner);
    inner.clear();
  };
  for (const CommandPage& command : commands) {
    const std::size_t space = command.name.find(' ');
    if (space == std::string::npos) continue;
    if (command.name.substr(0, space) != group) end();
    group = command.name.substr(0, space);
    inner += (inner.empty() ? "" : " ") + command.name.substr(space + 1);
  }
  end();
  return cases;
}

} // namespace

std::string bashCompletion(const ProgramPages& pages) {
  std::vector<CommandPage> levels{pages.program};
  levels.front().name.clear();
  levels.insert(levels.end(), pages.commands.begin(), pages.commands.end());

  std::vector<std::string> names, keys;
  for (const CommandPage& command : pages.commands) {
    const std::string first = command.name.substr(0, command.name.find(' '));
    if (names.empty() || names.back() != first) names.push_back(first);
  }
  std::string values;
  for (const DeckKey& key : deckKeys()) {
    keys.push_back(key.name + "=");
    if (!key.values.empty()) values += answer(key.name, key.values);
  }
  return "# Completion of partita in bash; made by `partita info --completion bash`.\n\n_partita_commands='" +
         joined(names, " ") + "'\n\n_partita_keys='\n" + joined(keys, "\n") + "'\n" +
         function("_partita_options", "$1", optionCases(levels)) +
         function("_partita_inner", "$1", innerCases(levels)) +
         function("_partita_value", "\"$1 $2\"", valueCases(levels)) +
         function("_partita_operands", "\"$1 $2\"", operandCases(levels)) +
         function("_partita_values", "$1", values) + logic;
}

} // namespace partita
