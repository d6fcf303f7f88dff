#pragma once

#include "partita/core/typed_matrix.hpp"
#include "partita/nn/sil_labels.hpp"
#include "partita/plan/layer_part.hpp"

#include <algorithm>
#include <memory>

namespace partita {

class PartExchange;

/// The targets of a batch: one class per row, or per position of each sample. If `distribution` is not empty,
/// it replaces the class in the loss.
struct Targets {
  Labels classes;      ///< [labels], those of one sample are contiguous
  Matrix distribution; ///< [labels, classes] or empty
};

/// Loss and hit of each row of a batch.
using RowResults = Kokkos::View<Real* [2], Kokkos::LayoutRight, MemSpace>;

/// Sum of the losses and number of correct rows since the last `take`, kept on the device, so that nothing
/// waits for them.
class Score {
 public:
  explicit Score(std::int64_t capacity);
  /// Results per row; losses write them, `accumulate` adds them up in a fixed order.
  RowResults perRow() const { return _per_row; }
  void accumulate(const ExecSpace& space, std::int64_t rows);

  struct Sums {
    double loss = 0.0, correct = 0.0, rows = 0.0;
    double bad_batch = 0.0; ///< first batch whose loss is not finite, counted from 1; 0: none
    double meanLoss() const { return loss / rows; } ///< NaN if there are no rows
    double accuracy() const { return correct / rows; }
  };
  /// Reads and clears the sums. Waits for the device.
  Sums take(const ExecSpace& space);
  Sums peek(const ExecSpace& space) const; ///< reads them without clearing
  /// Has any loss since the last `take` been non-finite? Waits for the device.
  bool bad(const ExecSpace& space) const;
  void set(const ExecSpace& space, const Sums& sums);
  /// `restore` discards what came after the last `keep`: for a step that is skipped.
  void keep(const ExecSpace& space) { Kokkos::deep_copy(space, _kept, _sums); }
  void restore(const ExecSpace& space) { Kokkos::deep_copy(space, _sums, _kept); }
  /// The same if a loss is not finite, which only the device knows.
  void restoreIfBad(const ExecSpace& space);

 private:
  RowResults _per_row;
  Kokkos::View<double[4], MemSpace> _sums, _kept;
  Kokkos::View<double[4], PinnedSpace> _host;
  std::int64_t _batches = 0; ///< since the last `take`
};

/// A loss and its gradient in one kernel. Where a loss is not finite, its gradient is not either, so that
/// each rank finds it in the sum of the gradients.
class Loss {
 public:
  virtual ~Loss() = default;

  /// `output` [samples, values], which is split into one row per label of each sample. `weight` is one over
  /// the number of samples in the whole batch, over all replicas; the loss is the mean over labels. If
  /// `grad`, of the size of `output`, is empty, no gradient is computed and every row is decoded; otherwise a
  /// loss may skip the decoding if it costs extra.
  /// `output` and `grad` are stored in the same precision; only `makeCrossEntropy` takes 16 bits.
  void evaluate(const ExecSpace& space, const TypedMatrix& output, const Targets& targets,
                const DeviceFactor& weight, const TypedMatrix& grad, Score& score) {
    const auto labels = static_cast<std::int64_t>(targets.classes.extent(0)),
               each = labels / std::max<std::int64_t>(1, output.rows);
    evaluateRows(space, asRows(output, labels), targets, weight / static_cast<Real>(each),
                 asRows(grad, labels), score);
  }
  /// For a loss that parts of a stage compute together; must outlive the loss.
  virtual void share(PartExchange& parts) { (void)parts; }
  /// Does `evaluate` count correct rows during training as well?
  virtual bool decodesInTraining() const = 0;

 private:
  static TypedMatrix asRows(const TypedMatrix& values, std::int64_t rows) {
    return values.size() == 0 ? TypedMatrix() : values.inRowsOf(values.size() / rows);
  }
  /// One label per row; `weight` is one over the number of labels in the whole batch.
  virtual void evaluateRows(const ExecSpace& space, const TypedMatrix& output, const Targets& targets,
                            const DeviceFactor& weight, const TypedMatrix& grad, Score& score) = 0;
};

/// Softmax cross-entropy with label smoothing (Szegedy et al., arXiv 1512.00567). Without a gradient, as in
/// an evaluation, nothing is smoothed, so that exp of the loss is a perplexity.
std::unique_ptr<Loss> makeCrossEntropy(double label_smoothing);

/// The same for logits of which each part has those of its classes. No logits are sent: for each label, parts
/// gather the largest logit, the sum of exponentials, the product with the target and the hit (Shoeybi et
/// al., Megatron-LM, arXiv 1909.08053, section 3). All parts have the same score. `capacity`: number of
/// labels.
std::unique_ptr<Loss> makeDividedCrossEntropy(double label_smoothing, const ClassParts& classes,
                                              std::int64_t capacity);

/// J = 1/(B N) sum |f - S[y]|^2; decoded by the nearest label. With one-hot labels: ordinary mean squared
/// error.
std::unique_ptr<Loss> makeLabelMse(const SilLabels& labels, std::int64_t capacity);

} // namespace partita
