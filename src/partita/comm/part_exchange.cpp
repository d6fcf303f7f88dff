#include "partita/comm/part_exchange.hpp"

#include "partita/comm/link.hpp"
#include "partita/comm/tags.hpp"
#include "partita/comm/wait.hpp"
#include "partita/core/loops.hpp"
#include "partita/core/region.hpp"

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

/// One message to the next rank, one from the last one; empty ones are not sent.
void PartExchange::step(const ExecSpace& space, const Ring& ring, const Real* out, std::int64_t out_count,
                        Real* in, std::int64_t in_count) const {
  using Const = Kokkos::View<const Real*, Kokkos::LayoutRight, MemSpace>;
  const bool staged = _path == MessagePath::staged;
  const auto room = [](PinnedVector& buffer, std::int64_t count) {
    if (static_cast<std::int64_t>(buffer.extent(0)) < count)
      buffer = PinnedVector(Kokkos::view_alloc(Kokkos::WithoutInitializing, "partita::PartExchange::staging"),
                            count);
    return PinnedVector(buffer.data(), count);
  };
  const Real* sent = out;
  Real* received = in;
  if (staged) {
    const PinnedVector copy = room(_out, out_count);
    Kokkos::deep_copy(space, copy, Const(out, out_count));
    sent = copy.data();
    received = room(_in, in_count).data();
  }
  fence(space, "partita::PartExchange::step");
  delayAtRandom();
  constexpr int tag = static_cast<int>(Tag::parts);
  constexpr const char* what = "values of a part";
  Request receive, send;
  if (in_count > 0)
    PARTITA_MPI(MPI_Irecv(received, mpiCount(in_count), mpiType<Real>(), ring.last, tag, _parts.get(),
                          receive.start({WaitedFor::Kind::message, what, _parts.worldRank(ring.last)})));
  if (out_count > 0) {
    PARTITA_MPI(MPI_Isend(sent, mpiCount(out_count), mpiType<Real>(), ring.next, tag, _parts.get(),
                          send.start({WaitedFor::Kind::taker, what, _parts.worldRank(ring.next)})));
    if (_counts) {
      _traffic.between_parts += out_count * static_cast<std::int64_t>(sizeof(Real));
      ++_traffic.part_messages;
    }
  }
  if (in_count > 0) receive.wait();
  if (out_count > 0) send.wait();
  if (staged) Kokkos::deep_copy(space, Vector(in, in_count), PinnedVector(received, in_count));
}

/// Each rank has its own chunk, and passes on what it got last.
void PartExchange::gatherChunks(const ExecSpace& space, const Ring& ring, Real* values,
                                const Bounds& bounds) const {
  for (int i = 0; i + 1 < ring.count; ++i) {
    const int out = (ring.place + ring.count - i) % ring.count,
              in = (ring.place + 2 * ring.count - i - 1) % ring.count;
    step(space, ring, values + bounds[out], bounds[out + 1] - bounds[out], values + bounds[in],
         bounds[in + 1] - bounds[in]);
  }
}

/// The sum of a chunk begins at the rank after its own one, and ends there.
void PartExchange::reduceChunks(const ExecSpace& space, const Ring& ring, Real* values, const Bounds& bounds,
                                Real* work) const {
  for (int i = 0; i + 1 < ring.count; ++i) {
    const int out = (ring.place + 2 * ring.count - i - 1) % ring.count,
              in = (ring.place + 2 * ring.count - i - 2) % ring.count;
    const std::int64_t count = bounds[in + 1] - bounds[in];
    step(space, ring, values + bounds[out], bounds[out + 1] - bounds[out], work, count);
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

void PartExchange::gather(const ExecSpace& space, const ExchangePlan& plan, const Matrix& own,
                          const Matrix& all, const Vector& work) const {
  const Region region(space, "partita::PartExchange::gather", Phase::communication);
  const Ring ring = ringOf(plan.ring);
  const std::int64_t rows = own.extent(0), columns = all.extent(1), width = own.extent(1);
  const Bounds bounds = chunkBounds(plan.widths, rows);
  copyColumns(space, own.data(), width, work.data() + bounds[ring.place], width, rows, width);
  gatherChunks(space, ring, work.data(), bounds);
  Real* to = all.data();
  for (int i = 0; i < ring.count; ++i) {
    copyColumns(space, work.data() + bounds[i], plan.widths[i], to, columns, rows, plan.widths[i]);
    to += plan.widths[i];
  }
}

void PartExchange::reduce(const ExecSpace& space, const ExchangePlan& plan, const Matrix& all,
                          const Matrix& own, const Vector& work) const {
  const Region region(space, "partita::PartExchange::reduce", Phase::communication);
  const Ring ring = ringOf(plan.ring);
  const std::int64_t rows = own.extent(0), columns = all.extent(1), width = own.extent(1);
  const Bounds bounds = chunkBounds(plan.widths, rows);
  const Real* from = all.data();
  for (int i = 0; i < ring.count; ++i) {
    copyColumns(space, from, columns, work.data() + bounds[i], plan.widths[i], rows, plan.widths[i]);
    from += plan.widths[i];
  }
  reduceChunks(space, ring, work.data(), bounds, work.data() + bounds.back());
  copyColumns(space, work.data() + bounds[ring.place], width, own.data(), width, rows, width);
}

} // namespace partita
