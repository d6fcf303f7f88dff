#include "command_options.hpp"

#include "partita/config/text.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <sstream>

namespace partita {

namespace {

constexpr std::int64_t most_seconds = 1000000000; // a clock that counts nanoseconds holds nine times as many

/// HH:MM:SS, MM:SS or SS in seconds; 0 for any other text, and for too many. Fields after a colon are
/// below 60.
std::int64_t secondsOf(const std::string& text) {
  if (text.empty() || text.back() == ':') return 0;
  std::istringstream fields(text);
  std::string field;
  std::int64_t total = 0;
  for (int count = 0; std::getline(fields, field, ':'); ++count) {
    const bool digits = field.find_first_not_of("0123456789") == std::string::npos;
    if (count > 2 || field.empty() || field.size() > (count == 0 ? 10 : 2) || !digits) return 0;
    const std::int64_t value = std::stoll(field);
    if (count > 0 && value > 59) return 0;
    total = 60 * total + value;
  }
  return total <= most_seconds ? total : 0;
}

std::string toSeconds(std::string& text) {
  const std::int64_t seconds = secondsOf(text);
  if (seconds == 0)
    return "'" + text + "' is not a time; expected HH:MM:SS, MM:SS or seconds, from 1 to " +
           std::to_string(most_seconds) + " in all";
  text = std::to_string(seconds);
  return {};
}

std::string checkNumber(const std::string& text, const Interval& range) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  const bool number = !text.empty() && end == text.c_str() + text.size();
  if (number && std::isfinite(value) && range.contains(value)) return {};
  return "'" + text + "' is not a number in " + range.text();
}

/// Leaves out leading zeros, which would make the number octal.
std::string checkCount(std::string& text, std::int64_t most) {
  const bool digits = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
  const std::size_t zeros = std::min(text.find_first_not_of('0'), text.size());
  const std::string number = text.substr(zeros, 12); // cut, it is still too large
  if (digits && !number.empty() && std::stoll(number) <= most) {
    text = number;
    return {};
  }
  return "'" + text + "' is not a whole number from 1 to " + std::to_string(most);
}

std::string checkChoice(const std::string& text, const std::vector<std::string>& names) {
  if (std::find(names.begin(), names.end(), text) != names.end()) return {};
  return "'" + text + "' is not a choice here" + suggestion(text, names);
}

} // namespace

// An empty value comes from a variable that was not set, and a value that begins like an option is an
// option.
std::string checkPath(const std::string& text) {
  const bool controls =
      std::any_of(text.begin(), text.end(), [](unsigned char c) { return std::iscntrl(c) != 0; });
  if (text.empty()) return "is empty; is a shell variable unset?";
  if (controls) return "contains a control character, such as a line break";
  if (text.front() == '-')
    return "'" + text + "' looks like an option; write a file of this name as ./" + text;
  return {};
}

CLI::Validator pathValidator() {
  return {[](std::string& text) { return checkPath(text); }, ""};
}

CLI::Validator numberValidator(const Interval& range) {
  return {[range](std::string& text) { return checkNumber(text, range); }, ""};
}

CLI::Validator countValidator(std::int64_t most) {
  return {[most](std::string& text) { return checkCount(text, most); }, ""};
}

CLI::Validator timeTransform() {
  return {toSeconds, ""};
}

CLI::Option* fileOption(CLI::App& app, const std::string& name, std::string& value, const std::string& text,
                        const std::string& kind) {
  return app.add_option(name, value, text)->check(pathValidator())->type_name(kind);
}

CLI::Option* choiceOption(CLI::App& app, const std::string& name, std::string& value, const std::string& text,
                          const std::vector<std::string>& names) {
  const CLI::Validator one_of([names](std::string& chosen) { return checkChoice(chosen, names); }, "");
  return app.add_option(name, value, text)->check(one_of)->type_name(joined(names, "|"));
}

CLI::Option* overwriteFlag(CLI::App& app, bool& overwrite) {
  return app.add_flag("--overwrite", overwrite,
                      "replace an output that exists, even if this command has not written it or it has been "
                      "edited since");
}

} // namespace partita
