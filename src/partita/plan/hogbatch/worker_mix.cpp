#include "partita/plan/hogbatch/worker_mix.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace partita {

double WorkerMix::updateRate(std::size_t group, double size) const {
  const double counted = groups[group].role == WorkerRole::shared ? rules.beta : 1.0;
  double rate = 0.0;
  for (const WorkerSpeed& worker : workers) {
    if (worker.group != group) continue;
    const auto lanes = static_cast<double>(worker.lanes);
    rate += counted * lanes / worker.seconds(lanes * size);
  }
  return rate;
}

double WorkerMix::exampleRate(std::size_t group, double size) const {
  const double counted = groups[group].role == WorkerRole::shared ? rules.beta : 1.0;
  return size * updateRate(group, size) / counted;
}

namespace {

/// The size between the bounds at which the group has this rate, or the nearest bound.
double sizeAtRate(const WorkerMix& mix, std::size_t group, double rate) {
  constexpr int halvings = 100;
  auto small = static_cast<double>(mix.groups[group].lower);
  auto large = static_cast<double>(mix.groups[group].upper);
  for (int i = 0; i < halvings; ++i) {
    const double middle = 0.5 * (small + large);
    (mix.updateRate(group, middle) > rate ? small : large) = middle;
  }
  return 0.5 * (small + large);
}

void finish(const WorkerMix& mix, Balance& balance) {
  double sum = 0.0;
  for (std::size_t i = 0; i < mix.groups.size(); ++i) {
    balance.shares.push_back(mix.updateRate(i, balance.sizes[i]));
    balance.examples_per_second += mix.exampleRate(i, balance.sizes[i]);
    sum += balance.shares[i];
  }
  for (double& share : balance.shares) share /= sum;
}

} // namespace

Balance fixedBalance(const WorkerMix& mix) {
  Balance balance;
  for (const WorkerGroup& group : mix.groups) balance.sizes.push_back(static_cast<double>(group.start));
  finish(mix, balance);
  return balance;
}

Balance adaptiveBalance(const WorkerMix& mix) {
  if (mix.groups.size() == 1) return fixedBalance(mix);
  double leading = 0.0, lagging = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < mix.groups.size(); ++i) {
    leading = std::max(leading, mix.updateRate(i, static_cast<double>(mix.groups[i].upper)));
    lagging = std::min(lagging, mix.updateRate(i, static_cast<double>(mix.groups[i].lower)));
  }
  Balance balance;
  balance.equal = leading <= lagging;
  for (std::size_t i = 0; i < mix.groups.size(); ++i) {
    const double first = mix.updateRate(i, static_cast<double>(mix.groups[i].start));
    const double rate = balance.equal ? std::sqrt(leading * lagging) : std::clamp(first, lagging, leading);
    balance.sizes.push_back(sizeAtRate(mix, i, rate));
  }
  finish(mix, balance);
  return balance;
}

} // namespace partita
