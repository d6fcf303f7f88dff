#pragma once

#include "partita/strategy/evaluation.hpp"
#include "partita/strategy/hogbatch/coordinator.hpp"
#include "partita/strategy/hogbatch/worker.hpp"
#include "partita/strategy/strategy.hpp"

#include <map>

namespace partita {

/// The updates in the log that the deck repeats, in order. If the log ends early, it may lack an update; what
/// follows that one is left out, with a warning. Throws UserError if updates are out of order or have samples
/// that do not exist, or if the last step that the log has is not that of the deck.
std::vector<Decision> readUpdates(const RunConfig& config, const SampleProgress& progress);

/// Repeats an asynchronous run on one rank, bit for bit, from its log of decisions. Each gradient is computed
/// from the version of the parameters that its worker had read, and changes are made in the order of the run.
class HogbatchReplay final : public Strategy {
 public:
  explicit HogbatchReplay(const RunContext& context);
  bool run(const ExecSpace& space) override;

 private:
  void computeGradients(const ExecSpace& space, std::int64_t version);
  void change(const ExecSpace& space, const Decision& decision);
  bool endEpoch(const ExecSpace& space, std::int64_t epoch, std::int64_t done);

  /// A gradient that was computed from an earlier version of the parameters.
  struct Pending {
    std::vector<Real> gradient, parameters;
  };

  RunContext _context;
  Stage& _stage;
  SampleProgress _progress;
  Evaluator _evaluator;
  GradientWork _work;
  std::vector<Decision> _decisions; ///< of updates, by version
  std::multimap<std::int64_t, std::size_t>
      _unread;                              ///< decisions without a gradient so far, by the version read
  std::map<std::int64_t, Pending> _pending; ///< by number of the batch
};

} // namespace partita
