#pragma once

#include "partita/config/write_deck.hpp"
#include "partita/strategy/hogbatch/decisions.hpp"
#include "partita/train/history.hpp"
#include "partita/train/worker_history.hpp"

#include <array>
#include <string>
#include <string_view>

namespace partita {

/// The names that a run uses in its directory, and how to tell its files from those of others.

constexpr const char* checkpoint_folder = "checkpoints";
constexpr std::string_view hdf5_mark = "\x89HDF\r\n\x1a\n";

/// What a file says about a run. Histories and logs grow: a run that continues appends to them.
enum class Content { settings, history, decisions, result };

/// A file of a run directory and how its text begins; HDF5 files have their own mark.
struct OwnFile {
  const char* name;
  std::string_view mark;
  Content content;

  bool result() const { return content != Content::settings; }
  /// Does writing go through a link? HDF5 files are renamed, which replaces a link.
  bool writtenInPlace() const { return mark != hdf5_mark; }
  bool grows() const { return content == Content::history || content == Content::decisions; }
};
constexpr std::array<OwnFile, 7> own_files{
    {{"deck.toml", effective_deck_mark, Content::settings},
     {"history.csv", history_mark, Content::history},
     {"workers.csv", workers_mark, Content::history},
     {"decisions.csv", decisions_mark, Content::decisions},
     {"summary.json", "{\n  \"strategy\": ", Content::result},
     {"trace.json", R"({"displayTimeUnit": "ms", "traceEvents": [)", Content::result},
     {"parameters.h5", hdf5_mark, Content::result}}};

/// Is there anything of this name, even a link that leads nowhere?
bool exists(const std::string& path);
/// Returns whether the file begins with the mark. This includes an empty file, which a full disk may leave.
bool begins(const std::string& path, std::string_view mark);

/// Has the file more than one line? A history without rows is no loss.
bool saysSomething(const std::string& path);

/// Where a file with the name of one of our HDF5 files comes from: it may be removed only if it is proved to
/// be ours. Throws UserError if it cannot be read, which proves nothing.
enum class Origin { ours, damaged, foreign };
Origin originOf(const std::string& path);
/// Returns whether the folder has this file, and it is not somebody else's.
bool isOurs(const std::string& folder, const OwnFile& file);
/// Returns whether another program has completed the file. HDF5 opens no file of ours that was not completed,
/// or finds the attribute in it.
bool isForeignHdf5(const std::string& path);

} // namespace partita
