#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

namespace partita {

/// Throws "PATH: WHAT: the system's words for `reason`", an errno value: SystemError if the disk is full or
/// broken, UserError otherwise.
[[noreturn]] void failFile(const std::string& path, const std::string& what, int reason);

/// Whether there is a regular file at `path`. Throws UserError for anything else, since reading it might
/// never end: a folder ("PATH: is a folder" + `instead`), a pipe or a device; and if the system cannot tell,
/// because of missing permission or a loop of links.
bool regularFileExists(const std::string& path, const std::string& instead = ", not a file");

/// What is in a folder, in any order; what could be listed before an error.
std::vector<std::filesystem::path> entriesOf(const std::string& folder, std::error_code& error);

/// For a message about a file that is not there: "; did you mean 'x'?" if the folder has a file
/// with nearly this name, "; there is no folder 'x'", or nothing.
std::string nearestInFolder(const std::string& name);

/// The whole text of a regular file of at most `most_bytes`. Throws UserError, or SystemError if the disk
/// fails. The caller must make sure that the file exists.
std::string readTextFile(const std::string& path, std::uint64_t most_bytes);

/// The first bytes of a regular file; fewer if it is shorter. Throws UserError if it cannot be read: it may
/// be somebody's.
std::string firstBytes(const std::string& path, std::size_t count);

/// The errno value of reading a file from front to back; 0 if the system can read all of it, so the fault is
/// in its content.
int readFailure(const std::string& path);

/// Whether `path` still leads to the file that is open as `descriptor`: it was not removed, and no
/// other file has taken its name.
bool leadsTo(const std::string& path, int descriptor);

/// Allocates `bytes` bytes of an open file after the first `from` ones, so that writing to them cannot fail
/// for lack of space. Returns 0 or an errno value.
int allocateBlocks(int file, std::uint64_t from, std::uint64_t bytes);

/// The text with each byte that does not belong to valid UTF-8 replaced by U+FFFD. File names may contain any
/// bytes; JSON, TOML and HDF5 attributes may not.
std::string validUtf8(const std::string& text);

} // namespace partita
