#pragma once

#include <cmath>

namespace partita {

/// The overloads for float and double, in host and device code alike: the global functions of C would
/// silently compute in double.
using std::cos;
using std::erfc;
using std::exp;
using std::log;
using std::sqrt;
using std::tanh;

} // namespace partita
