#include "partita/config/json_value.hpp"

#include "partita/config/files.hpp"
#include "partita/config/text.hpp"
#include "partita/config/user_error.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_set>

namespace partita::detail {

namespace {

using Json = nlohmann::json;
constexpr std::uint64_t most_bytes = std::uint64_t{1} << 24;

std::string shortened(const std::string& text) {
  constexpr std::size_t most = 60;
  std::string line = validUtf8(text.size() > most ? text.substr(0, most) + "..." : text);
  std::replace_if(
      line.begin(), line.end(), [](char c) { return c >= 0 && c < ' '; }, ' ');
  return line;
}

/// "FILE:LINE:COLUMN" of the byte with this number; lines and columns count from 1.
std::string placeOf(const std::string& path, const std::string& text, std::size_t byte) {
  const auto begin = text.begin(), end = begin + static_cast<std::ptrdiff_t>(std::min(byte, text.size()));
  const auto lines = std::count(begin, end, '\n');
  const std::size_t last = text.rfind('\n', byte > 1 ? byte - 2 : 0);
  const std::size_t column = lines == 0 || last == std::string::npos ? byte : byte - last - 1;
  return path + ":" + std::to_string(lines + 1) + ":" + std::to_string(std::max<std::size_t>(column, 1));
}

/// Refuses text that is not JSON, and some that the parser would accept: names that occur twice, of which
/// only the last would count, and nesting so deep that recursive code would overflow its stack. A callback of
/// the parser could do this too, but then the parser compares each object in a list with all previous ones.
class Strictness : public nlohmann::json_sax<Json> {
 public:
  Strictness(const std::string& path, const std::string& text) : _path(path), _text(text) {}

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }

  bool start_object(std::size_t) override { return enter(); }
  bool end_object() override { return leave(); }
  bool start_array(std::size_t) override { return enter(); }
  bool end_array() override { return leave(); }

  bool key(string_t& name) override {
    if (!_names.back().insert(name).second)
      throw UserError(_path + ": the name '" + shortened(name) + "' occurs twice in an object");
    return true;
  }

  bool parse_error(std::size_t byte, const std::string&, const Json::exception& error) override {
    constexpr int overflow = 406; // nlohmann::json's number of this error
    throw UserError(placeOf(_path, _text, byte) +
                    (error.id == overflow ? ": the number is too large" : ": is not JSON"));
  }

 private:
  bool enter() {
    constexpr std::size_t most_depth = 100;
    if (_names.size() >= most_depth) throw UserError(_path + ": is nested more than 100 levels deep");
    _names.emplace_back();
    return true;
  }
  bool leave() {
    _names.pop_back();
    return true;
  }

  const std::string &_path, &_text;
  std::vector<std::unordered_set<std::string>> _names; ///< of the objects and lists around the current value
};

std::string kindOf(const Json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "a list";
  if (value.is_string()) return "a string";
  if (value.is_boolean()) return "true or false";
  return value.is_null() ? "null" : "a number";
}

/// As short as possible without losing a significant digit.
std::string numberText(double value) {
  std::string text = std::to_string(static_cast<std::int64_t>(value));
  return std::fabs(value) < 1e15 && static_cast<double>(std::stoll(text)) == value ? text : realText(value);
}

} // namespace

JsonValue JsonValue::read(const std::string& path) {
  regularFileExists(path); // refuses folders and pipes; reading reports other errors
  const std::string text = readTextFile(path, most_bytes);
  Strictness check(path, text);
  Json::sax_parse(text, &check);
  auto file = std::make_shared<const Json>(Json::parse(text));
  return {file, file.get(), path, {}};
}

void JsonValue::fail(const std::string& what) const {
  throw UserError(_path + ": " + (_place.empty() ? "" : _place + ": ") + what);
}

bool JsonValue::has(const std::string& key) const {
  if (!_value->is_object()) fail("must be an object, not " + kindOf(*_value));
  return _value->contains(key);
}

JsonValue JsonValue::at(const std::string& key) const {
  if (!has(key)) fail("'" + key + "' is missing");
  return inside((*_value)[key], key);
}

std::vector<JsonValue> JsonValue::items(std::size_t most) const {
  if (!_value->is_array()) fail("must be a list, not " + kindOf(*_value));
  if (_value->size() > most) fail("has more than " + std::to_string(most) + " elements");
  std::vector<JsonValue> list;
  for (std::size_t i = 0; i < _value->size(); ++i) list.push_back(inside((*_value)[i], std::to_string(i)));
  return list;
}

std::vector<std::string> JsonValue::keys() const {
  if (!_value->is_object()) fail("must be an object, not " + kindOf(*_value));
  std::vector<std::string> names;
  for (const auto& item : _value->items()) names.push_back(shortened(item.key()));
  return names;
}

double JsonValue::number(double least, double most) const {
  if (!_value->is_number()) fail("must be a number, not " + kindOf(*_value));
  const double number = _value->get<double>();
  if (!(number >= least && number <= most))
    fail("must be a number from " + numberText(least) + " to " + numberText(most));
  return number;
}

std::int64_t JsonValue::integer(std::int64_t least, std::int64_t most) const {
  const double number = this->number(-std::numeric_limits<double>::max(), std::numeric_limits<double>::max());
  if (number != std::floor(number)) fail("must be a whole number");
  if (number < static_cast<double>(least) || number > static_cast<double>(most))
    fail("must be a number from " + std::to_string(least) + " to " + std::to_string(most));
  return _value->is_number_integer() ? _value->get<std::int64_t>() : static_cast<std::int64_t>(number);
}

bool JsonValue::boolean() const {
  if (!_value->is_boolean()) fail("must be true or false, not " + kindOf(*_value));
  return _value->get<bool>();
}

std::size_t JsonValue::choice(const std::vector<std::string>& valid) const {
  if (!_value->is_string()) fail("must be a string, not " + kindOf(*_value));
  const std::string word = _value->get<std::string>();
  const auto found = std::find(valid.begin(), valid.end(), word);
  if (found == valid.end())
    fail("'" + shortened(word) + "' is not valid" +
         suggestion(word.size() > 60 ? std::string{} : word, valid));
  return static_cast<std::size_t>(found - valid.begin());
}

} // namespace partita::detail
