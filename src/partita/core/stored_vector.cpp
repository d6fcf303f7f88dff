#include "partita/core/stored_vector.hpp"

#include "partita/config/user_error.hpp"
#include "partita/core/aligned.hpp"
#include "partita/core/error.hpp"
#include "partita/core/log.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

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

/// Allocates the blocks of a file; returns 0 or an error number. Signals may interrupt it on some file
/// systems.
int allocate(int file, std::size_t bytes) {
  int error = EINTR;
  while (error == EINTR) error = posix_fallocate(file, 0, static_cast<off_t>(bytes));
  return error;
}

/// A memory-mapped file of zeros whose blocks are already allocated.
std::shared_ptr<void> mapFile(const std::string& folder, std::size_t bytes) {
  const int file = makeFile(folder);
  const int full = allocate(file, bytes);
  void* memory = full == 0 ? mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
  const int reason = errno;
  close(file);
  if (full != 0) throw RunError(noRoom(bytes, folder, full));
  if (memory == MAP_FAILED)
    throw RunError(
        failure("cannot map a file of " + formatBytes(static_cast<double>(bytes)), folder, reason));
  return {memory, [bytes](void* mapped) { munmap(mapped, bytes); }};
}

} // namespace

std::shared_ptr<void> StoredVector::takeRoom(const Placement& placement, std::int64_t bytes) {
  if (placement.offload != Offload::file || bytes == 0) return nullptr;
  const std::shared_ptr<int> file(new int(makeFile(placement.directory)), [](const int* descriptor) {
    close(*descriptor);
    delete descriptor;
  });
  const int reason = allocate(*file, bytes);
  if (reason != 0) throw SystemError(noRoom(bytes, placement.directory, reason));
  return file;
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
    Kokkos::deep_copy(space, to, Vector(_device.data() + begin, to.size()));
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
    Kokkos::deep_copy(space, Vector(_device.data() + begin, from.size()), from);
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
  if (!offloaded()) Kokkos::deep_copy(space, Outside(to, values), Vector(_device.data() + begin, values));
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
