#pragma once

#include "partita/config/run_config.hpp"
#include "partita/core/types.hpp"
#include "partita/plan/shape.hpp"

#include <vector>

namespace partita {

/// The synthetic intermediate labels of one cut: one fixed random vector per class, the same on every rank
/// for the same seed, so that nothing has to be sent (C. V. Karadag and N. Topaloglu, arXiv 2403.11204).
struct SilLabels {
  std::vector<double> values; ///< S [classes, width] on the host, in the order of the cut's shape
  std::vector<double> mean;   ///< mean row, [width]
  double deviation = 0.0;     ///< root mean square of S - mean row
  double temperature = 0.0;   ///< tau of prototype cross-entropy: sqrt(width) for orthogonal labels
  ImageLayout layout;         ///< of the cut, in which labels lie on the device
  Matrix rows;                ///< S on the device
  Matrix centred;             ///< S minus its mean row, on the device
  Vector half_squares;        ///< |S_c|^2 / 2 per class: nearest label = largest <f, S_c> - half_squares(c)

  std::int64_t classes() const { return static_cast<std::int64_t>(rows.extent(0)); }
  std::int64_t width() const { return static_cast<std::int64_t>(rows.extent(1)); }
  Real perTemperature() const { return static_cast<Real>(1.0 / temperature); }
  double centredAt(std::size_t i) const { return values[i] - mean[i % mean.size()]; }
  std::vector<Real> decoder() const; ///< (S - mean) / tau on the host: z = f decoder^T
};

/// Labels of the cut after stage `cut`. `temperature` 0 means sqrt(width C/(C-1)) times their deviation,
/// which is sqrt(width) for orthogonal labels of unit RMS. `layout`: of the activations at the cut. Throws
/// UserError if `width` units have fewer different labels of this kind than there are classes.
SilLabels makeSilLabels(LabelKind kind, double kappa, double temperature, std::int64_t classes,
                        std::int64_t width, std::uint64_t seed, int cut, const ImageLayout& layout = {});

/// Reads the class from the output of a stage by fixed labels: z = f (S - mean)^T / tau.
class LabelDecoder {
 public:
  /// `capacity`: the most labels in a batch.
  LabelDecoder(const SilLabels& labels, std::int64_t capacity);

  /// f [labels, width] -> z [labels, classes], valid until the next call.
  Matrix forward(const ExecSpace& space, const Matrix& output);
  /// The buffer in which a loss leaves dJ/dz for `backward`, [labels, classes].
  Matrix logitGradient(const Matrix& output) const;
  /// dJ/dz -> dJ/df.
  void backward(const ExecSpace& space, const Matrix& logit_gradient, const Matrix& grad) const;

 private:
  SilLabels _labels;
  Matrix _logits, _logit_gradient;
};

/// One-hot rows: with them the label losses are the ordinary losses on the true classes.
SilLabels makeOneHotLabels(std::int64_t classes);

} // namespace partita
