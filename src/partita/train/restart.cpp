#include "partita/train/restart.hpp"

#include "partita/comm/agree.hpp"
#include "partita/config/deck.hpp"
#include "partita/config/files.hpp"
#include "partita/config/text.hpp"
#include "partita/config/write_deck.hpp"
#include "partita/core/log.hpp"
#include "partita/io/stage_tensors.hpp"
#include "partita/plan/network_plan.hpp"
#include "partita/plan/strategy_plan.hpp"
#include "partita/train/compare_data.hpp"
#include "partita/train/run_files.hpp"

#include <algorithm>

namespace partita {

namespace {

/// Returns why a checkpoint is damaged, or an empty text if it is intact. A file that cannot be read is no
/// proof of damage, and throws.
std::string damageOf(const Communicator& world, const std::string& file) {
  std::string damage;
  const int verifiers = verifiersOf(world, file);
  collectively(world, [&] {
    try {
      verifyShare(world, verifiers, file);
    } catch (const DamagedFile& error) {
      damage = error.what();
    }
  });
  const std::int64_t finder = world.minimum(damage.empty() ? world.size() : world.rank());
  return finder == world.size() ? "" : broadcast(world, damage, static_cast<int>(finder));
}

std::vector<std::string> listTogether(const Communicator& world, const std::string& run_directory) {
  std::string text;
  collectively(world, [&] {
    if (world.rank() != 0) return;
    for (const std::string& file : checkpointsIn(run_directory)) text += file + '\n';
  });
  text = broadcast(world, text);
  std::vector<std::string> files;
  for (std::size_t begin = 0, end = 0; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1)
    files.push_back(text.substr(begin, end - begin));
  return files;
}

/// The deck of the file and its plan.
struct Before {
  Before(const SharedRunFile& file, std::size_t samples) {
    const RunFacts& facts = file.facts();
    deck = parseDeck(facts.deck, file.path());
    config = effective(deck);
    length = planRunLength(config, samples);
    const std::vector<LayerPlan> layers = planNetwork(config.network, facts.shape, facts.classes);
    partition = planPartition(config, layers, facts.classes, sizeof(Real));
  }
  RunConfig deck, config;
  RunLength length;
  Partition partition;
};

/// Have stages with the same layers also the same heads, labels and decoders?
bool sameHeads(const Partition& before, const Partition& now) {
  return std::equal(before.stages.begin(), before.stages.end(), now.stages.begin(), now.stages.end(),
                    [](const StagePlan& a, const StagePlan& b) {
                      const auto was = parameterTensors(a.allLayers()), is = parameterTensors(b.allLayers());
                      return std::equal(was.begin(), was.end(), is.begin(), is.end(),
                                        [](const StageTensor& x, const StageTensor& y) {
                                          return x.layer == y.layer && x.extents == y.extents;
                                        });
                    });
}

/// Do stages before the last learn from labels of their own, with heads? Cuts that gradients cross have
/// neither.
bool hasInnerLabels(const RunConfig& config, const Partition& partition) {
  return !partition.cuts.empty() && !planOf(config.strategy).gradientsCross();
}

/// What the stages of the checkpoint had and those of this run do not have, or have anew.
void reportStages(const Restart& restart, const Before& before, const RunConfig& deck,
                  const Partition& partition) {
  if (!hasInnerLabels(before.config, before.partition) && !hasInnerLabels(deck, partition)) return;
  if (!restart.same_stages)
    Log::warning("the stages have changed: parameters, optimiser and step carry over, labels do not; the "
                 "optimisers of stages with new heads start from the beginning");
  else if (!sameHeads(before.partition, partition))
    Log::warning(
        "the heads of stages have changed: their new parameters, and the optimisers of these stages, "
        "start from the beginning");
}

/// If the number of steps per epoch has changed, the same fraction of the epoch.
Position scaled(Position position, std::int64_t before, std::int64_t now) {
  if (before == now) return position;
  Log::warning("an epoch now has " + counted(now, "step") + " instead of " + std::to_string(before) +
               ": continuing at the same fraction of the epoch, with different batches");
  // The product may be beyond the range of an integer. Up to 2^53 the result is the same.
  const double step =
      static_cast<double>(position.step) * static_cast<double>(now) / static_cast<double>(before);
  position.step = static_cast<std::int64_t>(std::min(step, static_cast<double>(most_run_steps + 1)));
  return position;
}

/// Parameters of a later step are not those with which a shorter run would end.
void checkLength(const Position& position, const RunLength& length, const std::string& file) {
  const bool recovers = position.phase == RunPhase::recovery;
  const std::int64_t last = recovers ? length.recovery_steps : length.steps;
  if (position.step <= last) return;
  throw UserError(file + ": is at step " + std::to_string(position.step) +
                  (recovers ? " of the recovery" : "") + ", but the deck ends at step " +
                  std::to_string(last) + " (run/epochs, run/steps, strategy/recovery_epochs)");
}

void reportReplicas(const Restart& restart, const Before& before, const RunConfig& deck, int replicas) {
  const std::int64_t step = restart.found->position.step;
  const bool differ = planOf(deck.strategy).replicasDiffer(deck.strategy),
             met = step == before.length.steps ||
                   planOf(before.deck.strategy).meetsAfter(before.deck.strategy, step);
  const bool joins = !met && !differ && restart.found->replicas > 1;
  if (joins)
    Log::warning("the replicas have not met since their last steps: the run continues with the values of the "
                 "first one");
  if (restart.found->replicas == replicas || joins) return;
  Log::info("  replicas: " + std::to_string(restart.found->replicas) + " -> " + std::to_string(replicas) +
            (differ ? " (each continues with the values of one of the former replicas)"
                    : " (gradients are summed in a different order, so the last bits differ)"));
}

void reportRestart(const Restart& restart, const Before& before, const RunConfig& deck,
                   const Partition& partition, const RunLength& length, int replicas) {
  Log::info("continuing from " + restart.file + " at step " + std::to_string(length.runStep(restart.start)) +
            " of " + std::to_string(length.total()));
  for (const std::string& change : deckChanges(before.deck, deck)) Log::info("  changed: " + change);
  if (!restart.keeps_state) {
    Log::warning("the deck trains other stages than " + restart.file +
                 ", or trains them differently: only the parameters carry over, and training starts from the "
                 "beginning");
    return;
  }
  reportStages(restart, before, deck, partition);
  const bool draws_targets = planOf(deck.strategy).drawsTargets(deck.strategy) && !partition.cuts.empty();
  if (before.deck.run.seed != deck.run.seed && draws_targets)
    Log::warning("run/seed has changed, and with it the fixed labels that the stages have learned");
  else if (restart.same_stages && draws_targets &&
           !planOf(deck.strategy).sameTargets(before.deck.strategy, deck.strategy))
    Log::warning("the fixed labels that the stages have learned have changed with the keys of the deck");
  if (optimiserStates(before.config.optimiser) != optimiserStates(deck.optimiser))
    Log::warning("the kind of optimiser has changed: its state starts from the beginning");
  const OptimiserSection &old_rule = before.deck.optimiser, &new_rule = deck.optimiser;
  if (new_rule.kind != OptimiserKind::sgd && old_rule.kind == new_rule.kind &&
      (old_rule.beta1 != new_rule.beta1 || old_rule.beta2 != new_rule.beta2))
    Log::warning("optimiser/beta1 or beta2 has changed: until the stored moments are forgotten, steps have "
                 "another size");
  reportReplicas(restart, before, deck, replicas);
}

/// An earlier version may have written a deck that this one cannot read, and its parameters are enough.
void compareHeldOut(const RunFacts& facts, const std::string& file, const RunConfig& deck) {
  try {
    const RunConfig before = parseDeck(facts.deck, file);
    compareHeldOut(before.data, deck.data, before.run.seed == deck.run.seed, true);
  } catch (const UserError&) {
    return;
  }
}

/// Decides what carries over besides the parameters.
void compareStages(Restart& restart, const Before& before, const RunConfig& config,
                   const Partition& partition, const RunLength& length) {
  const StrategyPlan& plan = planOf(config.strategy);
  const bool same_cuts = before.partition.cuts == partition.cuts,
             same_course =
                 partition.cuts.empty() || planOf(before.config.strategy).course(before.config.strategy) ==
                                               plan.course(config.strategy);
  const bool alike = before.length.turns == 1 && length.turns == 1;
  const bool recovers = restart.found->position.phase == RunPhase::recovery;
  const bool same_training = length.steps == before.length.steps;
  restart.same_stages = same_cuts && (recovers ? same_training : same_course);
  restart.keeps_state = restart.same_stages || (alike && !recovers);
  restart.one_scale = recovers || plan.gradientsCross();
}

void compareSamples(const RunProgress& found, const DataSets& sets, const RunLength& length) {
  const std::int64_t samples = sets.train.size();
  if (found.samples != samples && found.per_epoch == length.per_epoch)
    Log::warning("the training set now has " + counted(samples, "sample") + " instead of " +
                 std::to_string(found.samples) + ": continuing with different batches");
}

} // namespace

int Restart::replicaOf(const RunConfig& config, int replica) const {
  return replicasDiffer(config) ? replica % static_cast<int>(found->replicas) : 0;
}

bool Restart::replicasDiffer(const RunConfig& config) const {
  return keeps_state && found->replicas > 1 && planOf(config.strategy).replicasDiffer(config.strategy);
}

RunTimes Restart::spent() const {
  return keeps_state ? RunTimes{found->training_seconds, found->evaluation_seconds} : RunTimes{};
}

std::string chooseRestart(const Communicator& world, const std::string& restart,
                          const std::string& run_directory) {
  if (restart.empty()) return "";
  if (restart != "latest") {
    collectively(world, [&] {
      if (world.rank() != 0) return;
      regularFileExists(restart,
                        "; use -d " + restart + " -r latest, or name a file in " + restart + "/checkpoints");
    });
    verifyTogether(world, restart);
    return restart;
  }
  for (const std::string& file : listTogether(world, run_directory)) {
    const std::string damage = damageOf(world, file);
    if (damage.empty()) return file;
    Log::warning("skipped: " + damage);
  }
  return "";
}

Restart planRestart(const std::shared_ptr<const SharedRunFile>& from, const RunConfig& deck,
                    const RunConfig& config, const Partition& partition, const RunLength& length,
                    const DataSets& sets, int replicas) {
  Restart restart;
  if (from == nullptr) return restart;
  restart.opened = from;
  const SharedRunFile& opened = *from;
  const std::string& file = restart.file = opened.path();
  const RunFacts& facts = opened.facts();
  try {
    checkParameters(opened, partition, false);
  } catch (const UserError&) {
    compareLabels(facts, sets, file, true); // which may be why the last layer has another size
    throw;
  }
  compareStandardisation(facts, sets, file);
  compareHeldOut(facts, file, deck);
  if (!opened.isCheckpoint()) {
    compareLabels(facts, sets, file, false);
    Log::info("starting with the parameters of " + file);
    return restart;
  }
  restart.found = opened.progress();
  const Before before(opened, restart.found->samples);
  const Position& found = restart.found->position;
  if (restart.found->stages != static_cast<std::int64_t>(before.partition.cuts.size()) + 1 ||
      (found.stage > 0 && before.length.turns == 1))
    throw UserError(file + ": '/state' does not match its own deck");
  compareStages(restart, before, config, partition, length);
  if (restart.keeps_state) {
    restart.start = scaled(found, restart.found->per_epoch, length.per_epoch);
    checkLength(restart.start, length, file);
  }
  compareLabels(facts, sets, file, restart.keeps_state);
  if (restart.keeps_state) compareSamples(*restart.found, sets, length);
  reportRestart(restart, before, deck, partition, length, replicas);
  return restart;
}

namespace {

/// The loss scale of a stage and its steps without an overflow. Stages that trained independently may have
/// reached different scales, of which the smallest is safe for all.
std::pair<double, std::int64_t> scaleOf(const Restart& restart, std::int64_t stage) {
  const std::vector<UpdateState>& updates = restart.found->updates;
  const auto scale = [&](std::int64_t i) { return updates[i].loss_scale; };
  const auto clean = static_cast<std::int64_t>(updates[static_cast<std::size_t>(stage)].clean_steps);
  if (!restart.one_scale) return {scale(stage), clean};
  double smallest = scale(0), largest = scale(0);
  for (std::int64_t i = 1; i < restart.found->stages; ++i) {
    smallest = std::min(smallest, scale(i));
    largest = std::max(largest, scale(i));
  }
  return {smallest, smallest == largest ? clean : 0};
}

} // namespace

bool restoreUpdater(const ExecSpace& space, const Restart& restart, const RunConfig& config, const Grid& grid,
                    StageUpdater& updater) {
  const int replica_of_file = restart.replicaOf(config, grid.replica());
  LocalStage& local = updater.local();
  const SharedRunFile& file = *restart.opened;
  const auto read = [&](const Optimiser::State& state) {
    return readStageTensors(file, state.name, local.stage, state.values, replica_of_file);
  };
  const std::vector<Optimiser::State>& states = updater.optimiser().state();
  const bool complete = std::all_of(states.begin(), states.end(), read);
  if (!complete)
    for (const Optimiser::State& state : states) state.values.clear(space);
  bool kept = true;
  for (const StageUpdater::Kept& one : updater.kept()) {
    if (read(one.state)) continue;
    one.state.values.clear(space);
    kept = kept && !one.required;
  }
  const RunProgress& found = *restart.found;
  const auto stage = std::min<std::int64_t>(local.index(), found.stages - 1);
  const UpdateState& update = found.updates[stage];
  const auto [scale, clean] = scaleOf(restart, stage);
  updater.resume(restart.start.step, {complete ? update.steps : 0.0, scale, static_cast<double>(clean)});
  if (!restart.same_stages) return false;
  Score::Sums sums;
  for (std::int64_t replica = 0; replica < found.replicas; ++replica) {
    // If the number of replicas has changed, the first one continues for all.
    const bool mine = found.replicas == grid.replicas() ? replica == grid.replica() : grid.replica() == 0;
    const LossSums& score = found.scores[found.scoreIndex(local.index(), replica)];
    if (!mine) continue;
    sums.loss += score.loss;
    sums.correct += score.correct;
    sums.rows += score.rows;
  }
  local.score.set(space, sums);
  return kept;
}

} // namespace partita
