#pragma once

#include "partita/config/user_error.hpp"
#include "partita/data/dataset.hpp"

#include <zlib.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>
#include <vector>

namespace partita::test {

/// A folder for the files of one test case, removed at its end.
class ScratchFolder {
 public:
  ScratchFolder() {
    static int count = 0;
    _path = std::filesystem::temp_directory_path() /
            ("partita-data-" + std::to_string(getpid()) + "-" + std::to_string(count++));
    std::filesystem::create_directories(_path);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ~ScratchFolder() { std::filesystem::remove_all(_path); }

  std::string path() const { return _path.string(); }
  std::string path(const std::string& name) const { return (_path / name).string(); }

  std::string write(const std::string& name, const std::string& content) const {
    std::filesystem::remove(
        path(name)); // overwriting in place makes some file systems flush: slow thousands of times
    std::ofstream(path(name), std::ios::binary) << content;
    return path(name);
  }

  std::string writeGzip(const std::string& name, const std::string& content) const {
    gzFile file = gzopen(path(name).c_str(), "wb");
    gzwrite(file, content.data(), static_cast<unsigned>(content.size()));
    gzclose(file);
    return path(name);
  }

  std::string read(const std::string& name) const {
    std::ifstream file(path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

 private:
  std::filesystem::path _path;
};

/// An IDX file of unsigned bytes; the values count up from 0.
inline std::string idxFile(const std::vector<std::uint32_t>& sizes, std::size_t values) {
  std::string out{'\0', '\0', '\x08', static_cast<char>(sizes.size())};
  for (const std::uint32_t size : sizes)
    for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>((size >> shift) & 255U);
  for (std::size_t i = 0; i < values; ++i) out += static_cast<char>(i % 256);
  return out;
}

inline std::string idxLabels(const std::vector<std::uint8_t>& labels) {
  const std::string header = idxFile({static_cast<std::uint32_t>(labels.size())}, 0);
  return header + std::string(labels.begin(), labels.end());
}

/// The message of the UserError that `action` throws; empty if it throws none.
template <class Action>
std::string messageOf(Action action) {
  try {
    action();
  } catch (const UserError& error) {
    return error.what();
  }
  return {};
}

/// Row `row` before standardisation.
inline std::vector<float> rawRow(const Samples& samples, std::size_t row) {
  std::vector<float> out(samples.width());
  samples.copyRow(row, {0.0F}, {1.0F}, out.data());
  return out;
}

/// A folder of real data sets; empty if there is none.
inline std::string realData(const std::string& folder) {
  const char* root = std::getenv("PARTITA_DATA");
  if (root == nullptr) return {};
  const std::filesystem::path path = std::filesystem::path(root) / folder;
  return std::filesystem::is_directory(path) ? path.string() : std::string{};
}

} // namespace partita::test
