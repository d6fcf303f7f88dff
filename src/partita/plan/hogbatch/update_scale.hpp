#pragma once

#include "partita/config/batch_rules.hpp"

#include <algorithm>
#include <cstdint>

namespace partita {

/// How the learning rate of an update follows from its number of examples.
struct RateScale {
  double reference = 0.0; ///< examples of an update with the rate of the deck; 0: all have it
  double cap = 0.0;       ///< largest factor; 0: none

  /// min(examples / reference, cap).
  double factor(double examples) const {
    if (!(reference > 0.0)) return 1.0;
    const double scaled = examples / reference;
    return cap > 0.0 ? std::min(scaled, cap) : scaled;
  }
};

/// How much an update counts if the parameters that it was computed from are `tau` updates old.
struct StalenessScale {
  StalenessRule rule = StalenessRule::none;
  std::int64_t bound = 0; ///< ringmaster (ICML 2025): largest tau of an update that counts

  /// Factor on the rate: 1, or 1/max(1, tau), or 0 for an update that is dropped.
  double factor(std::int64_t tau) const {
    if (rule == StalenessRule::scale) return 1.0 / static_cast<double>(std::max<std::int64_t>(1, tau));
    if (rule == StalenessRule::ringmaster) return tau > bound ? 0.0 : 1.0;
    return 1.0;
  }
};

} // namespace partita
