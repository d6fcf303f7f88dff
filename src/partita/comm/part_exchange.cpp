#include "partita/comm/part_exchange.hpp"

#include "partita/comm/link.hpp"
#include "partita/comm/part_places.hpp"
#include "partita/comm/tags.hpp"
#include "partita/comm/wait_times.hpp"
#include "partita/core/loops.hpp"
#include "partita/core/region.hpp"
#include "partita/plan/share.hpp"

#include <algorithm>
#include <utility>

namespace partita {

namespace {

/// Some columns of a matrix to those of another one.
struct CopyColumns {
  const Real* from;
  Real* to;
  std::int64_t from_columns, to_columns;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t row, std::int64_t column) const {
    to[row * to_columns + column] = from[row * from_columns + column];
  }
};

/// Some columns of a matrix plus another matrix.
struct SumColumns {
  const Real *columns, *other;
  Real* to;
  std::int64_t from_columns, to_columns;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t row, std::int64_t column) const {
    const std::int64_t i = row * to_columns + column;
    to[i] = columns[row * from_columns + column] + other[i];
  }
};

struct AddValues {
  const Real* what;
  Real* to;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i) const { to[i] += what[i]; }
};

/// Ranges of a buffer in which the columns of each rank are contiguous.
std::vector<std::int64_t> chunkBounds(const std::vector<std::int64_t>& widths, std::int64_t rows) {
  std::vector<std::int64_t> bounds{0};
  for (const std::int64_t width : widths) bounds.push_back(bounds.back() + rows * width);
  return bounds;
}

} // namespace

void copyColumns(const ExecSpace& space, const Real* from, std::int64_t from_columns, Real* to,
                 std::int64_t to_columns, std::int64_t rows, std::int64_t columns) {
  forEachElement(space, "partita::PartExchange::copy_kernel", rows, columns,
                 CopyColumns{from, to, from_columns, to_columns});
}

PartExchange::PartExchange(const Communicator& parts, MessagePath path, Traffic& traffic)
    : _parts(parts), _path(path), _traffic(traffic), _arrivals(parts) {}

PartExchange::Ring PartExchange::ringOf(const PartRing& ring) const {
  const int place = (_parts.rank() - ring.first) / ring.stride;
  const auto rank = [&](int at) { return ring.first + at % ring.count * ring.stride; };
  return {rank(place + 1), rank(place + ring.count - 1), place, ring.count};
}

void PartExchange::stage(const ExecSpace& space, const std::vector<Piece>& out,
                         const std::vector<Piece>& in) {
  const auto make_room = [&](PinnedVector& buffer, const std::vector<Piece>& pieces) {
    std::int64_t count = 0;
    for (const Piece& piece : pieces) count += piece.count;
    if (static_cast<std::int64_t>(buffer.extent(0)) >= count) return;
    fence(space, "partita::PartExchange::staging"); // the device may still copy from the old one
    buffer = PinnedVector(Kokkos::view_alloc(Kokkos::WithoutInitializing, "partita::PartExchange::staging"),
                          count);
  };
  make_room(_in, in);
  make_room(_out, out);
  Real* sent = _out.data();
  for (const Piece& piece : out) {
    Kokkos::deep_copy(space, PinnedVector(sent, piece.count), Vector(piece.values, piece.count));
    sent += piece.count;
  }
}

void PartExchange::post(const ExecSpace& space, const char* what, const std::vector<Piece>& out,
                        std::vector<Piece> in) {
  PARTITA_REQUIRE(_requests.empty(), std::string(what) + ": another exchange has not arrived yet");
  const bool staged = _path == MessagePath::staged;
  if (staged) stage(space, out, in);
  fence(space, "partita::PartExchange::post");
  delayAtRandom();
  constexpr int tag = static_cast<int>(Tag::parts);
  const auto start = [this, what](WaitedFor::Kind kind, const Piece& piece) {
    WaitedFor awaited{kind, what, _parts.worldRank(piece.peer)};
    awaited.bytes = piece.count * static_cast<std::int64_t>(sizeof(Real));
    return _requests.emplace_back().start(awaited);
  };
  _requests.reserve(in.size() + out.size());
  Real *sent = _out.data(), *received = _in.data(); // if staged
  for (const Piece& piece : in) {
    if (piece.count == 0) continue;
    PARTITA_MPI(MPI_Irecv(staged ? received : piece.values, mpiCount(piece.count), mpiType<Real>(),
                          piece.peer, tag, _parts.get(), start(WaitedFor::Kind::message, piece)));
    _arrivals.posted(piece.peer, what);
    if (staged) received += piece.count;
  }
  for (const Piece& piece : out) {
    if (piece.count == 0) continue;
    PARTITA_MPI(MPI_Isend(staged ? sent : piece.values, mpiCount(piece.count), mpiType<Real>(), piece.peer,
                          tag, _parts.get(), start(WaitedFor::Kind::taker, piece)));
    const std::int64_t bytes = piece.count * static_cast<std::int64_t>(sizeof(Real));
    _arrivals.sent(piece.peer, bytes, what);
    if (staged) sent += piece.count;
    if (!_counts) continue;
    _traffic.between_parts += bytes;
    ++_traffic.part_messages;
  }
  _arriving = std::move(in);
}

