#pragma once

#include "partita/comm/message.hpp"
#include "partita/data/batch_reader.hpp"
#include "partita/strategy/evaluation.hpp"
#include "partita/strategy/run_context.hpp"
#include "partita/strategy/stage_trainer.hpp"

namespace partita {

/// Ordinary back-propagation through the joined stages across ranks: some epochs that let the stages settle
/// together, with fresh optimisers and a smaller learning rate. One batch at a time goes forward and back.
class Recovery {
 public:
  explicit Recovery(const RunContext& context);
  /// From where the context says; returns false where the run was ended early. Collective.
  bool run(const ExecSpace& space);

 private:
  void step(const ExecSpace& space, BatchReader& reader, const Position& position);
  void forward(const ExecSpace& space, const Pass& pass, const Batch& batch);
  void backward(const ExecSpace& space, const Pass& pass, const Batch& batch);
  double squaresOfAll(const ExecSpace& space);

  RunContext _context;
  std::int64_t _first; ///< steps that were taken before
  Evaluator _evaluator;
  std::vector<std::unique_ptr<StageUpdater>> _updaters;
  std::vector<Matrix> _inputs;          ///< of each local stage, for the batch under way
  std::vector<Matrix> _input_gradients; ///< buffers, [capacity, inputs]; empty for the very first stage
  std::unique_ptr<Sender> _onward, _back;
  std::unique_ptr<Receiver> _from_before, _from_behind;
};

} // namespace partita
