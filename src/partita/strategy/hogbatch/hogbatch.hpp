#pragma once

#include "partita/strategy/evaluation.hpp"
#include "partita/strategy/hogbatch/coordinator.hpp"
#include "partita/strategy/hogbatch/worker.hpp"
#include "partita/strategy/strategy.hpp"

namespace partita {

/// Workers of unequal speed train one model without waiting for one another (Hogbatch, arXiv 2004.08771):
/// rank 0 coordinates, and every other rank is a worker. Shared workers update the model in place, in shared
/// memory of rank 0's node; the others compute on a copy and merge their results.
class HogbatchTraining final : public Strategy {
 public:
  explicit HogbatchTraining(const RunContext& context);
  bool run(const ExecSpace& space) override;

  /// On rank 0: the coordinator's counts.
  const HogbatchState& state() { return _coordinator->state(); }

 private:
  std::vector<int> ranksOnOtherNodes() const;
  void makeWorker();
  void beginCoordinator(const std::vector<int>& others);
  void beginModel(const ExecSpace& space);
  void keepNumbers();
  void keepMeeting(const WorkOrder& order);
  WorkOrder nextMeeting(const ExecSpace& space);
  bool meetAgain(const ExecSpace& space);
  bool meet(const ExecSpace& space, const WorkOrder& order);

  RunContext _context;
  Mailbox _mailbox;
  Communicator _channel; ///< for parameters and gradients between nodes
  Evaluator _evaluator;
  std::unique_ptr<SharedModel> _model; ///< null on other nodes
  std::unique_ptr<DecisionLog> _log;
  std::unique_ptr<ModelServer> _server;      ///< on rank 0, if workers are on other nodes
  std::unique_ptr<Coordinator> _coordinator; ///< on rank 0
  std::unique_ptr<ModelAccess> _access;      ///< on the others
  std::unique_ptr<Worker> _worker;
};

/// Does this rank update the model in place?
bool isSharedWorker(const RunConfig& config, const Grid& grid);

/// Training by HogbatchTraining, or the repetition of its decisions by HogbatchReplay.
const StrategyRules& hogbatchRules();

} // namespace partita
