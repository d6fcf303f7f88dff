#pragma once

#include "partita/nn/sil_labels.hpp"
#include "partita/strategy/sil/batch_source.hpp"

namespace partita {

/// A BatchSource for `free`: the input of a later stage is generated from the labels alone, so that nothing
/// crosses the cut during training.
///
/// Without mixtures: S[y] + sigma std(S) eps. With mixtures: a^T S, where a = softmax(z) is a random
/// posterior around the class, z_c = 8 u1 n_c + 12 u2 [c = y], with u1, u2 uniform per sample and n_c normal;
/// a is then also the target. The random numbers are a function of (seed, stage, position of the label in the
/// run), so that they do not depend on the number of replicas.
class SyntheticSource {
 public:
  struct Place {
    std::int64_t batch = 0, first = 0; ///< rows of a whole batch, and where this replica's slice begins in it
    std::int64_t step = 0;             ///< of the next batch
    std::int64_t positions = 1;        ///< labels per row
  };

  SyntheticSource(const SilLabels& labels, std::shared_ptr<BatchReader> classes, bool mixture, double noise,
                  std::uint64_t seed, int stage, Place place, std::int64_t capacity);
  StageBatch operator()(const ExecSpace& space);

 private:
  std::int64_t firstLabel() const { return (_place.step * _place.batch + _place.first) * _place.positions; }
  Matrix asSamples(const Matrix& in) const; ///< reshapes one row per label to one per sample
  StageBatch mixed(const ExecSpace& space, const Labels& classes);
  StageBatch noisy(const ExecSpace& space, const Labels& classes);

  SilLabels _labels;
  std::shared_ptr<BatchReader> _classes;
  bool _mixture;
  double _noise;
  std::uint64_t _seed;
  int _stage;
  Place _place;
  Matrix _in, _posterior;
};

} // namespace partita
