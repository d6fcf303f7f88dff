#pragma once

#include "partita/config/run_config.hpp"
#include "partita/plan/stage_plan.hpp"

#include <cstdint>

namespace partita {

/// The memory in which a rank computes, as far as it decides what lies there.
struct DeviceKind {
  std::int64_t real_bytes = sizeof(float);
  bool host = true;             ///< the host's own: what is pinned for a device lies there too
  bool staged_messages = false; ///< matrices get to MPI through pinned memory
  bool staged_sums = false;     ///< sums over the replicas do
};

/// A stage's place among those of its rank, and the rank's among the others.
struct StagePlace {
  int group = 0, groups = 1, replicas = 1;
  bool first = true, last = true; ///< of the stages of its rank

  bool receives() const { return first && group > 0; } ///< from the rank in front, while going forwards
  bool sends() const { return last && group + 1 < groups; }
};

/// How many samples a stage works on at once.
struct StageRows {
  StageRows(const StrategySection& strategy, const StagePlace& place, std::int64_t batch);

  std::int64_t share;       ///< samples of a batch that a replica has
  std::int64_t microbatch;  ///< and a microbatch of a pipeline
  std::int64_t pass;        ///< most in a pass: a microbatch, or with labels of its own the share
  std::int64_t live;        ///< microbatches between forward and backward pass at most
  std::int64_t live_before; ///< the same of the rank in front
};

/// Bytes of the buffers for batches and messages that a stage has in the memory of its rank's device, by what
/// the run is doing.
class StageBuffers {
 public:
  StageBuffers(const StagePlan& stage, const RunConfig& config, const StagePlace& place,
               const DeviceKind& device);

  std::int64_t ofPipeline() const;            ///< training of `joint` and `pipeline`, recovery of `sil`
  std::int64_t ofRelay() const;               ///< activations of the stage in front come batch by batch
  std::int64_t ofFrozen() const;              ///< they are spilled first, and read again in every epoch
  std::int64_t ofFreeInput(bool mixes) const; ///< inputs are made from labels, or mixtures of them
  std::int64_t ofEvaluation() const;          ///< beside any of them

 private:
  std::int64_t batches(std::int64_t rows, std::int64_t held, bool features) const;
  std::int64_t slots(std::int64_t count, Precision wire) const;
  std::int64_t copies(std::int64_t count, Precision wire) const;

  const StagePlan& _stage;
  const StrategySection& _strategy;
  StagePlace _place;
  DeviceKind _device;
  StageRows _rows;
  std::int64_t _prefetch;
  Precision _wire; ///< while training
};

/// Bytes of one stage in the memory of its rank's device.
struct StageMemory {
  std::int64_t parameters = 0;  ///< and running statistics, twice where steps may be left out
  std::int64_t gradients = 0;   ///< and a copy of them where sums over replicas are made in one
  std::int64_t optimiser = 0;   ///< its state, or the buffers through which that passes
  std::int64_t activations = 0; ///< of live passes, gradients on their way back, what losses and layers need
  std::int64_t buffers = 0;     ///< of batches and messages, while training
  std::int64_t evaluation = 0;  ///< the same of an evaluation, which comes beside the training
  std::int64_t offloaded = 0;   ///< state of the optimiser elsewhere; on a host in memory it is counted above
  std::int64_t total() const {
    return parameters + gradients + optimiser + activations + buffers + evaluation;
  }
};

/// May gradients overflow, being of 16 bits or summed in them? Then a step can be left out, and what it
/// changed before that is seen is kept twice.
bool leavesStepsOut(const RunConfig& config);

/// Memory of a stage that trains. What has a fixed and small size, such as sums of losses, is left out.
StageMemory stageMemory(const StagePlan& stage, const RunConfig& config, const StagePlace& place = {},
                        const DeviceKind& device = {});

} // namespace partita
