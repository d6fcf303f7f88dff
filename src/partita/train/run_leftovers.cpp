#include "partita/train/run_leftovers.hpp"

#include "partita/config/files.hpp"
#include "partita/config/user_error.hpp"
#include "partita/train/own_files.hpp"
#include "partita/train/run_files.hpp"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <regex>
#include <string_view>
#include <system_error>
#include <vector>

namespace partita {

namespace fs = std::filesystem;

namespace {

/// NAME.partial for one of our names, and how the text of NAME begins.
struct PartialFile {
  std::string path;
  std::string_view mark;
};

std::vector<PartialFile> partialFiles(const std::string& run_directory) {
  std::vector<PartialFile> found;
  for (const OwnFile& file : own_files) {
    const std::string path = run_directory + "/" + file.name + ".partial";
    if (exists(path)) found.push_back({path, file.mark});
  }
  std::error_code ignored;
  for (const fs::path& entry : entriesOf(run_directory + "/" + checkpoint_folder, ignored))
    if (entry.extension() == ".partial" && checkpointStep(entry.stem().string()) >= 0)
      found.push_back({entry.string(), hdf5_mark});
  return found;
}

/// Returns whether a killed run may have left the file: it is empty, or has zeros or our content.
bool isUnfinished(const PartialFile& file) {
  std::error_code ignored;
  if (!fs::is_regular_file(file.path, ignored)) return false;
  const std::string start = firstBytes(file.path, file.mark.size());
  const bool zeros = start.find_first_not_of('\0') == std::string::npos; // or empty
  return (zeros || start == file.mark) && (file.mark != hdf5_mark || !isForeignHdf5(file.path));
}

/// Files that Open MPI made beside NAME.partial, and that a killed process left. They are for a position that
/// all ranks share, which HDF5 does not use, so they are empty or hold a zero.
std::vector<std::string> mpiFiles(const std::string& run_directory) {
  static const std::regex pattern(
      R"((.*)\.partial(-[0-9]+-[0-9]+\.lock|\.locktest\.[0-9]+|\.(meta)?data\.[0-9]+))");
  std::vector<std::string> found;
  std::error_code ignored;
  const auto search = [&](const std::string& folder, const auto& is_own) {
    for (const fs::path& entry : entriesOf(folder, ignored)) {
      const std::string path = entry.string(), name = entry.filename().string();
      std::smatch parts;
      if (!std::regex_match(name, parts, pattern) || !is_own(parts[1].str())) continue;
      if (!fs::is_regular_file(entry, ignored) || fs::file_size(entry, ignored) > sizeof(std::int64_t))
        continue;
      if (firstBytes(path, sizeof(std::int64_t)).find_first_not_of('\0') == std::string::npos)
        found.push_back(path);
    }
  };
  search(run_directory, [](const std::string& name) {
    return std::any_of(own_files.begin(), own_files.end(),
                       [&](const OwnFile& file) { return name == file.name; });
  });
  search(run_directory + "/" + checkpoint_folder,
         [](const std::string& name) { return checkpointStep(name) >= 0; });
  return found;
}

} // namespace

std::vector<std::string> foreignPartialFiles(const std::string& run_directory) {
  std::vector<std::string> found;
  for (const PartialFile& file : partialFiles(run_directory))
    if (!isUnfinished(file)) found.push_back(file.path);
  return found;
}

void refuseLeftover(const std::string& run_directory, const std::string& file) {
  std::vector<std::string> removed{run_directory + "/" + output_request};
  for (const PartialFile& partial : partialFiles(run_directory)) removed.push_back(partial.path);
  std::error_code ignored;
  for (const std::string& path : removed)
    if (fs::equivalent(file, path, ignored))
      throw UserError(file + ": a run in this directory removes leftovers of this name; rename it");
}

void removeUnfinishedFiles(const std::string& run_directory) {
  std::error_code ignored;
  for (const PartialFile& file : partialFiles(run_directory))
    if (isUnfinished(file)) fs::remove(file.path, ignored);
  for (const std::string& path : mpiFiles(run_directory)) fs::remove(path, ignored);
}

} // namespace partita
