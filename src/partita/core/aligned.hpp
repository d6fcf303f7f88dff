#pragma once

#include <Kokkos_Core.hpp>

#include <cstdint>
#include <string>
#include <utility>

namespace partita {

/// Flat buffers of tensors begin at multiples of so many bytes. Kokkos promises 64 on hosts only.
constexpr std::size_t buffer_alignment = 128;

inline bool isAligned(const void* data) {
  return reinterpret_cast<std::uintptr_t>(data) % buffer_alignment == 0;
}

/// A vector of zeros that begins there.
template <class View>
View makeAligned(const std::string& label, std::int64_t size) {
  constexpr std::size_t spare = buffer_alignment / sizeof(typename View::value_type);
  const auto count = static_cast<std::size_t>(size);
  if (count == 0) return View(label, 0);
  const View all(label, count + spare);
  std::size_t first = 0;
  while (!isAligned(all.data() + first)) ++first;
  return Kokkos::subview(all, std::make_pair(first, first + count));
}

} // namespace partita
