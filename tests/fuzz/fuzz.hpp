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

/// Ends the process, which makes the current input a finding.
[[noreturn]] inline void finding(const std::string& what) {
  std::fprintf(stderr, "finding: %s\n", what.c_str());
  std::abort();
}

inline void require(bool condition, const std::string& what) {
  if (!condition) finding(what);
}

/// Limit on the CPU seconds of a reader, sanitizers included. libFuzzer itself measures wall-clock time, but
/// a busy machine may stop a process for a minute.
constexpr double longest = 2.0;

/// Runs `action`. Returns true if it finishes and false if it rejects its input with UserError, whose
/// messages must be single lines. Any other exception is a finding, and so is exceeding the time limit three
/// times.
template <class Action>
bool accepted(Action action) {
  for (int attempt = 1;; ++attempt) {
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
    if (seconds < longest) return !refused;
    require(attempt < 3, "took " + std::to_string(seconds) + " s");
  }
}

/// A file in memory, because a disk would take most of the time of a short read.
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

  /// Readers open it like any other file, each from its beginning.
  std::string path() const { return "/proc/self/fd/" + std::to_string(_descriptor); }

 private:
  int _descriptor;
};

} // namespace partita::fuzz

/// The entry point of libFuzzer; 0 means that the input may join the corpus.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
