#include "partita/comm/all_reduce.hpp"

#include "partita/comm/tags.hpp"
#include "partita/core/loops.hpp"
#include "partita/plan/cost/collectives.hpp"
#include "partita/plan/share.hpp"

namespace partita {

namespace {

template <class Stored>
struct AddStored {
  const Stored* what;
  Stored* to;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i) const {
    to[i] = fromReal<Stored>(toReal(what[i]) + toReal(to[i]));
  }
};

} // namespace

void AllReduce::start(const ExecSpace& space, const TypedSpan& values) {
  _ready.set(space);
  _values = values;
  _step = 0;
  _steps =
      _ring && usesRing(_peers.size(), static_cast<double>(values.bytes())) ? 2 * (_peers.size() - 1) : 0;
}

void AllReduce::begin(void* work) {
  _work = work;
  if (_steps > 0) return exchange();
  PARTITA_MPI(MPI_Iallreduce(MPI_IN_PLACE, _values.data, mpiCount(_values.size), mpiType(_values.precision),
                             _sum.get(), _peers.get(), _in.start({WaitedFor::Kind::all, _what})));
}

bool AllReduce::advance() {
  for (;;) {
    if (!_in.test()) return false;
    if (_steps == 0) return true;
    if (!_out.test()) return false;
    if (_step == _steps) return true;
    if (_step + 1 < _peers.size()) add(chunk(_step + 2));
    if (++_step < _steps) exchange();
  }
}

TypedSpan AllReduce::chunk(int step) const {
  const int ranks = _peers.size();
  const IndexRange share = shareOf(_values.size, ringChunk(_peers.rank(), step, ranks), ranks);
  return _values.part(share.begin, share.end);
}

/// The sum of a chunk begins at the rank after the chunk's own, ends at that rank, and then goes round again.
void AllReduce::exchange() {
  const int ranks = _peers.size(), rank = _peers.rank(),
            tag = static_cast<int>(Tag::sum) + tag_count * _channel;
  const bool adds = _step + 1 < ranks;
  const TypedSpan out = chunk(_step + 1), in = chunk(_step + 2);
  const int last = (rank + ranks - 1) % ranks, next = (rank + 1) % ranks;
  const auto awaited = [&](WaitedFor::Kind kind, int peer) {
    return WaitedFor{kind, _what, _peers.worldRank(peer)};
  };
  PARTITA_MPI(MPI_Irecv(adds ? _work : in.data, mpiCount(in.size), mpiType(in.precision), last, tag,
                        _peers.get(), _in.start(awaited(WaitedFor::Kind::message, last))));
  PARTITA_MPI(MPI_Isend(out.data, mpiCount(out.size), mpiType(out.precision), next, tag, _peers.get(),
                        _out.start(awaited(WaitedFor::Kind::taker, next))));
}

/// Kernels of hosts are complete on return.
void AllReduce::add(const TypedSpan& chunk) const {
  const Kokkos::DefaultHostExecutionSpace host;
  using OnHost = Kokkos::RangePolicy<Kokkos::DefaultHostExecutionSpace, Kokkos::IndexType<std::int64_t>>;
  withStored(chunk.precision, [&](auto stored) {
    using Stored = decltype(stored);
    using Body = AddStored<Stored>;
    const std::int64_t runs = (chunk.size + detail::run_length - 1) / detail::run_length;
    Kokkos::parallel_for(
        "partita::AllReduce::add_kernel", OnHost(host, 0, runs),
        detail::RunLoop<Body>{{static_cast<const Stored*>(_work), static_cast<Stored*>(chunk.data)},
                              chunk.size});
  });
}

} // namespace partita
