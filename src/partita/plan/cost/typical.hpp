#pragma once

#include <vector>

namespace partita {

/// What counts of several measurements of the same quantity.
enum class Typical { lower_quartile, median, mean };

/// The lower quartile is the value at (n - 1) / 4 in order of size, from 0; the median of an even number of
/// values is the mean of the two in the middle. Throws std::logic_error if there are none.
double typical(Typical which, std::vector<double> values);

} // namespace partita
