#pragma once

#include "partita/plan/stage_memory.hpp"

#include <vector>

namespace partita {

/// Memory of this program for the network of a deck, on hosts, by the rules of `partita train -n`.
class ProgramMemory {
 public:
  ProgramMemory(RunConfig config, std::vector<LayerPlan> layers);

  /// One of `replicas` ranks that has the whole network and works on `samples` per step.
  StageMemory ofReplica(std::int64_t samples, std::int64_t replicas) const;

  /// Bytes of the rank of a pipeline that needs most. `first_layers`: the first cuttable layer of each stage.
  double ofPipeline(const std::vector<std::int64_t>& first_layers, std::int64_t segments,
                    PipelineSchedule schedule, std::int64_t batch) const;

 private:
  RunConfig _config;
  std::vector<LayerPlan> _layers;
  StagePlan _whole;
};

} // namespace partita
