#pragma once

#include <vector>

namespace partita {

/// Which value stands for several measurements of the same quantity.
enum class Typical { lower_quartile, median, mean };

/// The lower quartile of n values is number (n - 1) / 4 in order of size, counted from 0. The median of an
/// even number of values is the mean of the two in the middle. Throws std::logic_error if there are no
/// values.
double typical(Typical which, std::vector<double> values);

} // namespace partita
