#pragma once

#include "partita/config/run_config.hpp"
#include "partita/core/typed_span.hpp"
#include "partita/core/types.hpp"

#include <memory>
#include <string>

namespace partita {

/// Where the state of an optimiser lies, and the folder of its files.
struct Placement {
  Offload offload = Offload::none;
  std::string directory;
};

/// A flat vector that lies on the device, in (pinned) memory of the host, or in a file mapped into memory,
/// which has no name and so goes with the process. A copy is the same vector, as that of a View is. The room
/// in the file is taken when it is made: a page that finds the disk full later would kill the process.
class StoredVector {
 public:
  using HostSpan = Kokkos::View<Real*, Kokkos::LayoutRight, PinnedSpace, Kokkos::MemoryUnmanaged>;

  StoredVector() = default;
  explicit StoredVector(const Vector& device) : _size(device.size()), _device(device) {}
  /// Zeros, aligned as buffers of tensors are. Throws one line: UserError where the folder takes no file,
  /// RunError where it has no room.
  StoredVector(const Placement& placement, const std::string& label, std::int64_t size);

  /// Takes so many bytes of the folder until the result goes: a trial. Throws UserError where the folder
  /// takes no file, SystemError where it has no room; null where no file is wanted.
  static std::shared_ptr<void> takeRoom(const Placement& placement, std::int64_t bytes);

  std::int64_t size() const { return _size; }
  const Vector& device() const { return _device; } ///< empty where it lies elsewhere
  /// Where the host can read and write it; null where it lies on a device of its own. Whoever reads must know
  /// that no kernel is at work on it.
  Real* onHost() const { return offloaded() ? _host : device_is_host ? _device.data() : nullptr; }
  bool offloaded() const { return _size > 0 && _device.size() == 0; }
  bool inFile() const { return _in_file; } ///< so that its pages may have to come from a disk

  /// Copy values from `begin` on into a buffer on the device, or back. Does not wait, where `space` does not.
  void load(const ExecSpace& space, std::int64_t begin, const Vector& to) const;
  void save(const ExecSpace& space, std::int64_t begin, const Vector& from) const;
  /// The same for memory of the host; these wait.
  void copyOut(const ExecSpace& space, std::int64_t begin, std::int64_t count, Real* to) const;
  void copyIn(const ExecSpace& space, const Real* from) const; ///< all of it
  void clear(const ExecSpace& space) const;

 private:
  HostSpan part(std::int64_t begin, std::int64_t count) const;

  std::int64_t _size = 0;
  Vector _device;
  Real* _host = nullptr;
  bool _in_file = false;
  std::shared_ptr<void> _owner; ///< of the memory on the host
};

/// The parameters of a stage as an optimiser sees them: flat, with their gradients in the same precision.
/// Numbers of 16 bits are the rounded copies of `masters`, which alone are updated; in single precision there
/// are none.
struct ParameterBuffers {
  TypedSpan parameters, gradients;
  StoredVector masters;
};

} // namespace partita
