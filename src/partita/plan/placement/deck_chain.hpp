#pragma once

#include "partita/plan/cost/cost_model.hpp"
#include "partita/plan/cost/cost_terms.hpp"
#include "partita/plan/cost/gradient_buckets.hpp"
#include "partita/plan/placement/device_placement.hpp"

#include <cstdint>
#include <limits>
#include <map>
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

/// A deck's network as a chain of pieces, and rough estimates of its plans. A piece has consecutive layers
/// between which no cut is possible.
class DeckChain {
 public:
  /// `model` predicts a deck in exact mode. `possible`, by layer of the network: may a stage begin with it?
  DeckChain(const CostModel& model, const Cluster& cluster, const std::vector<bool>& possible);

  std::size_t size() const { return _pieces.size(); }
  /// The layer of the network with which a piece begins.
  std::int64_t cutAt(std::size_t piece) const { return _pieces[piece].first; }
  /// The piece that begins at a cut.
  std::size_t pieceAt(std::int64_t cut) const;
  /// A rough estimate of the step in seconds, or a lower bound of it that is not below `limit`. It takes
  /// microseconds to compute instead of milliseconds, because it leaves out details, such as microbatches
  /// of one sample less.
  double stepOf(const DeckPlacement& plan, double limit = std::numeric_limits<double>::infinity()) const;
  /// A lower bound of the rough estimates for all cuts of `whole` into this many stages.
  double leastStep(const DeckPlacement& whole, std::int64_t stages) const;
  /// The pieces for PHAZE's placement on up to `most_stages` devices per replica of the plan.
  PlacementTask task(const DeckPlacement& plan, std::int64_t most_stages) const;
  /// By piece, and for the end: seconds that all pieces before it compute for a microbatch.
  std::vector<double> secondsBefore(const DeckPlacement& plan) const;

 private:
  struct Piece {
    std::int64_t first = 0;                  ///< layer of the network
    std::size_t begin = 0, end = 0;          ///< rows of the cost model
    double outputs = 0.0, activations = 0.0; ///< values per sample of the last layer, of all layers
    double parameters = 0.0;                 ///< numbers
  };
  /// What all pieces before a place need per step: seconds of their update, and numbers.
  struct Held {
    double update = 0.0, parameters = 0.0;
  };
  /// Bytes of a parameter, of a stored activation, of a value that goes to the next stage, and of a gradient
  /// in a sum over replicas.
  struct NumberBytes {
    double parameter = 4.0, activation = 4.0, message = 4.0, sum = 4.0;
  };

  double rowsOf(const DeckPlacement& plan) const; ///< samples of a microbatch
  /// By piece, and for the end: the times of all pieces before it in a pass over `rows` samples, with what
  /// recomputation repeats.
  const std::vector<PassTime>& passesBefore(double rows) const;
  /// Seconds of a message from a piece to the next one.
  double messageSeconds(double rows, const Piece& from, const Link& link) const;
  /// Seconds by which the sums over replicas prolong a step of pieces [first, end).
  double sumSeconds(const DeckPlacement& plan, const RingPath& path, std::size_t first,
                    std::size_t end) const;

  const CostModel& _model;
  const Cluster& _cluster;
  NumberBytes _bytes;
  BucketRule _buckets;
  std::vector<Piece> _pieces;
  std::vector<Held> _before;                               ///< by piece, and for the end
  mutable std::map<double, std::vector<PassTime>> _passes; ///< by rows: most plans have the same few
};

} // namespace partita
