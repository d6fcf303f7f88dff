#include "partita/comm/reducer.hpp"

#include "partita/core/region.hpp"

namespace partita {

GradientReducer::GradientReducer(const Communicator& peers, const Vector& gradients, std::int64_t bucket,
                                 std::int64_t& bytes)
    : _peers(peers), _gradients(gradients), _bucket(bucket),
      _begin(static_cast<std::int64_t>(gradients.extent(0))), _end(_begin), _bytes(bytes) {
  if (!device_is_host && peers.size() > 1) {
    _staging = decltype(_staging)(
        Kokkos::view_alloc(Kokkos::WithoutInitializing, "partita::GradientReducer::staging"),
        gradients.extent(0));
  }
  _pending.reserve(64);
}

void GradientReducer::ready(const ExecSpace& space, std::int64_t begin, std::int64_t end) {
  if (_peers.size() == 1) return;
  PARTITA_REQUIRE(end == _begin, "gradients must become ready from the back");
  _begin = begin;
  for (Pending& pending : _pending) { // MPI moves on only while it is called
    int done = 0;
    PARTITA_MPI(MPI_Test(&pending.request, &done, MPI_STATUS_IGNORE));
  }
  if (_end - _begin >= _bucket) reduce(space, _begin, _end);
}

void GradientReducer::reduce(const ExecSpace& space, std::int64_t begin, std::int64_t end) {
  const Region region(space, "partita::GradientReducer::reduce", Phase::communication);
  Real* buffer = _gradients.data() + begin;
  const auto size = static_cast<std::size_t>(end - begin);
  if constexpr (!device_is_host) {
    Kokkos::View<Real*, Kokkos::LayoutRight, PinnedSpace> staging(_staging.data() + begin, size);
    Kokkos::deep_copy(space, staging, Vector(buffer, size));
    buffer = staging.data();
  }
  fence(space, "partita::GradientReducer::reduce");
  Pending pending{MPI_REQUEST_NULL, begin, end};
  PARTITA_MPI(MPI_Iallreduce(MPI_IN_PLACE, buffer, mpiCount(end - begin), mpiType<Real>(), MPI_SUM,
                             _peers.get(), &pending.request));
  _pending.push_back(pending);
  _bytes += static_cast<std::int64_t>(size * sizeof(Real));
  _end = begin;
}

void GradientReducer::finish(const ExecSpace& space) {
  if (_peers.size() == 1) return;
  if (_end > _begin) reduce(space, _begin, _end);
  const Region region(space, "partita::GradientReducer::finish", Phase::communication);
  for (Pending& pending : _pending) {
    wait(pending.request);
    if constexpr (!device_is_host) {
      const auto size = static_cast<std::size_t>(pending.end - pending.begin);
      Kokkos::View<Real*, Kokkos::LayoutRight, PinnedSpace> staging(_staging.data() + pending.begin, size);
      Kokkos::deep_copy(space, Vector(_gradients.data() + pending.begin, size), staging);
    }
  }
  _pending.clear();
  _begin = _end = static_cast<std::int64_t>(_gradients.extent(0));
}

} // namespace partita
