#pragma once

#include "partita/nn/layer.hpp"
#include "partita/nn/sil_labels.hpp"

namespace partita {

/// y = p S with p = softmax(x (S - mean)^T / tau): what a stage knows about the class, expressed in the
/// labels of the cut. It stands between two stages of the joined network if the later one was trained on
/// labels only. Output and input may be the same memory, and so may their gradients.
class Reencode : public Layer {
 public:
  Reencode(const SilLabels& labels, int cut, std::int64_t capacity);

  std::int64_t inputs() const override { return _labels.width(); }
  std::int64_t outputs() const override { return _labels.width(); }
  std::string name() const override { return "cut" + std::to_string(_cut) + ".reencode"; }
  std::int64_t savedValues() const override { return _labels.classes(); } ///< the posterior p

  void forward(const ExecSpace& space, const Pass& pass, const TypedMatrix& in, const TypedMatrix& out,
               const Matrix& saved) override;
  void backward(const ExecSpace& space, const Pass& pass, const TypedMatrix& in, const TypedMatrix& out,
                const Matrix& saved, const TypedMatrix& grad_out, const TypedMatrix& grad_in) override;

 private:
  SilLabels _labels;
  int _cut;
  Matrix _logit_gradient; ///< work space, [capacity, classes]
};

} // namespace partita
