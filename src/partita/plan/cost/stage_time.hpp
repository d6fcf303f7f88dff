#pragma once

#include "partita/plan/cost/cost_terms.hpp"
#include "partita/plan/cost/gradient_buckets.hpp"

namespace partita {

/// What a rank does for its part of a stage in one pass.
struct StageTime {
  std::vector<GradientLayer> layers;                      ///< the last one is the head and the labels
  double copies_forward = 0.0, copies_backward = 0.0;     ///< seconds: to and from messages of parts
  std::vector<Exchange> exchanges;                        ///< with the other parts
  double exchange_forward = 0.0, exchange_backward = 0.0; ///< seconds of these
  std::vector<double> statistic_sums;                     ///< values of each sum over replicas in a pass
  double statistics = 0.0;                                ///< values that replicas average after a step
  double update = 0.0;                                    ///< seconds per step
  double outputs = 0.0;                                   ///< values per sample that cross the cut after it

  double forward() const { return copies_forward + sum(&GradientLayer::forward); }
  double backward() const { return copies_backward + sum(&GradientLayer::backward); }
  double compute() const { return forward() + backward(); }
  double gradientBytes() const { return sum(&GradientLayer::bytes); }
  double exchangeSeconds() const { return exchange_forward + exchange_backward; }

 private:
  double sum(double GradientLayer::*field) const {
    double all = 0.0;
    for (const GradientLayer& layer : layers) all += layer.*field;
    return all;
  }
};

/// A stage of a run, with the layers and messages of `partOfStage`.
struct StageCost {
  /// By number of samples, on the part that takes longest; messages and bytes are those of the part that
  /// sends most.
  std::vector<StageTime> times;
  StageMemory memory; ///< on the part that needs most
};

/// The cost of a stage in passes over each of these numbers of samples. Each part is planned only once,
/// because plans of large networks take longer than all that is asked of them. The memory is that of
/// `stageMemory`, but is left out if the stage copies parameters: whether its parts can is asked last.
StageCost stageCost(const CostTerms& terms, const ProgramRun& run, int stage,
                    const std::vector<std::int64_t>& samples);

/// Bytes of a number in a sum of gradients.
double sumBytes(const ProgramRun& run);

/// Bytes that the exchanges of `own`, a part's plan of a stage, copy in a pass over `rows` samples with
/// values of `real_bytes` bytes. `input_gradient`: does the stage before need it?
struct CopiedBytes {
  double forward = 0.0, backward = 0.0;
};
CopiedBytes copiedBytes(const StagePlan& own, std::int64_t rows, std::int64_t real_bytes,
                        bool input_gradient);

} // namespace partita
