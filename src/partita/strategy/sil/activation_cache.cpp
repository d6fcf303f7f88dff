#include "partita/strategy/sil/activation_cache.hpp"

#include "partita/core/error.hpp"
#include "partita/core/region.hpp"

#include <cstring>

namespace partita {

const char* ActivationCache::onHost(const ExecSpace& space, const TypedMatrix& values) {
  const char* host = static_cast<const char*>(values.data);
  if constexpr (!device_is_host) {
    const std::size_t bytes = values.values().bytes();
    if (_staging.size() < bytes) {
      _staging = Kokkos::View<char*, PinnedSpace>(
          Kokkos::view_alloc(Kokkos::WithoutInitializing, "partita::ActivationCache::staging"), bytes);
    }
    Kokkos::deep_copy(space, Kokkos::View<char*, PinnedSpace>(_staging.data(), bytes),
                      Kokkos::View<const char*, MemSpace>(host, bytes));
    host = _staging.data();
  }
  fence(space, "partita::ActivationCache::onHost");
  return host;
}

void ActivationCache::put(const ExecSpace& space, const TypedMatrix& values,
                          const std::vector<std::uint32_t>& rows) {
  const Region region(space, "partita::ActivationCache::put", Phase::data);
  PARTITA_REQUIRE(values.precision == _precision, "activations in another precision than that of their file");
  const char* host = onHost(space, values);
  const std::int64_t bytes = rowBytes();
  for (std::size_t i = 0; i < rows.size(); ++i) _file->write(host + i * bytes, bytes, rows[i] * bytes);
}

void ActivationCache::copyRow(std::size_t row, std::uint32_t /*epoch*/, Real* out) const {
  const std::int64_t bytes = rowBytes();
  // At the end of `out`, where converted numbers from the front do not reach those that are still to be read.
  char* const stored = reinterpret_cast<char*>(out + _width) - bytes;
  _file->read(stored, bytes, static_cast<std::int64_t>(row) * bytes);
  withStored(_precision, [&](auto type) {
    using Stored = decltype(type);
    if constexpr (!is_real<Stored>) {
      for (std::int64_t i = 0; i < _width; ++i) {
        Stored value;
        std::memcpy(&value, stored + i * sizeof value, sizeof value);
        out[i] = toReal(value);
      }
    }
  });
}

} // namespace partita
