#pragma once

#include "partita/plan/stage_place.hpp"
#include "partita/plan/stage_plan.hpp"

namespace partita {

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

} // namespace partita
