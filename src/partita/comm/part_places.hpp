#pragma once

#include "partita/core/types.hpp"
#include "partita/plan/layer_part.hpp"

namespace partita {

/// Places of a batch in memory: [rows, places of the block, channels].
struct Places {
  Real* data;
  Block block;
  std::int64_t channels;

  std::int64_t size(std::size_t axis) const { return block.axes[axis].size(); }
  Real* at(const Block& inner) const {
    const auto offset = [&](std::size_t axis) { return inner.axes[axis].begin - block.axes[axis].begin; };
    return data + ((offset(0) * size(1) + offset(1)) * size(2) + offset(2)) * channels;
  }
  std::int64_t stride(std::size_t axis) const { ///< between neighbours along an axis
    return axis == 2 ? channels : stride(axis + 1) * size(axis + 1);
  }
};

/// The places that this part owns: own [rows, places x channels].
Places ownedBy(const ExchangePlan& plan, const Matrix& own);
/// The places that it needs, likewise.
Places neededBy(const ExchangePlan& plan, const Matrix& needed);

/// Copies the places of `which`, which both blocks contain.
void copyPlaces(const ExecSpace& space, const Places& from, const Places& to, const Block& which,
                std::int64_t rows);
/// Adds these places to those of `to`.
void addPlaces(const ExecSpace& space, const Places& from, const Places& to, const Block& which,
               std::int64_t rows);

} // namespace partita
