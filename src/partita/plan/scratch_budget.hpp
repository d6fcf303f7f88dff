#pragma once

#include <cstdint>

namespace partita {

/// Is this a build for a device? The build system says so, because this room knows nothing of Kokkos.
#ifdef PARTITA_DEVICE
constexpr bool plans_for_device = true;
#else
constexpr bool plans_for_device = false;
#endif

/// Most values of scratch of one kind: on a host, as many as fit into the caches of a core; on a
/// device, as many as keep all of it busy.
constexpr std::int64_t scratchBudget(std::int64_t on_host, std::int64_t on_device) {
  return plans_for_device ? on_device : on_host;
}

/// Rows of copied 16-bit operands begin at multiples of this many values. On devices that is 16 bytes:
/// without it tensor cores are several times slower.
constexpr std::int64_t row_padding = plans_for_device ? 8 : 1;

constexpr std::int64_t paddedWidth(std::int64_t columns, std::int64_t padding = row_padding) {
  return (columns + padding - 1) / padding * padding;
}

/// Number of groups of rows; norms first add up the gradients of their parameters within each
/// group. 0: there are no groups, because single threads compute rows.
constexpr std::int64_t normGroups(std::int64_t rows) {
#if defined(PARTITA_DEVICE) || defined(PARTITA_ROW_TEAMS)
  constexpr std::int64_t rows_at_once = 4, most = 512; // enough to keep a device busy
  const std::int64_t groups = (rows + rows_at_once - 1) / rows_at_once;
  return groups < most ? groups : most;
#else
  (void)rows;
  return 0;
#endif
}

/// Widest head of attention: its tiles must fit into the cache of a core.
constexpr std::int64_t widest_head = 256;

/// Layers that look up tokens sort them on devices: a digit of 256 values at a time, in blocks of places.
constexpr std::int64_t sort_digits = 256, sort_block = 128;

/// Scratch for the order of `places`: twice the places and their rows, and the counts.
constexpr std::int64_t sortScratch(std::int64_t places) {
  return 4 * places + sort_digits * ((places + sort_block - 1) / sort_block);
}

} // namespace partita
