#include "partita/comm/part_places.hpp"

#include "partita/core/loops.hpp"

namespace partita {

namespace {

/// Lines of places from one block to another, [rows, lines of the first axis, of the second, values].
template <bool Adds>
struct MoveLines {
  const Real* from;
  Real* to;
  std::int64_t count[2];                       ///< lines of each axis per row
  std::int64_t from_strides[3], to_strides[3]; ///< of rows and of the two axes
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t line, std::int64_t i) const {
    const std::int64_t second = line % count[1], first = line / count[1] % count[0],
                       row = line / (count[0] * count[1]);
    const Real value = from[row * from_strides[0] + first * from_strides[1] + second * from_strides[2] + i];
    Real& at = to[row * to_strides[0] + first * to_strides[1] + second * to_strides[2] + i];
    at = Adds ? at + value : value;
  }
};

/// Copies or adds the places of `which`, which both blocks contain. Axes that both have as a whole are one.
template <bool Adds>
void movePlaces(const ExecSpace& space, const Places& from, const Places& to, const Block& which,
                std::int64_t rows) {
  if (which.places() == 0) return;
  const auto whole = [&](std::size_t axis) {
    return from.block.axes[axis] == which.axes[axis] && to.block.axes[axis] == which.axes[axis];
  };
  const auto extent = [&](std::size_t axis) { return which.axes[axis].size(); };
  const std::int64_t channels = from.channels;
  MoveLines<Adds> move{from.at(which),
                       to.at(which),
                       {extent(0), extent(1)},
                       {from.block.places() * channels, from.stride(0), from.stride(1)},
                       {to.block.places() * channels, to.stride(0), to.stride(1)}};
  std::int64_t columns = extent(2) * channels;
  for (const std::size_t axis : {std::size_t{1}, std::size_t{0}}) {
    if (!whole(axis + 1)) break;
    columns *= extent(axis);
    move.count[axis] = 1;
  }
  forEachElement(space, "partita::PartExchange::move_places_kernel", rows * move.count[0] * move.count[1],
                 columns, move);
}

} // namespace

Places ownedBy(const ExchangePlan& plan, const Matrix& own) {
  return {own.data(), plan.owned[static_cast<std::size_t>(plan.place)], plan.channels};
}

Places neededBy(const ExchangePlan& plan, const Matrix& needed) {
  return {needed.data(), plan.needed[static_cast<std::size_t>(plan.place)], plan.channels};
}

void copyPlaces(const ExecSpace& space, const Places& from, const Places& to, const Block& which,
                std::int64_t rows) {
  movePlaces<false>(space, from, to, which, rows);
}

void addPlaces(const ExecSpace& space, const Places& from, const Places& to, const Block& which,
               std::int64_t rows) {
  movePlaces<true>(space, from, to, which, rows);
}

} // namespace partita
