#pragma once

#include "partita/core/typed_matrix.hpp"

namespace partita {

/// Weights in the order of the columns, of any precision: [outputs, channels x taps] -> [outputs, taps x
/// channels].
void packWeights(const ExecSpace& space, std::int64_t taps, const Matrix& weight, const TypedMatrix& packed);
/// The reverse; with `accumulate` added to what is there.
void unpackWeights(const ExecSpace& space, std::int64_t taps, const TypedMatrix& packed, const Matrix& weight,
                   bool accumulate);

} // namespace partita
