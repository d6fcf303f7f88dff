#pragma once

#include "partita/nn/loss.hpp"

namespace partita {

/// Cross-entropy of softmax(logits) against the targets, a row at a time: per-row loss and hit into the
/// score, and grad = weight (softmax - target) where `grad` is not empty. `smoothing` takes that much from
/// the targets and spreads it over all classes.
void softmaxCrossEntropy(const ExecSpace& space, const Matrix& logits, const Targets& targets, Real smoothing,
                         Real weight, const Matrix& grad, Score& score);

/// probabilities = softmax(scale * logits), row by row; the two may be the same matrix.
void softmax(const ExecSpace& space, Real scale, const Matrix& logits, const Matrix& probabilities);

} // namespace partita
