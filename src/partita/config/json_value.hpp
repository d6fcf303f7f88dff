#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace partita::detail {

/// A value in a JSON file, which knows its place. Each function throws UserError, "FILE: /path/to/value:
/// ...", if the value is not of the requested kind.
class JsonValue {
 public:
  /// Reads a file of at most 16 MiB. Names must not occur twice in an object, and values may be nested at
  /// most 100 levels deep.
  static JsonValue read(const std::string& path);

  bool has(const std::string& key) const;
  JsonValue at(const std::string& key) const;
  /// The elements of a list, at most `most`.
  std::vector<JsonValue> items(std::size_t most) const;
  /// The names in an object.
  std::vector<std::string> keys() const;

  double number(double least, double most) const;
  /// Also accepts numbers like 4.0.
  std::int64_t integer(std::int64_t least, std::int64_t most) const;
  bool boolean() const;
  /// The position of a word in the list of valid words.
  std::size_t choice(const std::vector<std::string>& valid) const;

  [[noreturn]] void fail(const std::string& what) const;
  const std::string& place() const { return _place; }

 private:
  JsonValue(std::shared_ptr<const nlohmann::json> file, const nlohmann::json* value, std::string path,
            std::string place)
      : _file(std::move(file)), _value(value), _path(std::move(path)), _place(std::move(place)) {}
  JsonValue inside(const nlohmann::json& value, const std::string& name) const {
    return {_file, &value, _path, _place + "/" + name};
  }

  std::shared_ptr<const nlohmann::json> _file;
  const nlohmann::json* _value;
  std::string _path, _place;
};

} // namespace partita::detail
