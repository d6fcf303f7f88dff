#include "partita/strategy/sil/activation_cache.hpp"

#include "partita/config/user_error.hpp"
#include "partita/core/error.hpp"
#include "partita/core/region.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

namespace partita {

std::string cacheFolder(const SilSection& section, const std::string& scratch) {
  return section.cache_directory.empty() ? scratch : section.cache_directory;
}

ActivationCache::ActivationCache(std::string folder, Precision precision, std::int64_t width)
    : _folder(std::move(folder)), _precision(precision), _width(width) {
  std::string name = _folder + "/partita-activations-XXXXXX";
  _file = mkstemp(name.data());
  if (_file < 0) throw UserError(failure("cannot create a file"));
  unlink(name.c_str());
}

ActivationCache::~ActivationCache() {
  if (_file >= 0) close(_file);
}

std::string ActivationCache::failure(const std::string& what) const {
  const std::string wrong = "strategy/cache_directory: " + what + " in '" + _folder +
                            "' for the activations of a frozen stage: " + std::strerror(errno);
  return wrong;
}

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
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const ssize_t written = pwrite(_file, host + i * bytes, bytes, static_cast<off_t>(rows[i] * bytes));
    if (written >= 0 && written < bytes) errno = ENOSPC; // a short write sets no errno
    if (written != bytes) throw RunError(failure("cannot write"));
  }
}

void ActivationCache::copyRow(std::size_t row, std::uint32_t /*epoch*/, Real* out) const {
  const std::int64_t bytes = rowBytes();
  // At the end of `out`, where converted numbers from the front do not reach those that are still to be read.
  char* const stored = reinterpret_cast<char*>(out + _width) - bytes;
  if (pread(_file, stored, bytes, static_cast<off_t>(row * bytes)) != bytes)
    throw RunError(failure("cannot read"));
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
