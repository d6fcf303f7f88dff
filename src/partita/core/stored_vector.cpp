#include "partita/core/stored_vector.hpp"

#include "partita/config/files.hpp"
#include "partita/config/user_error.hpp"
#include "partita/core/aligned.hpp"
#include "partita/core/error.hpp"
#include "partita/core/log.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <tuple>
#include <unistd.h>
#include <utility>

namespace partita {

namespace {

using Outside = Kokkos::View<Real*, Kokkos::LayoutRight, HostSpace, Kokkos::MemoryUnmanaged>;

std::string failure(const std::string& what, const std::string& folder, int reason) {
  const std::string wrong = "optimiser/offload_directory: " + what + " in '" + folder +
                            "' for the optimiser state: " + std::strerror(reason);
  return wrong;
}

/// Creates a file without a name; returns its descriptor.
int makeFile(const std::string& folder) {
  std::string name = folder + "/partita-optimiser-XXXXXX";
  const int file = mkstemp(name.data());
  if (file < 0) throw UserError(failure("cannot create a file", folder, errno));
  unlink(name.c_str());
  return file;
}

std::string noRoom(std::size_t bytes, const std::string& folder, int reason) {
  return failure("not enough space for " + formatBytes(static_cast<double>(bytes)), folder, reason);
}

/// Disk space that vectors to come will need: the blocks of a file without a name. A vector has its share of
/// them as long as it exists.
class DiskRoom {
 public:
  DiskRoom(std::string folder, std::size_t bytes)
      : _folder(std::move(folder)), _file(makeFile(_folder)), _bytes(bytes) {
    const int full = allocateBlocks(_file, 0, bytes);
    if (full == 0) return;
    close(_file);
    throw SystemError(noRoom(bytes, _folder, full));
  }
  DiskRoom(const DiskRoom&) = delete;
  DiskRoom& operator=(const DiskRoom&) = delete;
  ~DiskRoom() { close(_file); }

  /// Frees the space of a vector of `bytes` bytes. Returns how many of them were reserved.
  std::size_t give(const std::string& folder, std::size_t bytes) {
    const std::size_t share = folder == _folder ? std::min(bytes, _bytes) : 0;
    if (share == 0 || ftruncate(_file, static_cast<off_t>(_bytes - share)) != 0) return 0;
    _bytes -= share;
    return share;
  }
  /// If another program was faster, the next vector has to find its own space.
  void takeBack(std::size_t share) {
    if (share == 0) return;
    if (allocateBlocks(_file, _bytes, share) == 0) {
      _bytes += share;
    } else { // it may have got a part, which nobody could use
      std::ignore = ftruncate(_file, static_cast<off_t>(_bytes));
    }
  }

 private:
  std::string _folder;
  int _file;
  std::size_t _bytes;
};

/// The space that the run has reserved.
std::weak_ptr<DiskRoom>& reservedRoom() {
  static std::weak_ptr<DiskRoom> room;
  return room;
}

/// A memory-mapped file of zeros whose blocks are already allocated.
std::shared_ptr<void> mapFile(const std::string& folder, std::size_t bytes) {
  const std::weak_ptr<DiskRoom> reserved = reservedRoom();
  std::size_t share = 0;
  if (const auto room = reserved.lock()) share = room->give(folder, bytes);
  const int file = makeFile(folder);
  const int full = allocateBlocks(file, 0, bytes);
  void* memory = full == 0 ? mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
  const int reason = errno;
  close(file);
  if (full != 0) throw RunError(noRoom(bytes, folder, full));
  if (memory == MAP_FAILED)
    throw RunError(
        failure("cannot map a file of " + formatBytes(static_cast<double>(bytes)), folder, reason));
  return {memory, [bytes, share, reserved](void* mapped) {
            munmap(mapped, bytes);
            if (const auto room = reserved.lock()) room->takeBack(share);
          }};
}

} // namespace

std::shared_ptr<void> StoredVector::takeRoom(const Placement& placement, std::int64_t bytes) {
  if (placement.offload != Offload::file || bytes == 0) return nullptr;
  const auto room = std::make_shared<DiskRoom>(placement.directory, static_cast<std::size_t>(bytes));
  reservedRoom() = room;
  return room;
}

StoredVector::StoredVector(const Placement& placement, const std::string& label, std::int64_t size)
    : _size(size) {
  if (size == 0 || placement.offload == Offload::none) {
    _device = makeAligned<Vector>(label, size);
  } else if (placement.offload == Offload::host) {
    const auto memory = std::make_shared<PinnedVector>(makeAligned<PinnedVector>(label, size));
    _host = memory->data();
    _owner = memory;
  } else {
    _owner = mapFile(placement.directory, size * sizeof(Real));
    _host = static_cast<Real*>(_owner.get());
    _in_file = true;
  }
}

StoredVector::HostSpan StoredVector::part(std::int64_t begin, std::int64_t count) const {
  PARTITA_REQUIRE(begin >= 0 && begin + count <= _size, "a part beyond the end of a stored vector");
  return HostSpan(_host + begin, count);
}

void StoredVector::load(const ExecSpace& space, std::int64_t begin, const Vector& to) const {
  if (!offloaded()) {
    Kokkos::deep_copy(space, to, subvector(_device, begin, to.size()));
    return;
  }
  if (device_is_host && _in_file) { // possibly on a thread unknown to Kokkos
    std::memcpy(to.data(), part(begin, to.size()).data(), to.size() * sizeof(Real));
    return;
  }
  Kokkos::deep_copy(space, to, part(begin, to.size()));
}

void StoredVector::save(const ExecSpace& space, std::int64_t begin, const Vector& from) const {
  if (!offloaded()) {
    Kokkos::deep_copy(space, subvector(_device, begin, from.size()), from);
    return;
  }
  if (device_is_host && _in_file) {
    std::memcpy(part(begin, from.size()).data(), from.data(), from.size() * sizeof(Real));
    return;
  }
  Kokkos::deep_copy(space, part(begin, from.size()), from);
}

void StoredVector::copyOut(const ExecSpace& space, std::int64_t begin, std::int64_t count, Real* to) const {
  const std::size_t values = count;
  if (!offloaded()) Kokkos::deep_copy(space, Outside(to, values), subvector(_device, begin, values));
  fence(space, "partita::StoredVector::copyOut");
  if (offloaded()) std::memcpy(to, part(begin, count).data(), values * sizeof(Real));
}

std::vector<Real> StoredVector::values(const ExecSpace& space) const {
  std::vector<Real> values(static_cast<std::size_t>(_size));
  copyOut(space, 0, _size, values.data());
  return values;
}

void StoredVector::copyIn(const ExecSpace& space, const Real* from) const {
  const std::size_t values = _size;
  if (!offloaded())
    Kokkos::deep_copy(space, _device,
                      Kokkos::View<const Real*, Kokkos::LayoutRight, HostSpace>(from, values));
  fence(space, "partita::StoredVector::copyIn");
  if (offloaded()) std::memcpy(_host, from, values * sizeof(Real));
}

void StoredVector::clear(const ExecSpace& space) const {
  if (!offloaded()) Kokkos::deep_copy(space, _device, Real(0));
  fence(space, "partita::StoredVector::clear");
  if (offloaded()) std::memset(_host, 0, _size * sizeof(Real));
}

} // namespace partita
