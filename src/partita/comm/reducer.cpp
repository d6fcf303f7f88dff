#include "partita/comm/reducer.hpp"

#include "partita/core/region.hpp"

namespace partita {

GradientReducer::GradientReducer(const Communicator& peers, const Vector& gradients, std::int64_t bucket,
                                 MessagePath path, std::int64_t& bytes)
    : _peers(peers), _gradients(gradients), _path(path), _bucket(bucket),
      _begin(static_cast<std::int64_t>(gradients.extent(0))), _end(_begin), _bytes(bytes) {
  if (path == MessagePath::staged && peers.size() > 1) {
    _staging =
        PinnedVector(Kokkos::view_alloc(Kokkos::WithoutInitializing, "partita::GradientReducer::staging"),
                     gradients.extent(0));
  }
  _pending.reserve(64);
}

void GradientReducer::ready(const ExecSpace& space, std::int64_t begin, std::int64_t end) {
  if (_peers.size() == 1) return;
  PARTITA_REQUIRE(end == _begin, "gradients must become ready from the back");
  _begin = begin;
  for (Pending& pending : _pending) pending.request.test();
  if (_end - _begin >= _bucket) reduce(space, _begin, _end);
}

GradientReducer::PinnedVector GradientReducer::staged(std::int64_t begin, std::int64_t end) const {
  return PinnedVector(_staging.data() + begin, static_cast<std::size_t>(end - begin));
}

void GradientReducer::reduce(const ExecSpace& space, std::int64_t begin, std::int64_t end) {
  const Region region(space, "partita::GradientReducer::reduce", Phase::communication);
  Real* buffer = _gradients.data() + begin;
  const auto size = static_cast<std::size_t>(end - begin);
  if (_path == MessagePath::staged) {
    Kokkos::deep_copy(space, staged(begin, end), Vector(buffer, size));
    buffer = _staging.data() + begin;
  }
  fence(space, "partita::GradientReducer::reduce");
  _pending.push_back({Request(), begin, end});
  PARTITA_MPI(MPI_Iallreduce(MPI_IN_PLACE, buffer, mpiCount(end - begin), mpiType<Real>(), MPI_SUM,
                             _peers.get(),
                             _pending.back().request.start({WaitedFor::Kind::all, "sum of gradients"})));
  const auto bytes = static_cast<std::int64_t>(size * sizeof(Real));
  if (linkModel().slow()) _due = _link.summed(bytes, _peers.size());
  _bytes += bytes;
  _end = begin;
}

void GradientReducer::finish(const ExecSpace& space) {
  if (_peers.size() == 1) return;
  if (_end > _begin) reduce(space, _begin, _end);
  const Region region(space, "partita::GradientReducer::finish", Phase::communication);
  for (Pending& pending : _pending) {
    pending.request.wait();
    if (_path == MessagePath::direct) continue;
    const auto size = static_cast<std::size_t>(pending.end - pending.begin);
    Kokkos::deep_copy(space, Vector(_gradients.data() + pending.begin, size),
                      staged(pending.begin, pending.end));
  }
  if (linkModel().slow()) {
    Waiting waiting({WaitedFor::Kind::all, "sum of gradients"});
    while (linkSeconds() < _due) waiting.pause();
  }
  _pending.clear();
  _begin = _end = static_cast<std::int64_t>(_gradients.extent(0));
}

} // namespace partita
