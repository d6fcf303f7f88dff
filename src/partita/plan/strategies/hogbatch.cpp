#include "partita/config/names.hpp"
#include "partita/config/text.hpp"
#include "partita/config/user_error.hpp"
#include "partita/plan/hogbatch/deck_mix.hpp"
#include "partita/plan/strategies/pipeline.hpp"
#include "partita/plan/strategies/table.hpp"

#include <algorithm>
#include <limits>

namespace partita {

namespace {

/// "batch 64 at first, then 16 to 512" for one kind of worker.
std::string batchText(const HogbatchSection& section, bool shared, std::int64_t batch) {
  const HogbatchSection::Bounds bounds = section.bounds(shared, batch);
  std::string text = "batch " + std::to_string(bounds.start);
  if (section.movesBatches())
    text += " at first, then " + std::to_string(bounds.lower) + " to " + std::to_string(bounds.upper);
  return text;
}

void checkList(const std::string& key, const std::vector<std::int64_t>& list, std::int64_t workers) {
  const auto listed = static_cast<std::int64_t>(list.size());
  if (listed > workers)
    throw UserError(key + ": lists " + std::to_string(listed) + " workers, but the run has " +
                    std::to_string(workers) + " (rank 0 coordinates)");
}

/// One model, which the replicas (the workers) change without waiting for one another; the first rank
/// coordinates them and owns no stage.
class HogbatchPlan final : public JointPlan {
 public:
  void normalise(StrategySection& section) const override {
    JointPlan::normalise(section);
    section.replicas = 0;
    section.pipeline.microbatches = 1;
  }

  /// One rank alone repeats a run.
  int ranksWithoutStage(const StrategySection& section) const override {
    return section.hogbatch.replay.empty() ? 1 : 0;
  }
  void checkRanks(const StrategySection& section, int ranks) const override;
  bool atOwnPace() const override { return true; }
  bool sharesBatches() const override { return false; }
  bool sharesSteps(const StrategySection& section) const override {
    return section.hogbatch.rule == WorkerRule::synchronous;
  }
  bool makesDecisions() const override { return true; }
  bool repeats(const StrategySection& section) const override { return !section.hogbatch.replay.empty(); }
  bool toleratesLosses(const StrategySection& section) const override {
    return section.hogbatch.tolerate && !repeats(section);
  }
  void whenTrained(StrategySection& section) const override { section.kind = StrategyKind::joint; }

  std::int64_t passRows(const StrategySection& section, std::int64_t batch, std::int64_t) const override {
    return section.hogbatch.largestBatch(batch);
  }
  void addTraining(StageMemory& memory, const StageBuffers& buffers, const StrategySection&,
                   std::int64_t) const override {
    memory.buffers = buffers.ofWorker();
  }
  void checkStages(const StrategySection& section, const std::vector<StagePlan>& stages,
                   std::int64_t classes) const override;
  std::optional<std::pair<std::int64_t, std::int64_t>> timedBatches(const RunConfig& config) const override {
    return partita::timedBatches(config);
  }
  std::string course(const StrategySection&) const override { return "workers of one model"; }
  PlanNotes notes(const RunConfig& config, const Partition& partition, const GridPlan& grid,
                  std::int64_t real_bytes) const override;
  std::vector<std::pair<std::string, std::string>> facts(const StrategySection& section) const override {
    const HogbatchSection& s = section.hogbatch;
    return {{"rule", nameOf(s.rule)}, {"merge", nameOf(s.merge)}, {"staleness", nameOf(s.staleness)}};
  }
};

void HogbatchPlan::checkRanks(const StrategySection& section, int ranks) const {
  const HogbatchSection& s = section.hogbatch;
  const std::int64_t workers = ranks - 1;
  if (!s.replay.empty()) {
    if (ranks == 1) return;
    throw UserError("--replay: a single rank repeats the work of all workers; start 1 rank, not " +
                    std::to_string(ranks));
  }
  if (workers < 1)
    throw UserError(
        "strategy/kind: 'hogbatch' needs at least 2 ranks: the first coordinates, the others work");
  if (s.shared_workers > workers)
    throw UserError("strategy/shared_workers: " + std::to_string(s.shared_workers) +
                    " exceeds the number of workers, " + std::to_string(workers) + " (rank 0 coordinates)");
  checkList("strategy/slowdown", s.slowdown, workers);
  checkList("strategy/speeds", s.speeds, workers);
}

void HogbatchPlan::checkStages(const StrategySection& section, const std::vector<StagePlan>& stages,
                               std::int64_t classes) const {
  JointPlan::checkStages(section, stages, classes);
  for (const StagePlan& stage : stages) {
    if (section.hogbatch.replay.empty() && stage.storedValues() > std::numeric_limits<int>::max())
      throw UserError("strategy/kind: workers of 'hogbatch' send the model in one message, so it must have "
                      "fewer than 2^31 parameter values, not " +
                      std::to_string(stage.storedValues()));
  }
}

PlanNotes HogbatchPlan::notes(const RunConfig& config, const Partition&, const GridPlan& grid,
                              std::int64_t) const {
  PlanNotes notes;
  const HogbatchSection& s = config.strategy.hogbatch;
  if (!s.replay.empty()) return notes;
  const std::int64_t shared = s.shared_workers, others = grid.replicas - shared;
  notes.lines.push_back("# rank 0 coordinates; rule " + nameOf(s.rule) +
                        (s.rule == WorkerRule::synchronous
                             ? ": steps of " + std::to_string(config.training.batch) + " samples"
                             : ""));
  const bool own_batches = s.rule != WorkerRule::synchronous;
  const auto add = [&](bool in_place, std::int64_t first, std::int64_t count) {
    if (count == 0) return;
    const std::string ranks =
        count == 1 ? "rank " + std::to_string(first)
                   : "ranks " + std::to_string(first) + " to " + std::to_string(first + count - 1);
    notes.lines.push_back("# " + ranks + ": " +
                          counted(count, in_place ? "shared worker" : "replica worker") +
                          (in_place ? ", updates " + nameOf(s.update) : ", merge by " + nameOf(s.merge)) +
                          (own_batches ? ", " + batchText(s, in_place, config.training.batch) : ""));
  };
  add(true, 1, shared);
  add(false, 1 + shared, others);
  return notes;
}

} // namespace

const StrategyPlan& hogbatchPlan() {
  static const HogbatchPlan plan;
  return plan;
}

} // namespace partita
