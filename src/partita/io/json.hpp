#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace partita {

/// Writes one JSON object, key by key, indented. Numbers keep all their digits; NaN and infinities become
/// null.
class JsonObject {
 public:
  void add(const std::string& key, const std::string& value);
  void add(const std::string& key, const char* value) { add(key, std::string(value)); }
  void add(const std::string& key, bool value);
  void add(const std::string& key, double value);
  void add(const std::string& key, std::int64_t value);
  void add(const std::string& key, const std::vector<double>& values);
  void add(const std::string& key, const std::vector<std::int64_t>& values);
  void add(const std::string& key, const std::vector<std::string>& values);
  void add(const std::string& key, const JsonObject& object);
  void add(const std::string& key, const std::vector<JsonObject>& objects);

  std::string text(int indent = 0) const;

 private:
  void addRaw(const std::string& key, std::string value);
  std::vector<std::pair<std::string, std::string>> _entries;
};

} // namespace partita
