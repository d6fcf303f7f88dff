#include "partita/config/diagnostics.hpp"

#include "partita/config/user_error.hpp"

#include <algorithm>

namespace partita {

namespace {

constexpr std::uint64_t whole_deck = std::uint64_t{1} << 62; // reported after the lines of the deck
constexpr std::uint64_t first_override = std::uint64_t{1} << 63;

} // namespace

Source Source::deck(const std::string& name) {
  Source source;
  source._label = name;
  return source;
}

Source Source::commandLine(const std::string& text, std::size_t index) {
  Source source;
  source._label = "command line: '" + text + "'";
  source._order = first_override + index;
  return source;
}

Place Source::at(std::size_t line, std::size_t column) const {
  if (_order != 0) return {_label, _order};
  if (line == 0) return {_label, whole_deck};
  return {_label + ":" + std::to_string(line) + ":" + std::to_string(column),
          (std::uint64_t{line} << 24) + std::min<std::uint64_t>(column, 0xFFFFFF)};
}

bool Diagnostics::onCommandLine(const std::string& name) const {
  const auto place = _places.find(name);
  return place != _places.end() && place->second.order >= first_override;
}

void Diagnostics::error(const Place& place, const std::string& name, const std::string& message) {
  _failed.insert(name);
  if (full()) return countMore();
  const std::string subject = name.empty() ? "" : name + ": ";
  _errors.emplace_back(place.order, place.label + ": " + subject + message);
}

bool Diagnostics::failed(const std::string& name) const {
  if (_failed.count(name) != 0) return true;
  const std::string element = name + "[";
  const auto next = _failed.lower_bound(element);
  return next != _failed.end() && next->compare(0, element.size(), element) == 0;
}

void Diagnostics::check(bool holds, const std::vector<std::string>& names, const std::string& message) {
  if (holds) return;
  const Place* blamed = nullptr;
  for (const std::string& name : names) {
    if (failed(name)) return;
    const auto place = _places.find(name);
    if (place == _places.end()) continue;
    if (blamed == nullptr || onCommandLine(name)) blamed = &place->second;
  }
  if (full()) return countMore();
  const Place place = blamed == nullptr ? _deck : *blamed;
  const std::string subject = names.front() + ": ";
  _errors.emplace_back(place.order, place.label + ": " + subject + message);
}

void Diagnostics::throwIfAny() {
  if (_errors.empty()) return;
  std::stable_sort(_errors.begin(), _errors.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> messages;
  for (const auto& error : _errors) messages.push_back(error.second);
  if (_more > 0) messages.push_back("and " + std::to_string(_more) + " more errors");
  throw UserError(messages);
}

} // namespace partita
