#pragma once

#include "partita/config/user_error.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

namespace partita::fuzz {

/// Ends the process, and so makes the input at hand a finding.
[[noreturn]] inline void finding(const std::string& what) {
  std::fprintf(stderr, "finding: %s\n", what.c_str());
  std::abort();
}

inline void require(bool condition, const std::string& what) {
  if (!condition) finding(what);
}

/// Seconds of the processor that a reader may take, sanitizers included. Not of the clock, by which libFuzzer
/// itself counts: a busy machine may stop a process for a minute.
constexpr double longest = 2.0;

/// Runs `action`: true where it ends, false where it refuses its input with UserError, whose messages must be
/// single lines. Whatever else it throws is a finding, as is a long time.
template <class Action>
bool accepted(Action action) {
  const std::clock_t begin = std::clock();
  bool refused = false;
  try {
    action();
  } catch (const UserError& error) {
    refused = true;
    for (const std::string& message : error.messages())
      require(!message.empty() && message.find('\n') == std::string::npos, "not one line: " + message);
  }
  const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  require(seconds < longest, "took " + std::to_string(seconds) + " s");
  return !refused;
}

/// A file that lies in memory: a disk would be most of the time of a short read.
class MemoryFile {
 public:
  MemoryFile() : _descriptor(memfd_create("partita", MFD_CLOEXEC)) {
    require(_descriptor >= 0, "memfd_create failed");
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile() { close(_descriptor); }

  void assign(const std::uint8_t* data, std::size_t size) const {
    require(ftruncate(_descriptor, 0) == 0 &&
                pwrite(_descriptor, data, size, 0) == static_cast<ssize_t>(size),
            "the file in memory cannot be written");
  }

  /// Readers open it as any other file, each from its beginning.
  std::string path() const { return "/proc/self/fd/" + std::to_string(_descriptor); }

 private:
  int _descriptor;
};

} // namespace partita::fuzz

/// What libFuzzer calls; 0 says that the input may join the corpus.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
