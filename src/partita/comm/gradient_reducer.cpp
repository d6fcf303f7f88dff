#include "partita/comm/gradient_reducer.hpp"

#include "partita/core/region.hpp"

#include <algorithm>

namespace partita {

namespace {

using Span = Kokkos::View<Real*, Kokkos::LayoutRight, MemSpace, Kokkos::MemoryUnmanaged>;
using PinnedSpan = Kokkos::View<Real*, Kokkos::LayoutRight, PinnedSpace, Kokkos::MemoryUnmanaged>;

template <class View>
View makeRoom(const char* label, std::int64_t numbers, Precision precision) {
  constexpr std::int64_t value = sizeof(Real);
  return View(Kokkos::view_alloc(Kokkos::WithoutInitializing, std::string(label)),
              (numbers * bytesOf(precision) + value - 1) / value);
}

template <class View>
View reals(const TypedSpan& numbers) {
  return View(static_cast<Real*>(numbers.data), numbers.size);
}

} // namespace

GradientReducer::GradientReducer(const Communicator& peers, const TypedSpan& gradients, std::int64_t bucket,
                                 MessagePath path, std::int64_t& bytes, Precision wire,
                                 const std::shared_ptr<DeviceSums>& devices, const char* what)
    : _ranks(peers.size()), _gradients(gradients), _wire(wire), _what(what), _sum(wire),
      _plain(wire == Precision::single && gradients.precision == wire),
      _cuts(gradients.size, bucket, peers.size()), _begin(gradients.size), _end(_begin), _bytes(bytes) {
  if (_ranks == 1) return;
  if (devices)
    useDevices(*devices);
  else
    useMpi(peers, path);
  _pending.reserve(SumBuckets::most_buckets);
  _held.reserve(SumBuckets::most_buckets);
}

void GradientReducer::useDevices(DeviceSums& devices) {
  _sent = _gradients;
  if (_gradients.precision != _wire) {
    _converted = makeRoom<Vector>("partita::GradientReducer::converted", _gradients.size, _wire);
    _sent = TypedSpan(_wire, _converted.data(), _gradients.size);
  }
  for (std::int64_t i = 0; i < SumBuckets::most_buckets; ++i) _sums.push_back(devices.make());
}

void GradientReducer::useMpi(const Communicator& peers, MessagePath path) {
  _peers.emplace(peers.duplicate());
  _sent = _gradients;
  const bool in_place = path == MessagePath::direct && _gradients.precision == _wire;
  if (!in_place) {
    _staging = makeRoom<PinnedVector>("partita::GradientReducer::staging", _gradients.size, _wire);
    _sent = TypedSpan(_wire, _staging.data(), _gradients.size);
  }
  if (!in_place || device_is_host)
    _work =
        makeRoom<PinnedVector>("partita::GradientReducer::work", _cuts.atOnce() * _cuts.received(), _wire);
  for (int i = 0; i < static_cast<int>(SumBuckets::most_buckets); ++i)
    _sums.push_back(std::make_unique<AllReduce>(*_peers, _sum, i, _work.size() > 0, _what));
}

void GradientReducer::ready(const ExecSpace& space, std::int64_t begin, std::int64_t end) {
  if (_ranks == 1) return;
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

/// The last bucket, at the front, takes the rest.
void GradientReducer::startFull(const ExecSpace& space) {
  while (_end - _begin >= _cuts.bucket || (_begin == 0 && _end > 0)) {
    const std::int64_t begin = std::max(_begin, _end - _cuts.bucket), end = _end;
    _end = begin;
    if (_holds && ++_cut % 3 == 0) {
      _held.emplace_back(begin, end);
    } else {
      reduce(space, begin, end);
    }
  }
}

/// Sums use the receive buffer in turn, and begin in the same order on all ranks.
void GradientReducer::letMove() {
  for (; _summed < _begun && _sums[_summed]->advance(); ++_summed) {
  }
  const auto at_once = static_cast<std::size_t>(_cuts.atOnce());
  for (; _begun < _pending.size() && _begun < _summed + at_once && _sums[_begun]->ready(); ++_begun) {
    const auto place = static_cast<std::int64_t>(_begun % at_once);
    auto* const work = reinterpret_cast<char*>(_work.data());
    _sums[_begun]->begin(work == nullptr ? work : work + place * _cuts.received() * bytesOf(_wire));
  }
  for (std::size_t i = _summed; i < _begun; ++i) _sums[i]->advance();
}

void GradientReducer::reduce(const ExecSpace& space, std::int64_t begin, std::int64_t end) {
  const Region region(space, "partita::GradientReducer::reduce", Phase::communication);
  const TypedSpan own = _gradients.part(begin, end), out = _sent.part(begin, end);
  if (out.data != own.data) {
    if (_plain) {
      Kokkos::deep_copy(space, reals<PinnedSpan>(out), reals<Span>(own));
    } else {
      convert(space, own, out, _wire == Precision::single ? _inverse_scale : DeviceFactor());
    }
  }
  _sums[_pending.size()]->start(space, out);
  _pending.push_back({begin, end, 0.0});
  letMove();
  if (linkModel().slow()) _pending.back().due = _link.summed(out.bytes(), _ranks);
  _bytes += out.bytes();
}

void GradientReducer::copyBack(const ExecSpace& space, std::int64_t begin, std::int64_t end) const {
  const TypedSpan own = _gradients.part(begin, end), in = _sent.part(begin, end);
  if (in.data == own.data) return;
  if (_plain) {
    Kokkos::deep_copy(space, reals<Span>(own), reals<PinnedSpan>(in));
  } else {
    convert(space, in, own, _wire == Precision::single ? _scale : DeviceFactor());
  }
}

void GradientReducer::complete(const ExecSpace& space, const Pending& pending) {
  const Region region(space, "partita::GradientReducer::complete", Phase::communication);
  letMove();
  for (; _begun <= _arrived; letMove()) pollBriefly(); // no wait for others while its own device works
  WaitedFor awaited{WaitedFor::Kind::all, _what};
  awaited.bytes = (pending.end - pending.begin) * bytesOf(_wire);
  Waiting waiting(awaited);
  for (; _summed <= _arrived; letMove()) waiting.pause();
  if (linkModel().slow())
    for (; linkSeconds() < pending.due; letMove()) waiting.pause();
  waiting.over();
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
    const Pending& pending = _pending[_arrived];
    complete(space, pending);
    if (arrived) arrived(pending.begin, pending.end);
  }
  if (_arrived < _pending.size()) return;
  _pending.clear();
  _begun = _summed = _arrived = 0;
  _cut = 0;
  _begin = _end = _gradients.size;
}

} // namespace partita
