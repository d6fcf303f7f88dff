#pragma once

#include "partita/core/types.hpp"

namespace partita {

/// Products with rows of which few values are not zero, such as features of LIBSVM files: on hosts they take
/// less time than those of `gemm` where `isSparse` holds. The order of each sum depends on the rows alone.

/// Is it faster to leave out the zeros in products of `rows` with weights of `units` units? The answer
/// depends on the values and on the number of threads. Always false on devices.
bool isSparse(const ExecSpace& space, const Matrix& rows, std::int64_t units);

/// out = rows W^T, with rows [n, inputs], W [units, inputs], out [n, units].
void sparseProduct(const ExecSpace& space, const Matrix& rows, const Matrix& weights, const Matrix& out);

/// dJ/dW = dJ/dout^T rows; with `keep` it is added to what is there.
void sparseGradient(const ExecSpace& space, const Matrix& rows, const Matrix& grad_out,
                    const Matrix& gradient, bool keep);

} // namespace partita
