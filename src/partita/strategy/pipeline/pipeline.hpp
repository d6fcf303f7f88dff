#pragma once

#include "partita/strategy/evaluation.hpp"
#include "partita/strategy/pipeline/engine.hpp"
#include "partita/strategy/pipeline/network_work.hpp"
#include "partita/strategy/replicas.hpp"
#include "partita/strategy/strategy.hpp"

#include <memory>

namespace partita {

/// Ordinary back-propagation through the joined stages, over microbatches and across ranks and replicas: the
/// training of `joint` and `pipeline`, and the recovery of `sil`, which fine-tunes the stages together with
/// fresh optimisers and a smaller learning rate. All passes of a step use the same weights on every rank, so
/// the result is bit for bit that of one rank that accumulates the gradients of the same microbatches.
class PipelineTraining final : public Strategy {
 public:
  /// `replicas`: how replicas learn together; null: they sum their gradients in each step.
  PipelineTraining(const RunContext& context, RunPhase phase, std::unique_ptr<Replicas> replicas = nullptr);
  bool run(const ExecSpace& space) override;

  std::int64_t mostLive() const { return _engine->mostLive(); } ///< the most live microbatches on this rank

 private:
  BatchReader makeReader(const RowSource& features) const;
  void step(const ExecSpace& space, BatchReader& reader, const Position& position);
  void placeTensors();
  double squaresOfAll(const ExecSpace& space) const;

  RunContext _context;
  RunPhase _phase;
  std::unique_ptr<Replicas> _replicas;
  std::int64_t _steps, _first; ///< steps of the phase; steps already taken
  std::int64_t _microbatches = 1;
  int _number; ///< number of the stage in reports; 0: the joined network
  Evaluator _evaluator;
  std::vector<std::unique_ptr<StageUpdater>> _owned;
  std::vector<StageUpdater*> _updaters;
  std::size_t _tensor_count = 0; ///< of the whole network
  /// Of tensor `held` of the stage of updater `updater`: its number in the whole network, in layer order.
  struct TensorPlace {
    std::size_t updater, held, number;
  };
  std::vector<TensorPlace> _tensor_places; ///< of the tensors that this rank counts
  std::unique_ptr<NetworkWork> _work;
  std::unique_ptr<PipelineEngine> _engine;
};

/// Of `joint` and `pipeline`.
const StrategyRules& pipelineRules();

} // namespace partita
