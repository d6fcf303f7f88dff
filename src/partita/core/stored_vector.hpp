#pragma once

#include "partita/config/run_config.hpp"
#include "partita/core/typed_span.hpp"
#include "partita/core/types.hpp"

#include <memory>
#include <string>
#include <vector>

namespace partita {

/// Where the state of an optimiser is stored, and the folder of its files.
struct Placement {
  Offload offload = Offload::none;
  std::string directory;
};
inline Placement placementOf(const OptimiserSection& section) {
  return {section.offload, section.offload_directory};
}

/// A flat vector stored on the device, in (pinned) host memory, or in a memory-mapped file. The file has no
/// name and so disappears with the process. Copies are shallow, as with Kokkos::View. Disk space is allocated
/// on construction, since a page fault on a full disk would kill the process.
class StoredVector {
 public:
  using HostSpan = Kokkos::View<Real*, Kokkos::LayoutRight, PinnedSpace, Kokkos::MemoryUnmanaged>;

  StoredVector() = default;
  explicit StoredVector(const Vector& device) : _size(device.size()), _device(device) {}
  /// Filled with zeros, aligned like tensor buffers. Throws with a one-line message: UserError if no file can
  /// be created in the folder, RunError if the folder has no space left.
  StoredVector(const Placement& placement, const std::string& label, std::int64_t size);

  /// Reserves `bytes` bytes in the folder until the returned pointer is destroyed, for the vectors that are
  /// made there meanwhile, one after another or at once. Throws UserError if no file can be created in the
  /// folder, SystemError if it has no space left; returns null if the placement needs no file.
  static std::shared_ptr<void> takeRoom(const Placement& placement, std::int64_t bytes);

  std::int64_t size() const { return _size; }
  const Vector& device() const { return _device; } ///< empty if stored elsewhere
  /// Pointer through which the host can read and write the vector; null if it is stored on a separate device.
  /// The caller must know that no kernel is using it.
  Real* onHost() const { return offloaded() ? _host : device_is_host ? _device.data() : nullptr; }
  bool offloaded() const { return _size > 0 && _device.size() == 0; }
  bool inFile() const { return _in_file; } ///< its pages may have to be read from disk

  /// These copy values, starting at `begin`, to or from a buffer on the device. They wait only if operations
  /// on `space` do.
  void load(const ExecSpace& space, std::int64_t begin, const Vector& to) const;
  void save(const ExecSpace& space, std::int64_t begin, const Vector& from) const;
  /// The same for host memory; these wait.
  void copyOut(const ExecSpace& space, std::int64_t begin, std::int64_t count, Real* to) const;
  std::vector<Real> values(const ExecSpace& space) const;      ///< a copy of all of it
  void copyIn(const ExecSpace& space, const Real* from) const; ///< all of it
  void clear(const ExecSpace& space) const;

 private:
  HostSpan part(std::int64_t begin, std::int64_t count) const;

  std::int64_t _size = 0;
  Vector _device;
  Real* _host = nullptr;
  bool _in_file = false;
  std::shared_ptr<void> _owner; ///< of the host memory
};

/// The parameters of a stage as seen by an optimiser: flat, with gradients in the same precision. 16-bit
/// parameters are rounded copies of `masters`, and only the masters are updated; in single precision there
/// are no masters.
struct ParameterBuffers {
  TypedSpan parameters, gradients;
  StoredVector masters;
};

} // namespace partita
