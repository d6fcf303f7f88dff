#include "partita/core/types.hpp"

#include <algorithm>

namespace partita {

int hostTeamSize(const ExecSpace& space, std::int64_t threads) {
  constexpr int most = 64; // of Kokkos
  return row_teams ? std::min({static_cast<int>(threads), space.concurrency(), most}) : 1;
}

} // namespace partita
