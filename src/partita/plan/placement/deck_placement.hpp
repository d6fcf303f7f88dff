#pragma once

#include "partita/plan/cost/cost_model.hpp"
#include "partita/plan/placement/deck_chain.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace partita {

/// Places the network of a deck on the ranks of a cluster. Steps are those that the cost model's exact mode
/// predicts. Cuts that `train` would refuse, such as one between an embedding and a layer tied to it, are
/// left out.
class DeckPlacer {
 public:
  /// `model` predicts a deck in exact mode. `microbatches`: as the deck sets them; 0: 1, 2, 4 or 8.
  DeckPlacer(const CostModel& model, const Cluster& cluster, std::int64_t microbatches);

  /// The fastest plan on at most `ranks` ranks; empty if none fits into the memory of a rank. For each number
  /// of replicas and microbatches, cuts come from PHAZE's placement. For each number of stages that may be
  /// fast enough, they also come from balancing times, or memory if those cuts do not fit, and from dividing
  /// a stage of a good plan with one stage less. Cuts are moved as long as a rough estimate of the step
  /// becomes clearly shorter, and those of the best plan as long as the predicted step does. If the best plan
  /// uses all ranks, one with a stage per rank and cuts by FLOPs is taken instead, unless it is predicted to
  /// be clearly slower (Cluster::worthwhile). The placement has a simpler model of memory than the program;
  /// if its cuts need too much, it is repeated with less memory.
  std::optional<DeckPlacement> fastest(std::int64_t ranks) const;
  /// Sets step and memory of a plan. Throws UserError if `train` would refuse it.
  void price(DeckPlacement& plan) const;
  /// Would `train` accept the plan, and does it fit into the memory of a rank?
  bool fits(const DeckPlacement& plan) const { return memoryOf(plan) <= mostBytes(); }

 private:
  /// By layer of the network: may a stage begin with it?
  std::vector<bool> possibleCuts() const;
  double mostBytes() const { return _cluster.memory > 0.0 ? _cluster.memory : 1e300; } ///< of a rank
  /// Calls `visit` with each number of replicas and microbatches, as a plan without cuts, and the largest
  /// number of stages that it can have.
  template <class Visit>
  void forEachWhole(std::int64_t ranks, const std::vector<std::int64_t>& microbatches, Visit visit) const;
  /// Cuts a plan without cuts into at most this many stages by PHAZE's placement; empty if none fits, or
  /// if its table would be too large.
  std::optional<DeckPlacement> place(DeckPlacement plan, std::int64_t most_stages) const;
  /// The same with stages that take about the same time; empty if they may take hours to find.
  std::optional<DeckPlacement> balance(DeckPlacement plan, std::int64_t stages) const;
  /// Divides a stage in the middle: the one for which the rough estimate of the step is shortest. Empty if
  /// no stage can be divided.
  std::optional<DeckPlacement> divide(const DeckPlacement& plan) const;
  /// A plan without cuts, cut by a rule of decks; empty if `train` would refuse them or they do not fit.
  std::optional<DeckPlacement> cutBy(CutRule rule, DeckPlacement plan, std::int64_t stages) const;
  /// The shortest rough estimate for balanced cuts that fit; infinite if none do.
  double balancedStep(std::int64_t ranks, const std::vector<std::int64_t>& microbatches) const;
  /// Replaces a plan for all ranks by a stage per rank with cuts by FLOPs, with any of these numbers of
  /// microbatches, if that is not clearly slower.
  void preferUsual(DeckPlacement& best, std::int64_t ranks,
                   const std::vector<std::int64_t>& microbatches) const;
  /// The run of a plan. Throws UserError if `train` would refuse it.
  ProgramRun runOf(const DeckPlacement& plan) const;
  /// Bytes of the rank that needs most; infinite if `train` would refuse the plan.
  double memoryOf(const DeckPlacement& plan) const;
  /// Predicted seconds per step; infinite as well.
  double stepOf(const DeckPlacement& plan) const;
  /// The plan after moves of its cuts, with a rough estimate of the step; empty if `train` would refuse it,
  /// or if it does not fit.
  std::optional<DeckPlacement> moved(std::optional<DeckPlacement> plan) const;
  /// Moves single cuts, and cuts together with all later ones, by up to `furthest` places while that clearly
  /// shortens the step. `step_of` estimates it; of a step that is not below its second argument it may
  /// return any such number. `run`: that of a plan with as many stages, replicas and microbatches.
  template <class Estimate>
  void moveCuts(DeckPlacement& plan, const ProgramRun& run, std::size_t furthest, Estimate step_of) const;
  /// Shifts cuts `first` to `last` by this many places; false if others are in the way.
  bool shift(DeckPlacement& plan, std::size_t first, std::size_t last, std::ptrdiff_t distance) const;

  const CostModel& _model;
  const Cluster& _cluster;
  std::int64_t _microbatches;
  DeckChain _chain;
};

} // namespace partita
