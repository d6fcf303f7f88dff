#include "partita/plan/cost/prediction.hpp"

#include <algorithm>
#include <limits>

namespace partita {

template <>
const std::vector<std::string>& namesOf<CostMode>() {
  static const std::vector<std::string> names{"exact", "paper"};
  return names;
}

template <>
const std::vector<std::string>& namesOf<Obstacle>() {
  static const std::vector<std::string> names{"none",
                                              "more_ranks_than_one",
                                              "more_ranks_than_batch",
                                              "more_ranks_than_filters",
                                              "more_ranks_than_channels",
                                              "more_ranks_than_places",
                                              "slab_smaller_than_halo",
                                              "more_ranks_than_layers",
                                              "parts_do_not_divide_ranks",
                                              "stages_do_not_divide_ranks",
                                              "nothing_to_divide",
                                              "refused_by_train",
                                              "not_enough_memory"};
  return names;
}

template <>
const std::vector<std::string>& namesOf<ExchangeKind>() {
  static const std::vector<std::string> names{"gradients",      "all_gather", "all_reduce",
                                              "reduce_scatter", "halo",       "gather",
                                              "stage",          "norm",       "parameters"};
  return names;
}

Exchange& Exchange::operator+=(const Exchange& other) {
  messages += other.messages;
  bytes += other.bytes;
  seconds += other.seconds;
  hidden += other.hidden;
  return *this;
}

double Prediction::stepCommunication() const {
  double sum = 0.0;
  for (const Exchange& exchange : exchanges) sum += exchange.seconds;
  return sum;
}

double Prediction::nodeHours() const {
  constexpr double hour = 3600.0;
  if (run_steps == 0.0) return std::numeric_limits<double>::quiet_NaN();
  return static_cast<double>(nodes) * run_steps * stepSeconds() / hour;
}

void Prediction::setCompute(const ComputeTime& computing, double idle) {
  busy = computing;
  epoch_idle = steps * idle;
  epoch_compute = steps * (computing.total() + idle);
}

std::string Prediction::limiter() const {
  if (!feasible()) return nameOf(obstacle);
  std::string largest = "compute";
  double seconds = epoch_compute;
  for (const Exchange& exchange : exchanges) {
    if (steps * exchange.seconds <= seconds) continue;
    seconds = steps * exchange.seconds;
    largest = nameOf(exchange.kind);
  }
  return largest;
}

void Prediction::add(ExchangeKind kind, const Messages& messages, const Link& link, double flows) {
  add({kind, messages.count, messages.count * messages.bytes, link.seconds(messages, flows)});
}

double bytesOf(const std::vector<Exchange>& exchanges) {
  double bytes = 0.0;
  for (const Exchange& exchange : exchanges) bytes += exchange.bytes;
  return bytes;
}

void takeTraffic(std::vector<Exchange>& exchanges, const std::vector<Exchange>& other) {
  for (Exchange& exchange : exchanges) exchange.messages = exchange.bytes = 0.0;
  for (const Exchange& exchange : other)
    addExchange(exchanges, {exchange.kind, exchange.messages, exchange.bytes});
}

void addExchange(std::vector<Exchange>& exchanges, const Exchange& exchange) {
  if (exchange.messages == 0.0 && exchange.seconds == 0.0 && exchange.hidden == 0.0) return;
  auto found = std::find_if(exchanges.begin(), exchanges.end(),
                            [&](const Exchange& other) { return other.kind >= exchange.kind; });
  if (found == exchanges.end() || found->kind != exchange.kind)
    found = exchanges.insert(found, Exchange{exchange.kind});
  *found += exchange;
}

} // namespace partita
