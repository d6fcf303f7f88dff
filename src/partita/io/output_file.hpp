#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

namespace partita {

/// A file that appears whole or not at all: written under the name `PATH.partial`, which `commit` renames;
/// what is not committed is removed. All functions throw UserError with the path and what the system says.
class OutputFile {
 public:
  explicit OutputFile(const std::string& path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(const void* data, std::size_t bytes);
  void write(const std::string& bytes) { write(bytes.data(), bytes.size()); }
  /// Replaces bytes that are already written; `write` goes on at the end.
  void replace(std::uint64_t offset, const std::string& bytes);
  std::uint64_t size() const { return _size; }
  void commit();

 private:
  [[noreturn]] void fail() const;

  std::string _path, _partial;
  std::FILE* _file;
  std::uint64_t _size = 0;
};

} // namespace partita
