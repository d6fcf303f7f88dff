#include "partita/io/run_file.hpp"

namespace partita {

std::int64_t TensorRecord::size() const {
  std::int64_t product = 1;
  for (const std::int64_t extent : extents) product *= extent;
  return product;
}

} // namespace partita
