#pragma once

#include "partita/core/typed_matrix.hpp"
#include "partita/nn/loss.hpp"

namespace partita {

/// Cross-entropy of softmax(logits) against the targets, row by row. Writes the loss and hit of each row to
/// the score, and grad = weight (softmax - target) if `grad` is not empty. `smoothing` is the share that is
/// taken from the targets and spread over all classes. Logits and their gradient are stored in the same
/// precision.
void softmaxCrossEntropy(const ExecSpace& space, const TypedMatrix& logits, const Targets& targets,
                         Real smoothing, const DeviceFactor& weight, const TypedMatrix& grad, Score& score);

/// probabilities = softmax(logits), row by row; the two may be the same matrix.
void softmax(const ExecSpace& space, const Matrix& logits, const Matrix& probabilities);

/// sum = keep * sum + weight * log softmax(logits), row by row; `sum` is not read if `keep` is 0.
void addLogSoftmax(const ExecSpace& space, const TypedMatrix& logits, Real weight, Real keep,
                   const Matrix& sum);

} // namespace partita
