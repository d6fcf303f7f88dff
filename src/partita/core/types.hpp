#pragma once

#include "partita/core/error.hpp"
#include "partita/plan/scratch_budget.hpp"

#include <Kokkos_Core.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace partita {

/// The only place that defines where Partita computes and in which precision. A heterogeneous run consists of
/// heterogeneous ranks (a host build and a CUDA build in one mpirun), so nothing is templated on execution
/// spaces.

#ifdef PARTITA_DOUBLE
using Real = double;
#else
using Real = float;
#endif

using ExecSpace = Kokkos::DefaultExecutionSpace;
using MemSpace = ExecSpace::memory_space;
using HostSpace = Kokkos::HostSpace;

#if defined(KOKKOS_ENABLE_CUDA)
using PinnedSpace = Kokkos::CudaHostPinnedSpace;
#elif defined(KOKKOS_ENABLE_HIP) && KOKKOS_VERSION >= 40000
using PinnedSpace = Kokkos::HIPHostPinnedSpace;
#else
using PinnedSpace = Kokkos::HostSpace;
#endif

/// True if host code can read and write device views: buffers then need no staging.
constexpr bool device_is_host = Kokkos::SpaceAccessibility<HostSpace, MemSpace>::accessible;
static_assert(device_is_host || plans_for_device, "builds for a device need PARTITA_DEVICE");

/// True if several threads of a host compute for a rank.
#ifdef KOKKOS_ENABLE_SERIAL
constexpr bool hosts_use_threads = device_is_host && !std::is_same<ExecSpace, Kokkos::Serial>::value;
#else
constexpr bool hosts_use_threads = device_is_host;
#endif

/// True if teams compute the rows of a matrix, as on a device; false if single threads do, whose loops the
/// host compiler vectorises. Tests with sanitizers use teams on a host.
#ifdef PARTITA_ROW_TEAMS
constexpr bool row_teams = true;
#else
constexpr bool row_teams = !device_is_host;
#endif

using Vector = Kokkos::View<Real*, Kokkos::LayoutRight, MemSpace>;
using Matrix = Kokkos::View<Real**, Kokkos::LayoutRight, MemSpace>; ///< [rows, values]: row-major everywhere
using Labels = Kokkos::View<std::int32_t*, Kokkos::LayoutRight, MemSpace>;
using HostVector = Kokkos::View<Real*, Kokkos::LayoutRight, HostSpace>;
using PinnedVector = Kokkos::View<Real*, Kokkos::LayoutRight, PinnedSpace>;
using PinnedMatrix = Kokkos::View<Real**, Kokkos::LayoutRight, PinnedSpace>;
using PinnedLabels = Kokkos::View<std::int32_t*, Kokkos::LayoutRight, PinnedSpace>;

using Range = Kokkos::RangePolicy<ExecSpace, Kokkos::IndexType<std::int64_t>>;
using Team = Kokkos::TeamPolicy<ExecSpace>;
/// Teams of up to 1024 threads, the most that a device allows: compilers then give each of them few
/// registers.
using LargeTeam = Kokkos::TeamPolicy<ExecSpace, Kokkos::LaunchBounds<1024>>;

/// Vector registers of the processor for which this build is compiled. Compilers would keep longer vectors in
/// memory, where each operation reads and writes them.
#if defined(__AVX512F__)
constexpr int vector_bytes = 64, vector_registers = 32;
#elif defined(__AVX__)
constexpr int vector_bytes = 32, vector_registers = 16;
#elif defined(__aarch64__)
constexpr int vector_bytes = 16, vector_registers = 32;
#else
constexpr int vector_bytes = 16, vector_registers = 16;
#endif
constexpr int values_per_vector = vector_bytes / static_cast<int>(sizeof(Real));

constexpr int vector_lanes = 32; ///< threads of a device that share a row: a warp of CUDA, or less

/// Threads of a team on a host: one, or up to `threads` where the library was built for tests of the kernels
/// of devices. Races between them show only there. Programs that use the library need not know how it was
/// built.
int hostTeamSize(const ExecSpace& space, std::int64_t threads);

/// Teams of `threads` times `lanes` threads on a device, with scratch memory. On a host, see `hostTeamSize`.
template <class Policy>
Policy teamsOf(const ExecSpace& space, std::int64_t teams, std::int64_t threads, std::int64_t lanes,
               std::size_t scratch_bytes = 0) {
  PARTITA_REQUIRE(teams <= std::numeric_limits<int>::max(), "more teams than Kokkos can number");
  const auto count = static_cast<int>(teams);
  Policy policy = device_is_host ? Policy(space, count, hostTeamSize(space, threads))
                                 : Policy(space, count, static_cast<int>(threads), static_cast<int>(lanes));
  policy.set_scratch_size(0, Kokkos::PerTeam(static_cast<int>(scratch_bytes)));
  return policy;
}
/// Scratch memory of a team. Neighbours in the last extent are neighbours in memory, which is not
/// the default on devices.
template <class Data>
using ScratchView = Kokkos::View<Data, Kokkos::LayoutRight, ExecSpace::scratch_memory_space,
                                 Kokkos::MemoryTraits<Kokkos::Unmanaged>>;

/// Scratch that a team may ask for, in bytes: devices have 48 KiB, of which Kokkos needs some for its own
/// sums.
constexpr std::int64_t team_scratch_bytes = 47 << 10;

/// The first `rows` rows of a matrix, without a copy.
inline Matrix topRows(const Matrix& matrix, std::int64_t rows) {
  return Matrix(matrix.data(), rows, matrix.extent(1));
}

/// Rows [first, first + rows) of a matrix, without a copy.
inline Matrix rowsFrom(const Matrix& matrix, std::int64_t first, std::int64_t rows) {
  const auto width = static_cast<std::int64_t>(matrix.extent(1));
  return Matrix(matrix.data() + first * width, rows, width);
}

/// Values [begin, begin + size) of a vector, without a copy.
inline Vector subvector(const Vector& values, std::int64_t begin, std::int64_t size) {
  return Vector(values.data() + begin, size);
}

/// body(first, count) for at most `at_once` of the rows at a time.
template <class Body>
void eachRows(std::int64_t rows, std::int64_t at_once, const Body& body) {
  for (std::int64_t first = 0; first < rows; first += at_once) body(first, std::min(at_once, rows - first));
}

inline Labels firstLabels(const Labels& labels, std::int64_t rows) {
  return Labels(labels.data(), rows);
}

/// Allocates without initialisation; labels start with `partita::`.
inline Matrix makeMatrix(const std::string& label, std::int64_t rows, std::int64_t columns) {
  return Matrix(Kokkos::view_alloc(Kokkos::WithoutInitializing, label), rows, columns);
}

/// Waits for the work of one execution space instance; there is no global fence in Partita.
inline void fence(const ExecSpace& space, const char* name) {
#if KOKKOS_VERSION >= 30500
  space.fence(name);
#else
  (void)name;
  space.fence();
#endif
}

} // namespace partita
