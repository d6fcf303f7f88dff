#pragma once

#include <Kokkos_Core.hpp>

#include <cstdint>
#include <string>
#include <utility>

namespace partita {

/// Alignment of flat tensor buffers in bytes. Kokkos guarantees only 64, and that only on hosts.
constexpr std::size_t buffer_alignment = 128;

inline bool isAligned(const void* data) {
  return reinterpret_cast<std::uintptr_t>(data) % buffer_alignment == 0;
}

/// A vector of zeros with that alignment.
template <class View>
View makeAligned(const std::string& label, std::int64_t size) {
  constexpr std::size_t spare = buffer_alignment / sizeof(typename View::value_type);
  const std::size_t count = size;
  if (count == 0) return View(label, 0);
  const View all(label, count + spare);
  std::size_t first = 0;
  while (!isAligned(all.data() + first)) ++first;
  return Kokkos::subview(all, std::make_pair(first, first + count));
}

} // namespace partita
