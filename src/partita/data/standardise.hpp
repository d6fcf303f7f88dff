#pragma once

#include "partita/data/dataset.hpp"

#include <vector>

namespace partita {

/// x -> (x - shift) * scale.
struct AffineMap {
  std::vector<float> shift, scale; ///< one value, or one a feature
};

/// The map that gives `samples` mean 0 and deviation 1, over all features together (scalar) or each
/// (feature). A constant is only shifted; `none` maps every value to itself.
AffineMap standardisation(const Samples& samples, Standardise kind);

} // namespace partita
