#pragma once

#include "partita/config/run_config.hpp"
#include "partita/core/random.hpp"
#include "partita/core/types.hpp"
#include "partita/plan/tensor_slice.hpp"

namespace partita {

/// Everything that determines the starting values of a matrix W [outputs, inputs].
struct WeightSource {
  std::uint64_t seed;
  std::int64_t layer, outputs, inputs;
};

/// Fills a slice of W, or of a tensor with its values, on the host. The values depend only on (seed, layer,
/// element of the whole): normal numbers of variance 2/inputs (He et al., 2015), 2/(inputs+outputs) (Glorot
/// and Bengio, 2010), 1/inputs (LeCun et al., 1998), or a random orthogonal matrix (Saxe et al., 2014).
void initialiseWeights(Initialisation kind, const WeightSource& source, const TensorSlice& slice,
                       Real* weights);

/// Fills in normal numbers of deviation `scale`; element i of the whole gets random number `first` + i.
void fillNormal(double scale, const RandomStream& random, std::int64_t first, const TensorSlice& slice,
                Real* values);

/// Makes the rows of m [rows, columns], rows <= columns, orthonormal: Gram-Schmidt, twice per row, with the
/// signs kept (the Q of a QR factorisation with positive diagonal).
void orthonormaliseRows(double* m, std::int64_t rows, std::int64_t columns);

} // namespace partita
