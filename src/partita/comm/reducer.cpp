#include "partita/comm/reducer.hpp"

#include "partita/core/region.hpp"

namespace partita {

namespace {

using Span = Kokkos::View<Real*, Kokkos::LayoutRight, MemSpace, Kokkos::MemoryUnmanaged>;
using PinnedSpan = Kokkos::View<Real*, Kokkos::LayoutRight, PinnedSpace, Kokkos::MemoryUnmanaged>;

template <class View>
View reals(const Numbers& numbers) {
  return View(static_cast<Real*>(numbers.data), static_cast<std::size_t>(numbers.size));
}

} // namespace

GradientReducer::GradientReducer(const Communicator& peers, const Numbers& gradients, std::int64_t bucket,
                                 MessagePath path, std::int64_t& bytes, Precision wire)
    : _peers(peers), _gradients(gradients), _wire(wire), _sum(wire),
      _plain(wire == Precision::single && gradients.precision == wire), _bucket(bucket),
      _begin(gradients.size), _end(_begin), _bytes(bytes) {
  const bool in_place = path == MessagePath::direct && gradients.precision == wire;
  if (!in_place && peers.size() > 1) {
    const std::int64_t values =
        (gradients.size * bytesOf(wire) + bytesOf(Precision::single) - 1) / bytesOf(Precision::single);
    _staging =
        PinnedVector(Kokkos::view_alloc(Kokkos::WithoutInitializing, "partita::GradientReducer::staging"),
                     static_cast<std::size_t>(values));
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

/// What MPI sums: the gradients themselves, or the copy that is staged.
Numbers GradientReducer::sent(std::int64_t begin, std::int64_t end) const {
  if (_staging.size() == 0) return _gradients.part(begin, end);
  return Numbers(_wire, _staging.data(), _gradients.size).part(begin, end);
}

void GradientReducer::reduce(const ExecSpace& space, std::int64_t begin, std::int64_t end) {
  const Region region(space, "partita::GradientReducer::reduce", Phase::communication);
  const Numbers own = _gradients.part(begin, end), out = sent(begin, end);
  if (out.data != own.data) {
    if (_plain) {
      Kokkos::deep_copy(space, reals<PinnedSpan>(out), reals<Span>(own));
    } else {
      convert(space, own, out, static_cast<Real>(_wire == Precision::single ? 1.0 / _scale : 1.0));
    }
  }
  fence(space, "partita::GradientReducer::reduce");
  _pending.push_back({Request(), begin, end});
  PARTITA_MPI(MPI_Iallreduce(MPI_IN_PLACE, out.data, mpiCount(out.size), mpiType(_wire), _sum.get(),
                             _peers.get(),
                             _pending.back().request.start({WaitedFor::Kind::all, "sum of gradients"})));
  if (linkModel().slow()) _due = _link.summed(out.bytes(), _peers.size());
  _bytes += out.bytes();
  _end = begin;
}

void GradientReducer::copyBack(const ExecSpace& space, std::int64_t begin, std::int64_t end) const {
  const Numbers own = _gradients.part(begin, end), in = sent(begin, end);
  if (in.data == own.data) return;
  if (_plain) {
    Kokkos::deep_copy(space, reals<Span>(own), reals<PinnedSpan>(in));
  } else {
    convert(space, in, own, static_cast<Real>(_wire == Precision::single ? _scale : 1.0));
  }
}

void GradientReducer::arrive(const ExecSpace& space, std::int64_t begin) {
  if (_peers.size() == 1) return;
  if (_end > _begin) reduce(space, _begin, _end);
  const Region region(space, "partita::GradientReducer::arrive", Phase::communication);
  for (; _arrived < _pending.size() && _pending[_arrived].end > begin; ++_arrived) {
    Pending& pending = _pending[_arrived];
    pending.request.wait();
    copyBack(space, pending.begin, pending.end);
  }
  if (linkModel().slow()) {
    Waiting waiting({WaitedFor::Kind::all, "sum of gradients"});
    while (linkSeconds() < _due) waiting.pause();
  }
  if (begin > 0) return;
  _pending.clear();
  _arrived = 0;
  _begin = _end = _gradients.size;
}

} // namespace partita
