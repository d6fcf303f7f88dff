#include "partita/plan/layers/table.hpp"

#include <algorithm>

namespace partita {

namespace {

/// Values that parts of a stage exchange; see ExchangePlan.
class ExchangeRules : public LayerRules {
 public:
  /// The ranges of all ranks one after another, and one that arrives while values are added up.
  std::int64_t workValues(const LayerPlan& plan, std::int64_t rows) const override {
    const ExchangePlan& exchange = *plan.exchange;
    const std::int64_t widest = *std::max_element(exchange.widths.begin(), exchange.widths.end());
    return rows * exchange.items * (exchange.columns() + widest);
  }
  LayerWork work() const override { return LayerWork::other; }
};

} // namespace

const LayerRules& exchangeRules() {
  static const ExchangeRules rules;
  return rules;
}

} // namespace partita
