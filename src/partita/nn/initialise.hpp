#pragma once

#include "partita/config/run_config.hpp"
#include "partita/core/types.hpp"

namespace partita {

/// Fills W [outputs, inputs] on the host as a function of (seed, layer, element) alone: normal numbers of
/// variance 2/inputs (He et al., 2015), 2/(inputs+outputs) (Glorot and Bengio, 2010), 1/inputs (LeCun et al.,
/// 1998), or a random orthogonal matrix (Saxe et al., 2014).
void initialiseWeights(Initialisation kind, std::uint64_t seed, std::int64_t layer, std::int64_t outputs,
                       std::int64_t inputs, Real* weights);

/// Makes the rows of m [rows, columns], rows <= columns, orthonormal: Gram-Schmidt, twice over each row, the
/// signs kept (the Q of a QR factorisation with positive diagonal).
void orthonormaliseRows(double* m, std::int64_t rows, std::int64_t columns);

} // namespace partita
