#pragma once

#include "partita/data/dataset.hpp"

#include <string>
#include <vector>

namespace partita {

/// x -> (x - shift) * scale.
struct AffineMap {
  std::vector<float> shift, scale; ///< one value, or one per feature
};

/// The map that gives `samples` mean 0 and deviation 1, over all features together (scalar) or per feature
/// (feature). A constant, and what hardly differs from one, is only shifted; `none` maps every value to
/// itself. `table`: the source of the samples if their features are different quantities; otherwise empty.
AffineMap standardisation(const Samples& samples, Standardise kind, const std::string& table);

/// Do the samples differ so much from those for which `map` was made that they must be in other units, such
/// as pixels from 0 to 1 instead of 0 to 255? No, if the map does not tell, as without standardisation.
bool hasAnotherScale(const Samples& samples, const AffineMap& map);

} // namespace partita
