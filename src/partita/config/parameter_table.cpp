#include "partita/config/parameter_table.hpp"

#include "partita/config/text.hpp"

#include <array>
#include <cmath>
#include <limits>

namespace partita {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

std::string endText(double value) {
  constexpr double most_readable = 1e15;
  const bool whole = value == std::floor(value) && std::abs(value) < most_readable;
  return whole ? std::to_string(static_cast<std::int64_t>(value)) : realText(value);
}

} // namespace

bool Interval::contains(double value) const {
  const bool above_low = low_open ? value > low : value >= low;
  const bool below_high = high_open ? value < high : value <= high;
  return above_low && below_high;
}

std::string Interval::text() const {
  if (high == infinity) return (low_open ? "> " : ">= ") + endText(low);
  return (low_open ? "(" : "[") + endText(low) + ", " + endText(high) + (high_open ? ")" : "]");
}

Interval atLeast(double low) {
  return {low, infinity};
}
Interval above(double low) {
  return {low, infinity, true};
}
Interval within(double low, double high) {
  return {low, high};
}
Interval withinBelow(double low, double high) {
  return {low, high, false, true};
}

const std::vector<std::string>& Cuts::ruleNames() {
  static const std::vector<std::string> names{nameOf(CutRule::flops), nameOf(CutRule::memory)};
  return names;
}

std::string Parameter::typeName() const {
  constexpr std::array<const char*, std::variant_size_v<Target>> names{
      "boolean",         "integer",
      "real number",     "text",
      "choice",          "rule or list of integers",
      "list of layers",  "integer or list of integers",
      "list of integers"};
  return names[target.index()];
}

std::string Parameter::allowed() const {
  if (std::holds_alternative<bool*>(target)) return "true, false";
  if (std::holds_alternative<std::int64_t*>(target) || std::holds_alternative<double*>(target))
    return range.text();
  if (const auto* choice = std::get_if<Choice>(&target)) return quotedList(choice->names);
  if (const auto* axes = std::get_if<Axes>(&target))
    return range.text() + (axes->may_be_same ? ", 'same'" : "");
  if (std::holds_alternative<IntegerList>(target)) return "integers in " + range.text();
  if (std::holds_alternative<Cuts>(target)) return quotedList(Cuts::ruleNames()) + ", [2, 4]";
  if (std::holds_alternative<std::vector<LayerSpec>*>(target))
    return (empty_word.empty() ? "" : quotedList({empty_word}) + ", ") + "[{type = \"dense\", units = 256}]";
  return {};
}

std::string Parameter::hint() const {
  if (allowed().empty()) return {};
  return " (allowed " + allowed() + (unit.empty() ? "" : ", " + unit) + ")";
}

bool Parameter::empty() const {
  if (const auto* number = std::get_if<std::int64_t*>(&target)) return **number == 0;
  if (const auto* layers = std::get_if<std::vector<LayerSpec>*>(&target)) return (*layers)->empty();
  return false;
}

Parameter& Section::add(const std::string& key, Target target, const std::string& meaning) {
  return add(key, std::move(target), {}, "", meaning);
}

Parameter& Section::add(const std::string& key, Target target, Interval range, const std::string& unit,
                        const std::string& meaning) {
  parameters.push_back({key, std::move(target), range, unit, meaning});
  return parameters.back();
}

const Parameter* Section::find(const std::string& key) const {
  for (const Parameter& parameter : parameters)
    if (parameter.key == key) return &parameter;
  return nullptr;
}

std::vector<std::string> Section::keys() const {
  std::vector<std::string> keys;
  for (const Parameter& parameter : parameters) keys.push_back(parameter.key);
  return keys;
}

const Section* ParameterTable::find(const std::string& section) const {
  for (const Section& candidate : sections)
    if (candidate.name == section) return &candidate;
  return nullptr;
}

std::vector<std::string> ParameterTable::names() const {
  std::vector<std::string> names;
  for (const Section& section : sections) names.push_back(section.name);
  return names;
}

std::vector<std::string> ParameterTable::keys() const {
  std::vector<std::string> keys;
  for (const Section& section : sections)
    for (const Parameter& parameter : section.parameters) keys.push_back(parameter.key);
  return keys;
}

std::string ParameterTable::home(const std::string& key) const {
  for (const Section& section : sections)
    if (section.find(key) != nullptr) return section.name + "/" + key;
  return {};
}

} // namespace partita
