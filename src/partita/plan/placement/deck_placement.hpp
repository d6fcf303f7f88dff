#pragma once

#include "partita/plan/cost/cost_model.hpp"
#include "partita/plan/placement/device_placement.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace partita {

/// A pipeline of a deck's network: the values for `strategy`, and its cost.
struct DeckPlacement {
  std::vector<std::int64_t> cuts; ///< first layer of each stage after the first
  std::int64_t replicas = 1, microbatches = 1;
  double step = 0.0;   ///< seconds
  double memory = 0.0; ///< bytes of the rank that needs most

  std::int64_t stages() const { return static_cast<std::int64_t>(cuts.size()) + 1; }
  std::int64_t ranks() const { return stages() * replicas; }
  /// `section`, changed to train this plan: with `joint` if the network stays whole on one rank.
  StrategySection strategy(StrategySection section) const;
};

/// Places the network of a deck on the ranks of a cluster. Steps are those that the cost model's exact mode
/// predicts. Cuts that `train` would refuse, such as one between an embedding and a layer tied to it, are
/// left out.
class DeckPlacer {
 public:
  /// `model` predicts a deck in exact mode. `microbatches`: as the deck sets them; 0: 1, 2, 4 or 8.
  DeckPlacer(const CostModel& model, const Cluster& cluster, std::int64_t microbatches);

  /// The fastest plan on at most `ranks` ranks; empty if none fits into the memory of a rank. For
  /// each number of replicas and microbatches, cuts come from PHAZE's placement, and for each
  /// number of stages from balancing. Good cuts are moved as long as a rough estimate of the step
  /// becomes shorter, and the best ones as long as the predicted step does. If the best plan uses
  /// all ranks, one with a stage per rank and cuts by FLOPs is taken instead, unless it is
  /// predicted to be clearly slower (Cluster::worthwhile). The placement has a simpler model of
  /// memory than the program; if its cuts need too much, it is repeated with less memory. If no plan fits,
  /// stages of equal memory are tried.
  std::optional<DeckPlacement> fastest(std::int64_t ranks) const;
  /// Sets step and memory of a plan. Throws UserError if `train` would refuse it.
  void price(DeckPlacement& plan) const;
  /// Would `train` accept the plan, and does it fit into the memory of a rank?
  bool fits(const DeckPlacement& plan) const { return memoryOf(plan) <= mostBytes(); }

 private:
  /// Consecutive layers between which no cut is possible.
  struct Layer {
    std::int64_t first = 0;                  ///< layer of the network
    std::size_t begin = 0, end = 0;          ///< rows of the cost model
    double update = 0.0;                     ///< seconds per step
    double outputs = 0.0, activations = 0.0; ///< values per sample of the last layer, of all layers
    double parameters = 0.0;                 ///< numbers
  };

  /// By layer of the network: may a stage begin with it?
  std::vector<bool> possibleCuts() const;
  double mostBytes() const { return _cluster.memory > 0.0 ? _cluster.memory : 1e300; } ///< of a rank
  double rowsOf(const DeckPlacement& plan) const; ///< samples of a microbatch
  /// Times of each Layer in a pass over `rows` samples, with what recomputation repeats.
  const std::vector<PassTime>& passesOver(double rows) const;
  /// The layers for PHAZE's placement on up to `most_stages` devices per replica of the plan.
  PlacementTask chain(const DeckPlacement& plan, std::int64_t most_stages) const;
  /// Calls `visit` with each number of replicas and microbatches, as a plan without cuts, and the largest
  /// number of stages that it can have.
  template <class Visit>
  void forEachWhole(std::int64_t ranks, const std::vector<std::int64_t>& microbatches, Visit visit) const;
  /// Cuts a plan without cuts into at most this many stages by PHAZE's placement; empty if none fits, or
  /// if its table would be too large.
  std::optional<DeckPlacement> place(DeckPlacement plan, std::int64_t most_stages) const;
  /// The same with stages that take about the same time; empty if they may take hours to find.
  std::optional<DeckPlacement> balance(DeckPlacement plan, std::int64_t stages) const;
  /// The same with cuts by a rule of decks; empty if `train` would refuse them or they do not fit.
  std::optional<DeckPlacement> cutBy(CutRule rule, DeckPlacement plan, std::int64_t stages) const;
  /// Replaces a plan for all ranks by a stage per rank with cuts by FLOPs, with any of these numbers of
  /// microbatches, if that is not clearly slower.
  void preferUsual(DeckPlacement& best, std::int64_t ranks,
                   const std::vector<std::int64_t>& microbatches) const;
  /// The number of the Layer that begins at a cut.
  std::size_t layerAt(std::int64_t cut) const;
  /// A rough estimate of the step in seconds. It takes microseconds to compute instead of milliseconds,
  /// because it ignores hidden sums and other details.
  double roughStepOf(const DeckPlacement& plan) const;
  /// The run of a plan. Throws UserError if `train` would refuse it.
  ProgramRun runOf(const DeckPlacement& plan) const;
  /// Bytes of the rank that needs most; infinite if `train` would refuse the plan.
  double memoryOf(const DeckPlacement& plan) const;
  /// Predicted seconds per step; infinite as well.
  double stepOf(const DeckPlacement& plan) const;
  using StepEstimate = double (DeckPlacer::*)(const DeckPlacement&) const;
  /// Moves single cuts while that shortens the estimated step.
  void moveCuts(DeckPlacement& plan, StepEstimate step_of) const;
  /// Seconds of a message to the next stage.
  double messageSeconds(double rows, const Layer& before, const Link& link) const;

  const CostModel& _model;
  const Cluster& _cluster;
  std::int64_t _microbatches;
  double _number_bytes; ///< of a stored number
  std::vector<Layer> _layers;
  mutable std::map<double, std::vector<PassTime>> _passes; ///< by rows: most plans have the same few
};

} // namespace partita
