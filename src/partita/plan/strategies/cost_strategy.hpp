#pragma once

#include "partita/config/names.hpp"
#include "partita/config/run_config.hpp"

#include <optional>
#include <string>
#include <vector>

namespace partita {

/// The ways to divide training that the cost model knows. `grid` divides both the input and the output
/// channels of a layer; `data_...` combine replicas with a division of layers inside a node. `pipeline` has
/// the schedule of the deck. The last ones are strategies of this program that are not in the paper.
enum class CostStrategy {
  serial,
  data,
  spatial,
  filter,
  channel,
  grid,
  pipeline,
  data_filter,
  data_spatial,
  data_grid,
  pipeline_message_driven,
  pipeline_1f1b,
  pipeline_1f1b_eager,
  pipeline_gpipe,
  sil_free,
  sil_frozen,
  sil_relay,
  local_sgd
};

/// The order in which ranks work: all on each step of one network, stages next to each other with or without
/// relayed activations, stages one after another, or replicas that meet every few steps.
enum class RankOrder { in_step, stages_apart, stages_in_relay, stages_in_turn, meetings };

/// What a strategy of the cost model is in a deck.
struct CostForm {
  const char* name;
  StrategyKind kind = StrategyKind::joint;
  std::optional<Split> split{}; ///< how parts divide a layer; empty: as the deck says, if at all
  bool replicas = false;        ///< of parts, one group of ranks per node
  std::optional<PipelineSchedule> schedule{}; ///< empty: that of the deck
  RankOrder order = RankOrder::in_step;
  StageInput input = StageInput::relay; ///< of SIL
};

const CostForm& formOf(CostStrategy strategy);

bool isPipeline(CostStrategy strategy);
/// Does it cut the network into stages?
bool cutsNetwork(CostStrategy strategy);
/// Is its cost that of a plan of this program, with its cuts, grid and memory?
bool isOwn(CostStrategy strategy);
/// Does it train differently from a single rank, so that the accuracy may differ?
bool mayChangeAccuracy(CostStrategy strategy);

template <>
const std::vector<std::string>& namesOf<CostStrategy>();

/// How the ranks of a strategy are used.
struct RankGrid {
  std::int64_t stages = 1, replicas = 1;
  std::int64_t parts = 1; ///< ranks that share each layer of a stage
};

/// "none" where nothing is divided.
std::string splitName(const std::optional<Split>& split);

/// A strategy on a grid of ranks.
struct RankChoice {
  CostStrategy strategy = CostStrategy::serial;
  RankGrid grid{};
  std::optional<Split> split{}; ///< how parts divide a layer; empty: nothing is divided
  std::int64_t microbatches = 1;
};

/// The name that the cost model has for the strategy of a deck; `data` stands for `joint` on any number of
/// ranks without parts.
CostStrategy costStrategy(const StrategySection& section);

/// The number of microbatches that a strategy without a choice of them takes over from a deck: that of the
/// deck if both train the network as a whole, or are of one kind.
std::int64_t keptMicrobatches(CostStrategy strategy, const StrategySection& deck);

/// The strategy section with which `train` runs what a prediction in exact mode describes. Keys of the deck
/// for the same strategy are kept.
StrategySection sectionFor(const RankChoice& choice, const StrategySection& deck);

} // namespace partita