void PartExchange::letMove() {
  for (Request& request : _requests) request.test();
}

void PartExchange::complete(const ExecSpace& space) {
  for (Request& request : _requests) request.wait();
  _requests.clear();
  _arrivals.wait();
  if (_path != MessagePath::staged) return;
  const Real* received = _in.data();
  for (const Piece& piece : _arriving) {
    Kokkos::deep_copy(space, Vector(piece.values, piece.count),
                      Kokkos::View<const Real*, Kokkos::LayoutRight, PinnedSpace>(received, piece.count));
    received += piece.count;
  }
}

/// Each rank has its own chunk, and passes on what it got last.
void PartExchange::gatherChunks(const ExecSpace& space, const char* what, const Ring& ring, Real* values,
                                const Bounds& bounds) {
  for (int i = 0; i + 1 < ring.count; ++i) {
    const int out = ringChunk(ring.place, i, ring.count), in = ringChunk(ring.place, i + 1, ring.count);
    post(space, what, {{ring.next, values + bounds[out], bounds[out + 1] - bounds[out]}},
         {{ring.last, values + bounds[in], bounds[in + 1] - bounds[in]}});
    complete(space);
  }
}

/// The sum of a chunk begins at the rank after its own one, and ends there; then the sums are gathered.
void PartExchange::addUp(const ExecSpace& space, const char* what, const Vector& values, const Vector& work,
                         Travel travel) {
  const Region region(space, "partita::PartExchange::sum", Phase::communication);
  const Ring ring = ringOf({0, 1, _parts.size()});
  const auto size = static_cast<std::int64_t>(values.extent(0));
  Bounds bounds;
  for (int i = 0; i <= ring.count; ++i) bounds.push_back(size * i / ring.count);
  for (int i = 0; i + 1 < ring.count; ++i) {
    const int out = ringChunk(ring.place, i + 1, ring.count), in = ringChunk(ring.place, i + 2, ring.count);
    const std::int64_t count = bounds[in + 1] - bounds[in];
    if (i > 0 || travel != Travel::arrive)
      post(space, what, {{ring.next, values.data() + bounds[out], bounds[out + 1] - bounds[out]}},
           {{ring.last, work.data(), count}});
    if (travel == Travel::depart) return;
    complete(space);
    forEachValue(space, "partita::PartExchange::add_kernel", count,
                 AddValues{work.data(), values.data() + bounds[in]});
  }
  gatherChunks(space, what, ring, values.data(), bounds);
  fence(space, "partita::PartExchange::sum");
}

void PartExchange::sum(const ExecSpace& space, const Vector& values, const Vector& work, Travel travel) {
  addUp(space, waits::part_sums, values, work, travel);
}

void PartExchange::sum(const ExecSpace& space, const Vector& values) {
  const std::size_t room = values.extent(0) / static_cast<std::size_t>(_parts.size()) + 1;
  if (_few.extent(0) < room)
    _few = Vector(Kokkos::view_alloc(Kokkos::WithoutInitializing, "partita::PartExchange::few"), room);
  addUp(space, waits::batch_statistics, values, _few);
}

