#include "partita/plan/layers/table.hpp"

#include <algorithm>

namespace partita {

namespace {

/// Values that parts of a stage exchange; see ExchangePlan.
class ExchangeRules : public LayerRules {
 public:
  /// A range that is sent and one that arrives; for a halo everything that is sent and arrives.
  std::int64_t workValues(const LayerPlan& plan, std::int64_t rows) const override {
    const ExchangePlan& exchange = *plan.exchange;
    if (exchange.kind == PartStep::halo) return rows * haloValues(exchange);
    const std::int64_t widest = *std::max_element(exchange.widths.begin(), exchange.widths.end());
    return 2 * rows * exchange.items * widest;
  }
  LayerWork work() const override { return LayerWork::other; }

 private:
  static std::int64_t haloValues(const ExchangePlan& halo) {
    std::int64_t values = 0;
    for (int other = 0; other < static_cast<int>(halo.owned.size()); ++other)
      if (other != halo.place)
        values += halo.valuesSent(halo.place, other) + halo.valuesSent(other, halo.place);
    return values;
  }
};

} // namespace

const LayerRules& exchangeRules() {
  static const ExchangeRules rules;
  return rules;
}

} // namespace partita
