#include "partita/config/validate_hogbatch.hpp"

#include "partita/config/layer_types.hpp"
#include "partita/config/names.hpp"
#include "partita/config/text.hpp"

#include <string>
#include <utility>
#include <vector>

namespace partita {

namespace {

/// A result is added to a model that others change meanwhile, so no optimiser state belongs to it.
void validateUpdates(const RunConfig& c, Diagnostics& d) {
  const std::string kind = "strategy/kind";
  d.check(c.optimiser.kind == OptimiserKind::sgd, {"optimiser/kind", kind},
          "'hogbatch' needs kind 'sgd', not '" + nameOf(c.optimiser.kind) + "'");
  d.check(c.optimiser.momentum == 0, {"optimiser/momentum", kind},
          "'hogbatch' needs momentum 0, not " + realText(c.optimiser.momentum) +
              ": updates that come late act as momentum already");
  d.check(c.optimiser.clip_norm == 0, {"optimiser/clip_norm", kind}, "'hogbatch' does not clip (allowed 0)");
  d.check(c.run.precision == Precision::single, {"run/precision", kind},
          "'hogbatch' needs precision 'float', not '" + nameOf(c.run.precision) + "'");
  d.check(sumPrecision(c.strategy) == Precision::single, {"strategy/wire", kind},
          "'hogbatch' needs wire 'float', not '" + nameOf(c.strategy.wire) + "'");
}

/// Keys that a user would expect to change something, although they do not.
void validateUnused(const RunConfig& c, Diagnostics& d) {
  const std::string kind = "strategy/kind";
  d.check(c.strategy.replicas <= 1, {"strategy/replicas", kind},
          "with 'hogbatch' every rank but the first is a worker (allowed 0 or 1)");
  d.check(c.strategy.pipeline.microbatches == 1, {"strategy/microbatches", kind},
          "'hogbatch' does not divide batches (allowed 1)");
  d.check(c.run.trace == 0, {"run/trace", kind}, "'hogbatch' has no schedule to trace (allowed 0)");
}

/// The first layer with running statistics, as messages name it, and its type; empty if there is none.
std::pair<std::string, std::string> layerWithStatistics(const std::vector<LayerSpec>& layers,
                                                        const std::string& list) {
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const LayerSpec& layer = layers[i];
    const std::string name = list + "[" + std::to_string(i) + "]";
    const LayerType* type = layerTypes().find(layer.type); // null: the type has already been refused
    if (type != nullptr && type->role == LayerRole::keeps_statistics) return {name, layer.type};
    for (const auto& inside : {layerWithStatistics(layer.layers, name + "/layers"),
                               layerWithStatistics(layer.shortcut, name + "/shortcut")})
      if (!inside.first.empty()) return inside;
  }
  return {};
}

/// Statistics that batches update belong to one rank's copy; the shared model has none.
void validateStatistics(const RunConfig& c, Diagnostics& d) {
  const auto [name, type] = layerWithStatistics(c.network.layers, "network/layers");
  d.check(name.empty(), {name, "network/layers", "strategy/kind"},
          "a " + type +
              " keeps running statistics, which workers of strategy/kind 'hogbatch' cannot share (try "
              "group-norm or layer-norm)");
}

void validateBounds(const RunConfig& c, bool shared, Diagnostics& d) {
  const HogbatchSection& s = c.strategy.hogbatch;
  const HogbatchSection::Bounds bounds = s.bounds(shared, c.training.batch);
  const std::string lower = shared && s.lower_shared > 0 ? "strategy/lower_shared" : "strategy/lower",
                    upper = shared && s.upper_shared > 0 ? "strategy/upper_shared" : "strategy/upper",
                    start = shared && s.batch_shared > 0 ? "strategy/batch_shared" : "training/batch";
  d.check(bounds.lower <= bounds.upper, {lower, upper},
          std::to_string(bounds.lower) + " is above the upper bound, " + std::to_string(bounds.upper));
  if (bounds.lower > bounds.upper) return;
  d.check(bounds.lower <= bounds.start && bounds.start <= bounds.upper, {start, lower, upper},
          "the first batch of a " + std::string(shared ? "shared" : "replica") + " worker, " +
              std::to_string(bounds.start) + ", is not between " + lower + " and " + upper + " (allowed " +
              std::to_string(bounds.lower) + " to " + std::to_string(bounds.upper) + ")");
}

void validateRule(const RunConfig& c, Diagnostics& d) {
  const HogbatchSection& s = c.strategy.hogbatch;
  if (s.movesBatches()) {
    validateBounds(c, false, d);
    if (s.shared_workers > 0 && (s.lower_shared > 0 || s.upper_shared > 0 || s.batch_shared > 0))
      validateBounds(c, true, d);
  }
  d.check(s.speeds.empty() || s.rule == WorkerRule::synchronous, {"strategy/speeds", "strategy/rule"},
          "needs rule 'synchronous', not '" + nameOf(s.rule) + "'");
  if (s.rule != WorkerRule::synchronous) return;
  d.check(s.staleness == StalenessRule::none, {"strategy/staleness", "strategy/rule"},
          "no update is late with rule 'synchronous' (allowed 'none')");
  d.check(!s.tolerate, {"strategy/tolerate", "strategy/rule"},
          "all workers take a step together with rule 'synchronous' (allowed false)");
  d.check(s.merge == ReplicaMerge::delta, {"strategy/merge", "strategy/rule"},
          "rule 'synchronous' adds the parts of a gradient (allowed 'delta')");
}

} // namespace

void validateHogbatch(const RunConfig& c, Diagnostics& d) {
  const bool runs = c.strategy.kind == StrategyKind::hogbatch;
  d.check(runs || !c.run.decisions, {"run/decisions", "strategy/kind"},
          "needs kind 'hogbatch', not '" + nameOf(c.strategy.kind) + "'");
  if (!runs) return;
  validateUpdates(c, d);
  validateUnused(c, d);
  validateStatistics(c, d);
  validateRule(c, d);
}

} // namespace partita
