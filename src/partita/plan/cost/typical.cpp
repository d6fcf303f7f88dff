#include "partita/plan/cost/typical.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace partita {

double typical(Typical which, std::vector<double> values) {
  if (values.empty()) throw std::logic_error("no values to choose from");
  const std::size_t size = values.size();
  if (which == Typical::mean)
    return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(size);
  std::sort(values.begin(), values.end());
  if (which == Typical::lower_quartile) return values[(size - 1) / 4];
  return 0.5 * (values[(size - 1) / 2] + values[size / 2]);
}

} // namespace partita
