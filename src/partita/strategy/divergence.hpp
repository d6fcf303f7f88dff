#pragma once

#include "partita/strategy/local_stage.hpp"

#include <functional>

namespace partita {

/// What this rank does before it ends the job because a loss, a gradient or a parameter is not finite, as
/// long as the object exists; one at a time. All that MPI may use is still there, so other ranks can go on
/// meanwhile.
class BeforeDivergence {
 public:
  explicit BeforeDivergence(std::function<void()> call);
  ~BeforeDivergence();
  BeforeDivergence(const BeforeDivergence&) = delete;
  BeforeDivergence& operator=(const BeforeDivergence&) = delete;

  /// To be called where such a RunError is about to be thrown.
  static void happen();
};

/// Throws RunError for a stage whose loss is not finite: names the step, and the first place in the stage
/// whose values are not finite in the batch on `tape` with input `in`. `counted_from`: the step of the last
/// report; `batches`: losses per step. Waits for the device.
[[noreturn]] void failDiverged(const ExecSpace& space, const LocalStage& local, const Tape& tape,
                               const TypedMatrix& in, std::int64_t counted_from, std::int64_t batches);

/// Throws RunError if one of `values`, which belong to a stage and are of this kind, is not finite after
/// `step` steps of the run; names the tensor. Reads all values, and waits for the device.
void failIfNotFinite(const ExecSpace& space, const LocalStage& local, const std::string& kind,
                     const StoredVector& values, std::int64_t step);
/// The same for parameters, also as layers read them in 16 bits, and for running statistics. A loss need not
/// show it: the ReLU of a library may turn NaN into 0.
void failIfNotFinite(const ExecSpace& space, const LocalStage& local, std::int64_t step);

} // namespace partita
