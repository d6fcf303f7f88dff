#pragma once

#include "partita/config/batch_rules.hpp"

#include <cstdint>
#include <vector>

namespace partita {

/// How a worker reaches the model: it updates the shared parameters in place, or merges a private copy.
enum class WorkerRole { shared, replica };

/// Workers whose batch sizes change together: all shared workers, or one replica worker. Each worker makes
/// one update per batch.
struct WorkerGroup {
  WorkerRole role = WorkerRole::replica;
  std::int64_t workers = 1;
  std::int64_t lower = 1, upper = 1, start = 1; ///< examples in the batch of a worker
};

struct BatchRules {
  WorkerRule rule = WorkerRule::adaptive;
  double factor = 2.0; ///< adaptive: alpha > 1
  BatchGrowth growth = BatchGrowth::free;
  double beta = 1.0;      ///< share of the updates of shared workers that survives conflicts
  std::int64_t batch = 0; ///< synchronous: examples of a step; 0: the sum of the first batches

  /// How much an update of a worker counts.
  double weight(WorkerRole role) const { return role == WorkerRole::shared ? beta : 1.0; }
};

/// What the controller knows about a group. Plain numbers, which a checkpoint can keep.
struct GroupState {
  std::int64_t size = 0;       ///< examples in the batch of a worker; synchronous: in its part of a full step
  std::int64_t workers = 0;    ///< that are not lost
  std::int64_t ended = 0;      ///< batches of its workers; one of each worker makes a batch of the group
  double updates = 0.0;        ///< u of the paper; beta weights those of shared workers
  double round_updates = 0.0;  ///< proportional: since the last change; bounded growth: in laps since then
  double round_examples = 0.0; ///< proportional: since the last change
  double timed_examples = 0.0; ///< synchronous: of the batch with the least time per example
  double timed_seconds = 0.0;  ///< synchronous: the same
  double round_batches = 0.0;  ///< bounded growth: in laps since the last change
  double lap_updates = 0.0;    ///< bounded growth: in this lap
  std::int64_t lap_batches = 0; ///< bounded growth: that the group has ended in this lap
  std::int64_t resized = 0; ///< bounded growth: 1 from a change to the end of the first batch of that size
};

/// A batch that a worker has ended.
struct EndedBatch {
  bool applied = true;       ///< false: its update was dropped
  std::int64_t examples = 0; ///< in it
  std::int64_t wanted = 0;   ///< examples that the worker was to get; the end of an epoch may have had fewer
  double seconds = 0.0;
  /// This worker has sent reports of later batches along with this one. Where chance matters, they count as
  /// one, because the reports of other workers may only be late.
  bool more = false;
};

/// Decides how many examples a worker gets next. Its answers follow from earlier calls alone.
class BatchController {
 public:
  /// Throws std::logic_error for invalid rules or bounds, since decks are checked earlier.
  BatchController(const BatchRules& rules, const std::vector<WorkerGroup>& groups);

  std::size_t groups() const { return _groups.size(); }
  const BatchRules& rules() const { return _rules; }
  /// Examples that a worker of the group gets now; with `synchronous`, in a full step.
  std::int64_t size(std::size_t group) const { return _states.at(group).size; }

  /// A worker of the group has ended a batch. May change sizes, unless `more` is set.
  void finished(std::size_t group, const EndedBatch& batch);
  /// A worker of the group is lost. Groups without workers no longer count.
  void lose(std::size_t group);

  /// Share of the group in the updates so far, as the rule counts them; 0 before the first.
  double share(std::size_t group) const;

  /// Synchronous: examples of each group in a step of `examples`, in proportion to their sizes now. The sum
  /// is exact; short steps may leave groups without any.
  std::vector<std::int64_t> split(std::int64_t examples) const;
  /// Synchronous: sets the sizes by these speeds in examples/s, so that all groups need the same time.
  void setSpeeds(const std::vector<double>& speeds);
  /// Synchronous: sets the sizes by the fastest batch of each group; does nothing before each group has been
  /// timed. Steps are deterministic as long as nobody calls it.
  void resplit();
  /// Synchronous: the batches so far say nothing about the speeds, as those in which workers warm up.
  void forgetTimes();

  const std::vector<GroupState>& state() const { return _states; }
  /// Continues from a state of the same groups, whose rule and bounds may have been different: each size
  /// becomes the nearest within the present bounds; with `synchronous`, a step is divided in the same
  /// proportions. Updates that another rule has counted, or that batches of other sizes have made, do not
  /// count when batches are compared, except with free growth, which compares all updates of the run. Throws
  /// std::logic_error if there are more or fewer groups.
  void restore(const std::vector<GroupState>& states);

 private:
  std::int64_t larger(std::size_t group) const;
  std::int64_t smaller(std::size_t group) const;
  void adapt(std::size_t group);
  void endRound();

  bool countsLaps() const {
    return _rules.rule == WorkerRule::adaptive && _rules.growth == BatchGrowth::bounded;
  }
  void countInLap(std::size_t group, double updates, bool has_size);
  void endLap(std::size_t group);
  bool allEndedBatches() const;
  void addLap();
  void compareAnew();
  bool countsOfAnotherRule(const GroupState& before) const;
  /// Has a group made more updates than another one, or fewer, beyond chance?
  struct Standing {
    bool ahead = false, behind = false; ///< of any
    bool first() const { return ahead && !behind; }
    bool last() const { return behind && !ahead; }
  };
  std::vector<Standing> compareGroups() const;
  bool mayGrow(std::size_t group, std::int64_t size, const std::vector<Standing>& standings) const;
  bool resize(std::size_t group, std::int64_t size);
  bool isActive(std::size_t group) const { return _states[group].workers > 0; }
  std::int64_t clamped(std::size_t group, std::int64_t size) const;

  BatchRules _rules;
  double _round = 0.0; ///< proportional: examples between two changes
  std::vector<WorkerGroup> _groups;
  std::vector<GroupState> _states;
};

/// Divides `total` in proportion to positive weights, each part within its bounds. The largest remainders are
/// rounded up; of equal ones, the first. If the bounds do not allow the total, the sum is the nearest that
/// they allow.
std::vector<std::int64_t> proportionalSplit(std::int64_t total, const std::vector<double>& weights,
                                            const std::vector<std::int64_t>& lower,
                                            const std::vector<std::int64_t>& upper);

} // namespace partita