void PartExchange::slice(const ExecSpace& space, const ExchangePlan& plan, const Matrix& all,
                         const Matrix& own) {
  const auto place = static_cast<std::size_t>(plan.place);
  if (!plan.owned.empty())
    return copyPlaces(space, neededBy(plan, all), ownedBy(plan, own), plan.owned[place], own.extent(0));
  copyColumns(space, all.data() + chunkBounds(plan.widths, 1)[place], all.extent(1), own.data(),
              own.extent(1), own.extent(0), own.extent(1));
}

namespace {

std::int64_t largestChunk(const std::vector<std::int64_t>& bounds) {
  std::int64_t largest = 0;
  for (std::size_t i = 0; i + 1 < bounds.size(); ++i) largest = std::max(largest, bounds[i + 1] - bounds[i]);
  return largest;
}

} // namespace

/// A chunk is sent on from where it has arrived, and copied to its columns meanwhile.
void PartExchange::gather(const ExecSpace& space, const ExchangePlan& plan, const Matrix& own,
                          const Matrix& all, const Vector& work, Travel travel) {
  const Region region(space, "partita::PartExchange::gather", Phase::communication);
  const Ring ring = ringOf(plan.ring);
  const std::int64_t rows = own.extent(0), columns = all.extent(1);
  const Bounds bounds = chunkBounds(plan.widths, rows), places = chunkBounds(plan.widths, 1);
  const std::int64_t largest = largestChunk(bounds);
  const auto take = [&](int chunk, Real* from) {
    const std::int64_t width = plan.widths[chunk];
    if (plan.owned.empty())
      return copyColumns(space, from, width, all.data() + places[chunk], columns, rows, width);
    const Block& block = plan.owned[static_cast<std::size_t>(chunk)];
    copyPlaces(space, {from, block, plan.channels}, neededBy(plan, all), block, rows);
  };
  int last = ring.place;
  Real* out = own.data();
  for (int i = 0; i + 1 < ring.count; ++i) {
    const int got = ringChunk(ring.place, i + 1, ring.count);
    Real* const in = work.data() + i % 2 * largest;
    if (i > 0 || travel != Travel::arrive)
      post(space, waits::part_values, {{ring.next, out, bounds[last + 1] - bounds[last]}},
           {{ring.last, in, bounds[got + 1] - bounds[got]}});
    if (travel == Travel::depart) return;
    take(last, out);
    complete(space);
    last = got;
    out = in;
  }
  take(last, out);
}

void PartExchange::gather(const ExecSpace& space, const Vector& values) {
  const Region region(space, "partita::PartExchange::gather", Phase::communication);
  const Ring ring = ringOf({0, 1, _parts.size()});
  const auto each = static_cast<std::int64_t>(values.extent(0)) / ring.count;
  gatherChunks(space, waits::class_sums, ring, values.data(), chunkBounds(Bounds(ring.count, each), 1));
}

/// What arrives is added to this rank's values of its chunk and sent on; this rank's chunk comes last.
void PartExchange::reduce(const ExecSpace& space, const ExchangePlan& plan, const Matrix& all,
                          const Matrix& own, const Vector& work, Travel travel) {
  const Region region(space, "partita::PartExchange::reduce", Phase::communication);
  const Ring ring = ringOf(plan.ring);
  const std::int64_t rows = all.extent(0), columns = all.extent(1);
  const Bounds bounds = chunkBounds(plan.widths, rows), places = chunkBounds(plan.widths, 1);
  Real *out = work.data(), *in = out + largestChunk(bounds);
  const int first = ringChunk(ring.place, 1, ring.count);
  if (travel != Travel::arrive)
    copyColumns(space, all.data() + places[first], columns, out, plan.widths[first], rows,
                plan.widths[first]);
  for (int i = 0; i + 1 < ring.count; ++i) {
    const int sent = ringChunk(ring.place, i + 1, ring.count), got = ringChunk(ring.place, i + 2, ring.count);
    if (i > 0 || travel != Travel::arrive)
      post(space, waits::range_sums, {{ring.next, out, bounds[sent + 1] - bounds[sent]}},
           {{ring.last, in, bounds[got + 1] - bounds[got]}});
    if (travel == Travel::depart) return;
    complete(space);
    Real* const to = got == ring.place ? own.data() : in;
    forEachElement(space, "partita::PartExchange::sum_columns_kernel", rows, plan.widths[got],
                   SumColumns{all.data() + places[got], in, to, columns, plan.widths[got]});
    std::swap(in, out);
  }
}

} // namespace partita
