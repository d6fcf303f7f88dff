#include "partita/comm/gradient_exchange.hpp"

#include "partita/core/region.hpp"

#include <algorithm>

namespace partita {

namespace {

using Span = Kokkos::View<Real*, Kokkos::LayoutRight, MemSpace, Kokkos::MemoryUnmanaged>;
using PinnedSpan = Kokkos::View<Real*, Kokkos::LayoutRight, PinnedSpace, Kokkos::MemoryUnmanaged>;

template <class View>
View reals(const TypedSpan& numbers) {
  return View(static_cast<Real*>(numbers.data), numbers.size);
}

} // namespace

GradientReducer::GradientReducer(const Communicator& peers, const TypedSpan& gradients, std::int64_t bucket,
                                 MessagePath path, std::int64_t& bytes, Precision wire)
    : _peers(peers), _gradients(gradients), _wire(wire), _sum(wire),
      _plain(wire == Precision::single && gradients.precision == wire),
      _bucket(std::max(bucket, (gradients.size + most_buckets - 1) / most_buckets)), _begin(gradients.size),
      _end(_begin), _bytes(bytes) {
  const bool in_place = path == MessagePath::direct && gradients.precision == wire;
  if (!in_place && peers.size() > 1) {
    const std::int64_t values =
        (gradients.size * bytesOf(wire) + bytesOf(Precision::single) - 1) / bytesOf(Precision::single);
    _staging = PinnedVector(
        Kokkos::view_alloc(Kokkos::WithoutInitializing, "partita::GradientReducer::staging"), values);
  }
  _pending.reserve(most_buckets);
  _held.reserve(most_buckets);
}

void GradientReducer::ready(const ExecSpace& space, std::int64_t begin, std::int64_t end) {
  if (_peers.size() == 1) return;
  PARTITA_REQUIRE(end == _begin, "gradients must become ready from the back");
  _begin = begin;
  for (const auto& [from, to] : _left_out)
    if (from < end && to > begin) setZero(space, std::max(from, begin), std::min(to, end));
  letMove();
  startFull(space);
  if (_begin > 0) return;
  for (; !_held.empty(); _held.pop_back()) reduce(space, _held.back().first, _held.back().second);
}

void GradientReducer::setZero(const ExecSpace& space, std::int64_t begin, std::int64_t end) const {
  const TypedSpan own = _gradients.part(begin, end);
  using Halves = Kokkos::View<std::uint16_t*, Kokkos::LayoutRight, MemSpace, Kokkos::MemoryUnmanaged>;
  if (own.precision == Precision::single)
    Kokkos::deep_copy(space, reals<Span>(own), Real(0));
  else
    Kokkos::deep_copy(space, Halves(static_cast<std::uint16_t*>(own.data), own.size), std::uint16_t(0));
}

/// The last bucket, at the front, takes what is left.
void GradientReducer::startFull(const ExecSpace& space) {
  while (_end - _begin >= _bucket || (_begin == 0 && _end > 0)) {
    const std::int64_t begin = std::max(_begin, _end - _bucket), end = _end;
    _end = begin;
    if (_holds && ++_cut % 3 == 0) {
      _held.emplace_back(begin, end);
    } else {
      reduce(space, begin, end);
    }
  }
}

/// MPI makes progress only while it is called.
void GradientReducer::letMove() {
  for (std::size_t i = _arrived; i < _pending.size(); ++i) _pending[i].request.test();
}

/// The values that MPI sums: the gradients themselves, or the staged copy.
TypedSpan GradientReducer::sent(std::int64_t begin, std::int64_t end) const {
  if (_staging.size() == 0) return _gradients.part(begin, end);
  return TypedSpan(_wire, _staging.data(), _gradients.size).part(begin, end);
}

void GradientReducer::reduce(const ExecSpace& space, std::int64_t begin, std::int64_t end) {
  const Region region(space, "partita::GradientReducer::reduce", Phase::communication);
  const TypedSpan own = _gradients.part(begin, end), out = sent(begin, end);
  if (out.data != own.data) {
    if (_plain) {
      Kokkos::deep_copy(space, reals<PinnedSpan>(out), reals<Span>(own));
    } else {
      convert(space, own, out, static_cast<Real>(_wire == Precision::single ? 1.0 / _scale : 1.0));
    }
  }
  fence(space, "partita::GradientReducer::reduce");
  _pending.push_back({Request(), begin, end, 0.0});
  PARTITA_MPI(MPI_Iallreduce(MPI_IN_PLACE, out.data, mpiCount(out.size), mpiType(_wire), _sum.get(),
                             _peers.get(),
                             _pending.back().request.start({WaitedFor::Kind::all, "sum of gradients"})));
  if (linkModel().slow()) _pending.back().due = _link.summed(out.bytes(), _peers.size());
  _bytes += out.bytes();
}

void GradientReducer::copyBack(const ExecSpace& space, std::int64_t begin, std::int64_t end) const {
  const TypedSpan own = _gradients.part(begin, end), in = sent(begin, end);
  if (in.data == own.data) return;
  if (_plain) {
    Kokkos::deep_copy(space, reals<Span>(own), reals<PinnedSpan>(in));
  } else {
    convert(space, in, own, static_cast<Real>(_wire == Precision::single ? _scale : 1.0));
  }
}

void GradientReducer::complete(const ExecSpace& space, Pending& pending) {
  const Region region(space, "partita::GradientReducer::complete", Phase::communication);
  pending.request.wait();
  if (linkModel().slow()) {
    Waiting waiting({WaitedFor::Kind::all, "sum of gradients"});
    for (; linkSeconds() < pending.due; waiting.pause()) letMove();
  }
  copyBack(space, pending.begin, pending.end);
}

void GradientReducer::arrive(const ExecSpace& space, std::int64_t begin, std::int64_t end,
                             const Arrived& arrived) {
  if (_begin > 0 || _pending.empty()) return; // the step has not got this far yet, or is over
  letMove();
  std::size_t wanted = _pending.size();
  while (wanted > _arrived && (_pending[wanted - 1].end <= begin || _pending[wanted - 1].begin >= end))
    --wanted;
  for (; _arrived < wanted; ++_arrived) {
    Pending& pending = _pending[_arrived];
    complete(space, pending);
    if (arrived) arrived(pending.begin, pending.end);
  }
  if (_arrived < _pending.size()) return;
  _pending.clear();
  _arrived = 0;
  _cut = 0;
  _begin = _end = _gradients.size;
}

} // namespace partita
