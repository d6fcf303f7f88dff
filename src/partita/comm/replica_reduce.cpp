#include "partita/comm/replica_reduce.hpp"

#include "partita/comm/wait.hpp"
#include "partita/comm/wait_times.hpp"
#include "partita/core/loops.hpp"
#include "partita/core/region.hpp"

namespace partita {

namespace {

struct Divide {
  Real *values, by;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i) const { values[i] /= by; }
};

} // namespace

ReplicaReduce::ReplicaReduce(const Communicator& peers, MessagePath path, std::int64_t largest,
                             std::int64_t& bytes)
    : _peers(peers), _path(path), _bytes(bytes) {
  if (path != MessagePath::staged) return;
  _staging = decltype(_staging)(
      Kokkos::view_alloc(Kokkos::WithoutInitializing, "partita::ReplicaReduce::staging"), largest);
}

void ReplicaReduce::sum(const ExecSpace& space, const Vector& values) const {
  if (values.extent(0) == 0) return;
  const Region region(space, "partita::ReplicaReduce::sum", Phase::communication);
  const decltype(_staging) staged(_staging.data(), _path == MessagePath::staged ? values.extent(0) : 0);
  Real* buffer = values.data();
  if (_path == MessagePath::staged) {
    Kokkos::deep_copy(space, staged, values);
    buffer = staged.data();
  }
  fence(space, "partita::ReplicaReduce::sum");
  Request request;
  PARTITA_MPI(MPI_Iallreduce(MPI_IN_PLACE, buffer, mpiCount(values.extent(0)), mpiType<Real>(), MPI_SUM,
                             _peers.get(), request.start({WaitedFor::Kind::all, waits::batch_statistics})));
  request.wait();
  _bytes += values.extent(0) * sizeof(Real);
  if (_path == MessagePath::staged) Kokkos::deep_copy(space, values, staged);
}

void ReplicaReduce::average(const ExecSpace& space, const Vector& values) const {
  sum(space, values);
  forEachValue(space, "partita::ReplicaReduce::average_kernel", values.extent(0),
               Divide{values.data(), static_cast<Real>(_peers.size())});
}

} // namespace partita
