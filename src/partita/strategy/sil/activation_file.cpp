#include "partita/strategy/sil/activation_file.hpp"

#include "partita/config/files.hpp"
#include "partita/config/user_error.hpp"
#include "partita/core/error.hpp"
#include "partita/core/log.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <unistd.h>
#include <utility>

namespace partita {

namespace {

/// Calls `move(done)`, which reads or writes from byte `done` on, until all bytes are done: the system may do
/// a part at a time. Returns 0, or an errno value; `nothing`: if no byte can be moved without an error.
template <class Move>
int moveAll(std::int64_t bytes, int nothing, const Move& move) {
  for (std::int64_t done = 0; done < bytes;) {
    const ssize_t moved = move(done);
    if (moved < 0 && errno == EINTR) continue;
    if (moved <= 0) return moved < 0 ? errno : nothing;
    done += moved;
  }
  return 0;
}

} // namespace

ActivationFile::ActivationFile(std::string folder, std::int64_t bytes) : _folder(std::move(folder)) {
  std::string name = _folder + "/partita-activations-XXXXXX";
  _file = mkstemp(name.data());
  if (_file < 0) throw UserError(failure("cannot create a file", errno));
  unlink(name.c_str());
  const int full = allocateBlocks(_file, 0, static_cast<std::uint64_t>(bytes));
  if (full == 0) return;
  close(_file);
  throw SystemError(failure("not enough space for " + formatBytes(static_cast<double>(bytes)), full));
}

ActivationFile::~ActivationFile() {
  close(_file);
}

std::string ActivationFile::failure(const std::string& what, int reason) const {
  const std::string wrong = "strategy/cache_directory: " + what + " in '" + _folder +
                            "' for the activations of a frozen stage: " + std::strerror(reason);
  return wrong;
}

void ActivationFile::release() const {
  // At worst the space stays allocated until the process ends.
  [[maybe_unused]] const int result = ftruncate(_file, 0);
}

void ActivationFile::write(const char* from, std::int64_t bytes, std::int64_t at) const {
  const int reason = moveAll(bytes, ENOSPC, [&](std::int64_t done) {
    return pwrite(_file, from + done, static_cast<std::size_t>(bytes - done), static_cast<off_t>(at + done));
  });
  if (reason != 0) throw RunError(failure("cannot write", reason));
}

void ActivationFile::read(char* to, std::int64_t bytes, std::int64_t at) const {
  const int reason = moveAll(bytes, EIO, [&](std::int64_t done) {
    return pread(_file, to + done, static_cast<std::size_t>(bytes - done), static_cast<off_t>(at + done));
  });
  if (reason != 0) throw RunError(failure("cannot read", reason));
}

} // namespace partita
