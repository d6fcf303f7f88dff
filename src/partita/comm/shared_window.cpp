#include "partita/comm/shared_window.hpp"

#include "partita/comm/agree.hpp"
#include "partita/comm/link.hpp"
#include "partita/config/user_error.hpp"
#include "partita/core/log.hpp"

#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>
#include <sys/statvfs.h>
#include <unistd.h>

namespace partita {

namespace {

constexpr std::int64_t alignment = 128; // bytes

/// The ranks of this node, or of the part of it that emulates one.
Communicator sharingRanks(const Communicator& world) {
  Communicator node = world.node();
  const std::int64_t ranks = linkModel().node;
  if (ranks == 0) return node;
  return node.split(static_cast<int>(world.rank() / ranks), world.rank());
}

/// The folder in which the MPI library keeps windows that several ranks share; empty if it is not known.
std::string windowFolder() {
#ifdef OPEN_MPI
  if (const char* const chosen = std::getenv("OMPI_MCA_osc_sm_backing_directory")) return chosen;
#endif
#if defined(OPEN_MPI) || defined(MPICH_VERSION)
  const char* const usual = "/dev/shm";
  return access(usual, W_OK) == 0 ? usual : "";
#else
  return "";
#endif
}

/// Some MPI libraries do not notice that there is no room; the system then kills a rank that writes there.
void requireRoom(std::int64_t bytes) {
  const std::string folder = windowFolder();
  struct statvfs disk {};
  if (folder.empty() || statvfs(folder.c_str(), &disk) != 0) return; // the MPI library may report it
  if (disk.f_blocks == 0) return;                                    // the folder has no limit of its own
  const auto needed = static_cast<double>(bytes),
             available = static_cast<double>(disk.f_bavail) * static_cast<double>(disk.f_frsize);
  if (available < needed)
    throw SystemError("this strategy needs " + formatBytes(needed) + " of shared memory in " + folder +
                      ", but only " + formatBytes(available) + " is free");
}

} // namespace

SharedWindow::SharedWindow(const Communicator& world, std::int64_t bytes)
    : _node(sharingRanks(world)), _bytes(bytes), _with_first(_node.minimum(world.rank()) == 0) {
  collectively(world, [&] { // a single rank shares no memory
    if (_with_first && _node.rank() == 0 && _node.size() > 1) requireRoom(_bytes + alignment);
  });
  if (_with_first) allocate();
  collectively(world, [&] {
    if (!_with_first) return;
    int* model = nullptr;
    int found = 0;
    PARTITA_MPI(MPI_Win_get_attr(_window, MPI_WIN_MODEL, static_cast<void*>(&model), &found));
    if (found == 0 || *model != MPI_WIN_UNIFIED)
      throw UserError("the MPI library does not provide the shared memory that this strategy needs "
                      "(MPI_WIN_UNIFIED)");
  });
}

/// The first rank of the node holds the memory; offsets within a page are the same on all ranks.
void SharedWindow::allocate() {
  const bool first = _node.rank() == 0;
  void* own = nullptr;
  const int error = MPI_Win_allocate_shared(first ? _bytes + alignment : 0, 1, MPI_INFO_NULL, _node.get(),
                                            static_cast<void*>(&own), &_window);
  if (error != MPI_SUCCESS) { // other ranks may still wait in this call: the job ends
    const std::string folder = windowFolder();
    const std::string place = folder.empty() ? "a folder of the MPI library" : folder;
    throw SystemError("this strategy needs " + formatBytes(static_cast<double>(_bytes + alignment)) +
                      " of shared memory in " + place + "; " +
                      describeMpiError("MPI_Win_allocate_shared", error));
  }
  MPI_Aint size = 0;
  int unit = 0;
  void* begin = nullptr;
  PARTITA_MPI(MPI_Win_shared_query(_window, 0, &size, &unit, static_cast<void*>(&begin)));
  const auto address = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(begin) % alignment);
  const std::int64_t offset = (alignment - address) % alignment;
  PARTITA_REQUIRE(_node.minimum(offset) == _node.maximum(offset),
                  "a shared window has another alignment on another rank");
  _data = static_cast<char*>(begin) + offset;
  PARTITA_MPI(MPI_Win_lock_all(MPI_MODE_NOCHECK, _window));
  if (first) std::memset(_data, 0, static_cast<std::size_t>(_bytes));
  synchronise();
  _node.barrier();
  synchronise();
}

SharedWindow::~SharedWindow() {
  if (_window == MPI_WIN_NULL || std::uncaught_exceptions() > 0) return;
  _node.barrier(); // MPI_Win_free blocks: wait for missing ranks here, where the watchdog sees it
  MPI_Win_unlock_all(_window);
  MPI_Win_free(&_window);
}

void SharedWindow::synchronise() const {
  if (_window != MPI_WIN_NULL) PARTITA_MPI(MPI_Win_sync(_window));
}

} // namespace partita
