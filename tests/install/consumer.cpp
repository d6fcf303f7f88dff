#include "partita/core/provenance.hpp"
#include "partita/core/random.hpp"
#include "partita/core/sha256.hpp"
#include "partita/core/types.hpp"

#include <cmath>
#include <cstdio>

/// What a user of the library does first: compile a kernel with our headers, link to our code, and ask its
/// version.
namespace {

double meanOfUniforms(std::int64_t count) {
  const partita::ExecSpace space;
  const partita::RandomStream numbers{7, partita::Stream::labels};
  double sum = 0;
  Kokkos::parallel_reduce(
      "consumer::mean", partita::Range(space, 0, count),
      KOKKOS_LAMBDA(const std::int64_t i, double& partial) { partial += numbers.uniform(i); }, sum);
  return sum / static_cast<double>(count);
}

std::string hashOfAbc() {
  partita::Sha256 hash;
  hash.update("abc", 3);
  return hash.hex();
}

} // namespace

int main(int argc, char** argv) {
  const Kokkos::ScopeGuard kokkos(argc, argv);
  const double mean = meanOfUniforms(100000);
  std::printf("Partita %s (%s), mean %.4f\n", partita::versionString().c_str(), partita::gitHash().c_str(),
              mean);
  const bool same_version = argc == 2 && partita::versionString() == argv[1];
  const bool same_hash = hashOfAbc().rfind("ba7816bf8f01cfea", 0) == 0; // FIPS 180-4, example of "abc"
  return same_version && same_hash && std::abs(mean - 0.5) < 0.01 ? 0 : 1;
}
