#include "partita/comm/part_exchange.hpp"

#include "partita/comm/link.hpp"
#include "partita/comm/tags.hpp"
#include "partita/comm/wait.hpp"
#include "partita/core/loops.hpp"
#include "partita/core/region.hpp"

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

struct AddColumns {
  const Real* from;
  Real* to;
  std::int64_t from_columns, to_columns;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t row, std::int64_t column) const {
    to[row * to_columns + column] += from[row * from_columns + column];
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
    : _parts(parts), _path(path), _traffic(traffic) {}

PartExchange::Ring PartExchange::ringOf(const PartRing& ring) const {
  const int place = (_parts.rank() - ring.first) / ring.stride;
  const auto rank = [&](int at) { return ring.first + at % ring.count * ring.stride; };
  return {rank(place + 1), rank(place + ring.count - 1), place, ring.count};
}

void PartExchange::swap(const ExecSpace& space, const std::vector<Piece>& out,
                        const std::vector<Piece>& in) const {
  const bool staged = _path == MessagePath::staged;
  const auto room = [staged](PinnedVector& buffer, const std::vector<Piece>& pieces) {
    std::int64_t count = 0;
    for (const Piece& piece : pieces) count += piece.count;
    if (staged && static_cast<std::int64_t>(buffer.extent(0)) < count)
      buffer = PinnedVector(Kokkos::view_alloc(Kokkos::WithoutInitializing, "partita::PartExchange::staging"),
                            count);
    return buffer.data();
  };
  Real *sent = room(_out, out), *received = room(_in, in);
  for (const Piece& piece : out) {
    if (!staged) break;
    Kokkos::deep_copy(space, PinnedVector(sent, piece.count), Vector(piece.values, piece.count));
    sent += piece.count;
  }
  fence(space, "partita::PartExchange::swap");
  delayAtRandom();
  constexpr int tag = static_cast<int>(Tag::parts);
  const auto awaited = [this](WaitedFor::Kind kind, const Piece& piece) {
    WaitedFor what{kind, "values of a part", _parts.worldRank(piece.peer)};
    what.bytes = piece.count * static_cast<std::int64_t>(sizeof(Real));
    return what;
  };
  std::vector<Request> requests(in.size() + out.size());
  auto request = requests.begin();
  for (const Piece& piece : in) {
    if (piece.count == 0) continue;
    PARTITA_MPI(MPI_Irecv(staged ? received : piece.values, mpiCount(piece.count), mpiType<Real>(),
                          piece.peer, tag, _parts.get(),
                          (request++)->start(awaited(WaitedFor::Kind::message, piece))));
    if (staged) received += piece.count;
  }
  sent = _out.data();
  for (const Piece& piece : out) {
    if (piece.count == 0) continue;
    PARTITA_MPI(MPI_Isend(staged ? sent : piece.values, mpiCount(piece.count), mpiType<Real>(), piece.peer,
                          tag, _parts.get(), (request++)->start(awaited(WaitedFor::Kind::taker, piece))));
    if (staged) sent += piece.count;
    if (!_counts) continue;
    _traffic.between_parts += piece.count * static_cast<std::int64_t>(sizeof(Real));
    ++_traffic.part_messages;
  }
  for (auto each = requests.begin(); each != request; ++each) each->wait();
  received = _in.data();
  for (const Piece& piece : in) {
    if (!staged) break;
    Kokkos::deep_copy(space, Vector(piece.values, piece.count), PinnedVector(received, piece.count));
    received += piece.count;
  }
}

/// Each rank has its own chunk, and passes on what it got last.
void PartExchange::gatherChunks(const ExecSpace& space, const Ring& ring, Real* values,
                                const Bounds& bounds) const {
  for (int i = 0; i + 1 < ring.count; ++i) {
    const int out = (ring.place + ring.count - i) % ring.count,
              in = (ring.place + 2 * ring.count - i - 1) % ring.count;
    swap(space, {{ring.next, values + bounds[out], bounds[out + 1] - bounds[out]}},
         {{ring.last, values + bounds[in], bounds[in + 1] - bounds[in]}});
  }
}

/// The sum of a chunk begins at the rank after its own one, and ends there.
void PartExchange::reduceChunks(const ExecSpace& space, const Ring& ring, Real* values, const Bounds& bounds,
                                Real* work) const {
  for (int i = 0; i + 1 < ring.count; ++i) {
    const int out = (ring.place + 2 * ring.count - i - 1) % ring.count,
              in = (ring.place + 2 * ring.count - i - 2) % ring.count;
    const std::int64_t count = bounds[in + 1] - bounds[in];
    swap(space, {{ring.next, values + bounds[out], bounds[out + 1] - bounds[out]}},
         {{ring.last, work, count}});
    forEachValue(space, "partita::PartExchange::add_kernel", count, AddValues{work, values + bounds[in]});
  }
}

void PartExchange::sum(const ExecSpace& space, const Vector& values, const Vector& work) const {
  const Region region(space, "partita::PartExchange::sum", Phase::communication);
  const Ring ring = ringOf({0, 1, _parts.size()});
  const auto size = static_cast<std::int64_t>(values.extent(0));
  Bounds bounds;
  for (int i = 0; i <= ring.count; ++i) bounds.push_back(size * i / ring.count);
  reduceChunks(space, ring, values.data(), bounds, work.data());
  gatherChunks(space, ring, values.data(), bounds);
  fence(space, "partita::PartExchange::sum");
}

void PartExchange::sum(const ExecSpace& space, const Vector& values) const {
  const std::size_t room = values.extent(0) / static_cast<std::size_t>(_parts.size()) + 1;
  if (_few.extent(0) < room)
    _few = Vector(Kokkos::view_alloc(Kokkos::WithoutInitializing, "partita::PartExchange::few"), room);
  sum(space, values, _few);
}

namespace {

/// Some places of a matrix [rows, places * values of a place] that begins with place `first`.
Real* placesIn(const Matrix& matrix, const ExchangePlan& plan, std::int64_t first, const AxisRange& range) {
  return matrix.data() + (range.begin - first) * plan.place_values;
}

} // namespace

void PartExchange::haloForward(const ExecSpace& space, const ExchangePlan& plan, const Matrix& own,
                               const Matrix& needed, const Vector& work) const {
  const Region region(space, "partita::PartExchange::halo", Phase::communication);
  const std::int64_t rows = own.extent(0), has = own.extent(1), wants = needed.extent(1);
  const int me = plan.place;
  const std::int64_t first_own = plan.owned[static_cast<std::size_t>(me)].begin,
                     first_needed = plan.needed[static_cast<std::size_t>(me)].begin;
  std::vector<Piece> out, in;
  Real* next = work.data();
  const auto take = [&](int peer, const AxisRange& range) {
    const Piece piece{peer, next, rows * range.size() * plan.place_values};
    next += piece.count;
    return piece;
  };
  for (int other = 0; other < _parts.size(); ++other) {
    const AxisRange gives = plan.sent(me, other), gets = plan.sent(other, me);
    const std::int64_t width = gives.size() * plan.place_values;
    if (other == me) {
      copyColumns(space, placesIn(own, plan, first_own, gives), has,
                  placesIn(needed, plan, first_needed, gives), wants, rows, width);
      continue;
    }
    if (width > 0) {
      out.push_back(take(other, gives));
      copyColumns(space, placesIn(own, plan, first_own, gives), has, out.back().values, width, rows, width);
    }
    if (gets.size() > 0) in.push_back(take(other, gets));
  }
  swap(space, out, in);
  for (const Piece& piece : in) {
    const AxisRange gets = plan.sent(piece.peer, me);
    const std::int64_t width = gets.size() * plan.place_values;
    copyColumns(space, piece.values, width, placesIn(needed, plan, first_needed, gets), wants, rows, width);
  }
}

void PartExchange::haloBackward(const ExecSpace& space, const ExchangePlan& plan, const Matrix& needed,
                                const Matrix& own, const Vector& work) const {
  const Region region(space, "partita::PartExchange::halo", Phase::communication);
  const std::int64_t rows = own.extent(0), has = own.extent(1), wants = needed.extent(1);
  const int me = plan.place;
  const std::int64_t first_own = plan.owned[static_cast<std::size_t>(me)].begin,
                     first_needed = plan.needed[static_cast<std::size_t>(me)].begin;
  std::vector<Piece> out, in;
  Real* next = work.data();
  for (int other = 0; other < _parts.size(); ++other) {
    if (other == me) continue;
    const std::int64_t gives = plan.sent(other, me).size() * plan.place_values,
                       gets = plan.sent(me, other).size() * plan.place_values;
    if (gives > 0) {
      out.push_back({other, next, rows * gives});
      copyColumns(space, placesIn(needed, plan, first_needed, plan.sent(other, me)), wants, next, gives, rows,
                  gives);
      next += rows * gives;
    }
    if (gets > 0) {
      in.push_back({other, next, rows * gets});
      next += rows * gets;
    }
  }
  swap(space, out, in);
  Kokkos::deep_copy(space, own, Real(0));
  auto arrived = in.begin();
  for (int other = 0; other < _parts.size(); ++other) {
    const AxisRange range = plan.sent(me, other);
    const std::int64_t width = range.size() * plan.place_values;
    if (width == 0) continue;
    const Real* from = other == me ? placesIn(needed, plan, first_needed, range) : (arrived++)->values;
    forEachElement(space, "partita::PartExchange::add_columns_kernel", rows, width,
                   AddColumns{from, placesIn(own, plan, first_own, range), other == me ? wants : width, has});
  }
}

namespace {

std::int64_t largestChunk(const std::vector<std::int64_t>& bounds) {
  std::int64_t largest = 0;
  for (std::size_t i = 0; i + 1 < bounds.size(); ++i) largest = std::max(largest, bounds[i + 1] - bounds[i]);
  return largest;
}

} // namespace

/// A chunk is copied to its columns after it has arrived, and sent on from where it has arrived.
void PartExchange::gather(const ExecSpace& space, const ExchangePlan& plan, const Matrix& own,
                          const Matrix& all, const Vector& work) const {
  const Region region(space, "partita::PartExchange::gather", Phase::communication);
  const Ring ring = ringOf(plan.ring);
  const std::int64_t rows = own.extent(0), columns = all.extent(1);
  const Bounds bounds = chunkBounds(plan.widths, rows), places = chunkBounds(plan.widths, 1);
  const std::int64_t largest = largestChunk(bounds);
  const auto take = [&](int chunk, const Real* from) {
    const std::int64_t width = plan.widths[chunk];
    copyColumns(space, from, width, all.data() + places[chunk], columns, rows, width);
  };
  Real* out = own.data();
  for (int i = 0; i + 1 < ring.count; ++i) {
    const int sent = (ring.place + ring.count - i) % ring.count,
              got = (ring.place + 2 * ring.count - i - 1) % ring.count;
    Real* const in = work.data() + i % 2 * largest;
    swap(space, {{ring.next, out, bounds[sent + 1] - bounds[sent]}},
         {{ring.last, in, bounds[got + 1] - bounds[got]}});
    take(got, in);
    out = in;
  }
  take(ring.place, own.data());
}

/// What arrives is added to the own values of its chunk and sent on; the own chunk comes last.
void PartExchange::reduce(const ExecSpace& space, const ExchangePlan& plan, const Matrix& all,
                          const Matrix& own, const Vector& work) const {
  const Region region(space, "partita::PartExchange::reduce", Phase::communication);
  const Ring ring = ringOf(plan.ring);
  const std::int64_t rows = own.extent(0), columns = all.extent(1);
  const Bounds bounds = chunkBounds(plan.widths, rows), places = chunkBounds(plan.widths, 1);
  Real *out = work.data(), *in = out + largestChunk(bounds);
  const int first = (ring.place + ring.count - 1) % ring.count;
  copyColumns(space, all.data() + places[first], columns, out, plan.widths[first], rows, plan.widths[first]);
  for (int i = 0; i + 1 < ring.count; ++i) {
    const int sent = (ring.place + 2 * ring.count - i - 1) % ring.count,
              got = (ring.place + 2 * ring.count - i - 2) % ring.count;
    swap(space, {{ring.next, out, bounds[sent + 1] - bounds[sent]}},
         {{ring.last, in, bounds[got + 1] - bounds[got]}});
    Real* const to = got == ring.place ? own.data() : in;
    forEachElement(space, "partita::PartExchange::sum_columns_kernel", rows, plan.widths[got],
                   SumColumns{all.data() + places[got], in, to, columns, plan.widths[got]});
    std::swap(in, out);
  }
}

} // namespace partita
