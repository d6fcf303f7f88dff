#include "partita/io/json.hpp"

#include "partita/config/files.hpp"
#include "partita/config/text.hpp"

#include <array>
#include <charconv>
#include <cmath>

namespace partita {

namespace {

std::string number(double value) {
  if (!std::isfinite(value)) return "null";
  std::array<char, 40> text{};
  const auto result = std::to_chars(text.data(), text.data() + text.size(), value);
  return {text.data(), result.ptr};
}

std::string string(const std::string& text) {
  return quoted(validUtf8(text));
}

template <class T, class ToText>
std::string list(const std::vector<T>& values, const ToText& to_text) {
  std::string out = "[";
  for (const T& value : values) out += (out.size() > 1 ? ", " : "") + to_text(value);
  return out + "]";
}

} // namespace

void JsonObject::addRaw(const std::string& key, std::string value) {
  _entries.emplace_back(key, std::move(value));
}
void JsonObject::add(const std::string& key, const std::string& value) {
  addRaw(key, string(value));
}
void JsonObject::add(const std::string& key, bool value) {
  addRaw(key, value ? "true" : "false");
}
void JsonObject::add(const std::string& key, double value) {
  addRaw(key, number(value));
}
void JsonObject::add(const std::string& key, std::int64_t value) {
  addRaw(key, std::to_string(value));
}
void JsonObject::add(const std::string& key, const std::vector<double>& values) {
  addRaw(key, list(values, number));
}
void JsonObject::add(const std::string& key, const std::vector<std::int64_t>& values) {
  addRaw(key, list(values, [](std::int64_t value) { return std::to_string(value); }));
}
void JsonObject::add(const std::string& key, const std::vector<std::string>& values) {
  addRaw(key, list(values, string));
}
void JsonObject::add(const std::string& key, const JsonObject& object) {
  addRaw(key, object.text(2));
}
void JsonObject::add(const std::string& key, const std::vector<JsonObject>& objects) {
  addRaw(key, list(objects, [](const JsonObject& object) { return object.text(2); }));
}

std::string JsonObject::text(int indent) const {
  const std::string margin(indent, ' ');
  std::string out = "{\n";
  for (std::size_t i = 0; i < _entries.size(); ++i) {
    out += margin + "  " + string(_entries[i].first) + ": " + _entries[i].second;
    out += i + 1 < _entries.size() ? ",\n" : "\n";
  }
  return out + margin + "}";
}

} // namespace partita
