#include "partita/plan/strategies/cost_strategy.hpp"

namespace partita {

namespace {

/// In the order of CostStrategy.
const std::vector<CostForm>& forms() {
  constexpr StrategyKind joint = StrategyKind::joint, pipeline = StrategyKind::pipeline,
                         sil = StrategyKind::sil;
  static const std::vector<CostForm> all{
      {"serial"},
      {"data"},
      {"spatial", joint, Split::spatial},
      {"filter", joint, Split::filter},
      {"channel", joint, Split::channel},
      {"grid", joint, Split::grid},
      {"pipeline", pipeline},
      {"data+filter", joint, Split::filter, true},
      {"data+spatial", joint, Split::spatial, true},
      {"data+grid", joint, Split::grid, true},
      {"pipeline-message-driven", pipeline, {}, false, PipelineSchedule::message_driven},
      {"pipeline-1f1b", pipeline, {}, false, PipelineSchedule::one_f_one_b},
      {"pipeline-1f1b-eager", pipeline, {}, false, PipelineSchedule::eager_one_f_one_b},
      {"pipeline-gpipe", pipeline, {}, false, PipelineSchedule::gpipe},
      {"sil-free", sil, {}, false, {}, RankOrder::stages_apart, StageInput::free},
      {"sil-frozen", sil, {}, false, {}, RankOrder::stages_in_turn, StageInput::frozen},
      {"sil-relay", sil, {}, false, {}, RankOrder::stages_in_relay, StageInput::relay},
      {"local-sgd", StrategyKind::local_sgd, {}, false, {}, RankOrder::meetings}};
  return all;
}

std::vector<std::string> namesOfForms() {
  std::vector<std::string> names;
  for (const CostForm& form : forms()) names.emplace_back(form.name);
  return names;
}

} // namespace

template <>
const std::vector<std::string>& namesOf<CostStrategy>() {
  static const std::vector<std::string> names = namesOfForms();
  return names;
}

const CostForm& formOf(CostStrategy strategy) {
  return forms().at(static_cast<std::size_t>(strategy));
}

bool isPipeline(CostStrategy strategy) {
  return formOf(strategy).kind == StrategyKind::pipeline;
}

bool cutsNetwork(CostStrategy strategy) {
  return isPipeline(strategy) || formOf(strategy).kind == StrategyKind::sil;
}

bool isOwn(CostStrategy strategy) {
  return formOf(strategy).kind != StrategyKind::joint;
}

bool mayChangeAccuracy(CostStrategy strategy) {
  return isOwn(strategy) && !isPipeline(strategy);
}

std::string splitName(const std::optional<Split>& split) {
  return split ? nameOf(*split) : "none";
}

namespace {

/// Is it the form of a deck that divides layers, cuts the network, or has replicas that meet?
bool fits(const CostForm& form, const StrategySection& section) {
  if (form.kind != section.kind) return false;
  if (form.kind == StrategyKind::sil) return form.input == section.sil.input;
  if (form.kind != StrategyKind::joint) return true;
  const bool replicas = section.replicas > 1 && section.split != Split::channel; // which has no such form
  return form.split == section.split && form.replicas == replicas;
}

} // namespace

CostStrategy costStrategy(const StrategySection& section) {
  if (section.kind == StrategyKind::joint && section.parts == 1) return CostStrategy::data;
  for (std::size_t i = 0; i < forms().size(); ++i)
    if (fits(forms()[i], section)) return static_cast<CostStrategy>(i);
  return CostStrategy::data; // of hogbatch, whose workers are not in step: nothing is predicted per step
}

std::int64_t keptMicrobatches(CostStrategy strategy, const StrategySection& deck) {
  const auto whole = [](StrategyKind kind) {
    return kind == StrategyKind::joint || kind == StrategyKind::local_sgd;
  };
  const StrategyKind kind = formOf(strategy).kind;
  return kind == deck.kind || (whole(kind) && whole(deck.kind)) ? deck.pipeline.microbatches : 1;
}

StrategySection sectionFor(const RankChoice& choice, const StrategySection& deck) {
  const CostForm& form = formOf(choice.strategy);
  const RankGrid& grid = choice.grid;
  StrategySection section = deck;
  section.kind = form.kind;
  const bool same_cuts = section.kind == deck.kind && grid.stages == deck.stages;
  if (!same_cuts && section.cut_rule == CutRule::list) {
    section.cut_rule = CutRule::flops;
    section.cuts.clear();
  }
  section.stages = grid.stages;
  section.replicas = grid.replicas;
  section.parts = grid.parts;
  section.split = choice.split.value_or(section.split);
  if (section.parts != deck.parts || section.split != deck.split) section.parts_grid = {{0}};
  section.pipeline.microbatches = choice.microbatches;
  section.pipeline.schedule = form.schedule.value_or(section.pipeline.schedule);
  if (section.kind == StrategyKind::sil && costStrategy(deck) != choice.strategy) {
    section.sil = {};
    section.sil.input = form.input;
  }
  return section;
}

} // namespace partita
