#pragma once

#include "partita/config/run_config.hpp"
#include "partita/plan/stage_plan.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace partita {

/// The properties of a rank's memory that determine what is stored there.
struct DeviceKind {
  std::int64_t real_bytes = sizeof(float);
  bool host = true;             ///< host memory: buffers pinned for a device lie there too
  bool staged_messages = false; ///< matrices reach MPI through pinned memory
  bool staged_sums = false;     ///< so do sums over the replicas
  bool device_sums = false;     ///< devices add up gradients over the replicas, where they are
};

/// Bytes of a number that is stored or sent in this precision.
constexpr std::int64_t numberBytes(Precision precision, std::int64_t real_bytes) {
  return precision == Precision::single ? real_bytes : 2;
}

/// The place of a stage among those of its rank, and of the rank among the others.
struct StagePlace {
  int group = 0, groups = 1, replicas = 1;
  bool first = true, last = true; ///< of the stages of its rank

  bool receives() const { return first && group > 0; } ///< from the previous rank, in the forward pass
  bool sends() const { return last && group + 1 < groups; }
};

/// How many samples a stage works on at once.
struct StageRows {
  StageRows(const StrategySection& strategy, const StagePlace& place, std::int64_t batch);

  std::int64_t share;      ///< samples of a batch per replica
  std::int64_t microbatch; ///< samples of a microbatch of a pipeline
  std::int64_t pass; ///< most samples in a pass: a microbatch, or the share if the stage has its own labels
  std::int64_t live; ///< most microbatches between forward and backward pass
  std::int64_t live_before; ///< the same for the previous rank
};

/// Bytes of a stage's buffers for batches and messages in the memory of its rank's device, by phase of the
/// run.
class StageBuffers {
 public:
  StageBuffers(const StagePlan& stage, const RunConfig& config, const StagePlace& place,
               const DeviceKind& device);

  std::int64_t ofPipeline() const;   ///< training of `joint` and `pipeline`, recovery of `sil`
  std::int64_t ofWorker() const;     ///< batches of a size that changes, of one stage on its own
  std::int64_t ofRelay() const;      ///< activations of the previous stage arrive batch by batch
  std::int64_t ofJointSteps() const; ///< gradients go back in some steps of a relay
  std::int64_t ofCopies() const;     ///< parameters that heads copy from later stages
  /// The same activations are first spilled, and read again in every epoch; `optimiser`: bytes that are free
  /// while the stage feeds another. Messages use the bytes of the evaluation, which comes after them.
  std::int64_t ofFrozen(std::int64_t optimiser) const;
  std::int64_t ofFreeInput(bool mixes) const; ///< inputs are made from labels, or mixtures of them
  std::int64_t ofEvaluation() const;          ///< in addition to any of these

 private:
  std::int64_t batches(std::int64_t rows, std::int64_t held, bool features) const;
  /// A stream of values in messages, which are `stored` like this at both ends.
  struct Stream {
    Precision wire, stored;
  };
  std::int64_t slots(std::int64_t count, const Stream& stream) const;
  std::int64_t copies(std::int64_t count, const Stream& stream) const;

  const StagePlan& _stage;
  const StrategySection& _strategy;
  StagePlace _place;
  DeviceKind _device;
  StageRows _rows;
  std::int64_t _prefetch;
  Precision _stored; ///< activations between stages, and their gradients
  Stream _training;  ///< these in messages while training
};

/// Bytes of one stage in the memory of its rank's device.
struct StageMemory {
  std::int64_t parameters = 0;  ///< and running statistics, twice if steps may be skipped
  std::int64_t gradients = 0;   ///< and the buffers for their sums over replicas
  std::int64_t optimiser = 0;   ///< its state, or the buffers through which it is streamed
  std::int64_t activations = 0; ///< of live passes, their gradients, and scratch of losses and layers
  std::int64_t buffers = 0;     ///< of batches, messages (`frozen`: see ofFrozen) and checkpoints
  std::int64_t evaluation = 0;  ///< the same for an evaluation, in addition to the training
  std::int64_t offloaded = 0;   ///< optimiser state elsewhere; host memory of a host rank is counted above
  std::int64_t total() const {
    return parameters + gradients + optimiser + activations + buffers + evaluation;
  }
};

/// May gradients overflow because they are 16-bit or summed in 16 bits? Then a step may be skipped, and
/// whatever it changes before the overflow is detected is kept twice.
bool leavesStepsOut(const RunConfig& config);

/// Names of the state vectors of an optimiser, in the order in which checkpoints keep them.
std::vector<std::string> optimiserStates(const OptimiserSection& optimiser);

/// Vectors of the length of the parameters that an update reads and writes besides them: moments, and
/// masters.
std::int64_t optimiserVectors(const RunConfig& config);

/// Memory of a stage during training. Small buffers, such as sums of losses and the squares that a gradient
/// norm adds up, are not counted.
StageMemory stageMemory(const StagePlan& stage, const RunConfig& config, const StagePlace& place = {},
                        const DeviceKind& device = {});

} // namespace partita
