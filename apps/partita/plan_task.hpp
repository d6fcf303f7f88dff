#pragma once

#include "partita/data/dataset.hpp"
#include "partita/io/json.hpp"
#include "partita/plan/cost/cost_model.hpp"

#include <string>
#include <vector>

namespace partita {

/// Code shared by the commands of `partita plan` about decks and clusters.

/// The description in a file; "": the built-in one.
Cluster clusterOf(const std::string& path);

/// The name by which a description of a cluster knows the network of a deck: that of its file.
std::string deckName(const std::string& path);

/// The task of a deck, with its data (without features) and with what the cluster file says about it.
struct PlanTask {
  DataSets sets;
  CostTask task;
};
PlanTask planTask(const std::string& deck, const std::vector<std::string>& overrides, const Cluster& cluster);
/// Throws UserError if `train` would refuse the deck because the data have no whole batch.
void requireWholeBatch(const PlanTask& plan);
/// Warns if the training set has no whole batch, which a prediction does not need: it counts one step per
/// epoch.
void warnWithoutWholeBatch(double batch, double samples);

/// Warns about what the cluster file does not say about up to this many ranks (see prediction_notes.hpp).
void warnOfAssumptions(const CostTask& task, const Cluster& cluster, std::int64_t ranks);

/// Says so if layers compute their statistics over a pass, which has 1/`pieces` of a batch.
void noteSmallPasses(const CostTask& task, std::int64_t pieces);
/// Prints the command that trains a deck, for a shell.
void showCommand(std::int64_t ranks, const std::string& deck);

/// The files that a plan for a deck reads, and must not overwrite.
std::vector<std::string> filesRead(const std::string& deck, const std::vector<std::string>& overrides,
                                   const std::string& cluster);

JsonObject jsonOf(const Prediction& prediction);
/// Three digits and a unit, since steps take from microseconds to minutes.
std::string timeText(double seconds);
/// "2 x 4 x 1": stages, replicas, parts.
std::string gridText(const RankGrid& grid);

} // namespace partita
