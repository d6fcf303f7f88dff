#pragma once

#include "partita/plan/layer_plan.hpp"

namespace partita {

/// What the planner knows of one type of layer: shapes and costs, from `spec` and `in` (and `body`,
/// `shortcut` of a group). The defaults are those of an element-wise layer without parameters.
class LayerRules {
 public:
  virtual ~LayerRules() = default;

  /// Extents of the output. Throws UserError, beginning with `plan.entry`, where the layer does not fit.
  virtual Shape output(const LayerPlan& plan) const { return plan.in; }
  virtual std::vector<ParameterShape> parameters(const LayerPlan&) const { return {}; }
  /// State that training updates and no gradient reaches.
  virtual std::vector<ParameterShape> statistics(const LayerPlan&) const { return {}; }
  virtual double forwardFlops(const LayerPlan&) const { return 0.0; }
  virtual double weightFlops(const LayerPlan& plan) const {
    return parameters(plan).empty() ? 0.0 : forwardFlops(plan);
  }
  virtual double inputFlops(const LayerPlan& plan) const { return forwardFlops(plan); }
  virtual std::int64_t savedValues(const LayerPlan&) const { return 0; }
  virtual std::int64_t workValues(const LayerPlan&, std::int64_t rows) const {
    (void)rows;
    return 0;
  }
  virtual std::int64_t realCopies(const LayerPlan& plan) const { return plan.storedValues(); }
};

/// Widest head of attention: its tiles have to fit into the cache of a core.
constexpr std::int64_t most_head_width = 256;

/// The rules of a type by its name in decks. Throws std::logic_error where there is none.
const LayerRules& rulesOf(const std::string& type);

/// One function a family of layers; null where a type belongs to another.
const LayerRules* denseRules(const std::string& type);
const LayerRules* groupRules(const std::string& type);
const LayerRules* sequenceRules(const std::string& type);
const LayerRules* imageRules(const std::string& type);

} // namespace partita
