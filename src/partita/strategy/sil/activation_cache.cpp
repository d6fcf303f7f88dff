#include "partita/strategy/sil/activation_cache.hpp"

#include "partita/config/user_error.hpp"
#include "partita/core/error.hpp"
#include "partita/core/region.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

namespace partita {

ActivationCache::ActivationCache(std::string folder, std::int64_t width)
    : _folder(std::move(folder)), _width(width) {
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

const Real* ActivationCache::onHost(const ExecSpace& space, const Matrix& values) {
  const Real* host = values.data();
  if constexpr (!device_is_host) {
    if (_staging.extent(0) < values.extent(0)) {
      _staging =
          PinnedMatrix(Kokkos::view_alloc(Kokkos::WithoutInitializing, "partita::ActivationCache::staging"),
                       values.extent(0), values.extent(1));
    }
    const PinnedMatrix staging(_staging.data(), values.extent(0), values.extent(1));
    Kokkos::deep_copy(space, staging, values);
    host = staging.data();
  }
  fence(space, "partita::ActivationCache::onHost");
  return host;
}

void ActivationCache::put(const ExecSpace& space, const Matrix& values,
                          const std::vector<std::uint32_t>& rows) {
  const Region region(space, "partita::ActivationCache::put", Phase::data);
  const Real* host = onHost(space, values);
  const std::size_t bytes = static_cast<std::size_t>(_width) * sizeof(Real);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const ssize_t written =
        pwrite(_file, host + i * values.extent(1), bytes, static_cast<off_t>(rows[i] * bytes));
    if (written >= 0 && written < static_cast<ssize_t>(bytes)) errno = ENOSPC; // a short write sets no errno
    if (written != static_cast<ssize_t>(bytes)) throw RunError(failure("cannot write"));
  }
}

void ActivationCache::copyRow(std::size_t row, std::uint32_t /*epoch*/, Real* out) const {
  const std::size_t bytes = static_cast<std::size_t>(_width) * sizeof(Real);
  if (pread(_file, out, bytes, static_cast<off_t>(row * bytes)) != static_cast<ssize_t>(bytes))
    throw RunError(failure("cannot read"));
}

} // namespace partita
