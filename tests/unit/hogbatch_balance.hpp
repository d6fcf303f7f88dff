#pragma once

#include "partita/plan/hogbatch/worker_mix.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace partita::test {

/// Updates per second of a group whose sizes are `size`, as the rule counts them: beta weights those of
/// shared workers.
inline double updateRate(const WorkerMix& mix, std::size_t group, double size) {
  const double counted = mix.rules.weight(mix.groups[group].role);
  double rate = 0.0;
  for (const WorkerSpeed& worker : mix.workers)
    if (worker.group == group) rate += counted / worker.seconds(size);
  return rate;
}

/// Examples per second of a group whose sizes are `size`.
inline double exampleRate(const WorkerMix& mix, std::size_t group, double size) {
  return size * updateRate(mix, group, size) / mix.rules.weight(mix.groups[group].role);
}

/// Closed forms for a long run, without the ends of epochs.
struct Balance {
  std::vector<double> shares; ///< of each group in the updates, as the rule counts them
  std::vector<double> sizes;  ///< of the batches in each group, on average
  bool equal = false;         ///< can all groups update equally often within their bounds?
  double examples_per_second = 0.0;
};

/// The size between the bounds at which the group has this rate, or the nearest bound.
inline double sizeAtRate(const WorkerMix& mix, std::size_t group, double rate) {
  constexpr int halvings = 100;
  auto small = static_cast<double>(mix.groups[group].lower);
  auto large = static_cast<double>(mix.groups[group].upper);
  for (int i = 0; i < halvings; ++i) {
    const double middle = 0.5 * (small + large);
    (updateRate(mix, group, middle) > rate ? small : large) = middle;
  }
  return 0.5 * (small + large);
}

inline void finishBalance(const WorkerMix& mix, Balance& balance) {
  double sum = 0.0;
  for (std::size_t i = 0; i < mix.groups.size(); ++i) {
    balance.shares.push_back(updateRate(mix, i, balance.sizes[i]));
    balance.examples_per_second += exampleRate(mix, i, balance.sizes[i]);
    sum += balance.shares[i];
  }
  for (double& share : balance.shares) share /= sum;
}

/// Sizes that stay as they start.
inline Balance fixedBalance(const WorkerMix& mix) {
  Balance balance;
  for (const WorkerGroup& group : mix.groups) balance.sizes.push_back(static_cast<double>(group.start));
  finishBalance(mix, balance);
  return balance;
}

/// Sizes that adapt. If the bounds allow it, all groups get the same rate of updates: the geometric mean of
/// the least and the greatest possible rate. Where the rate of a run settles depends on its course.
/// Otherwise the fastest groups stay at their upper bound, the slowest at their lower one, and a group
/// between them keeps its first size unless that makes it the fastest or slowest.
inline Balance adaptiveBalance(const WorkerMix& mix) {
  if (mix.groups.size() == 1) return fixedBalance(mix);
  double leading = 0.0, lagging = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < mix.groups.size(); ++i) {
    leading = std::max(leading, updateRate(mix, i, static_cast<double>(mix.groups[i].upper)));
    lagging = std::min(lagging, updateRate(mix, i, static_cast<double>(mix.groups[i].lower)));
  }
  Balance balance;
  balance.equal = leading <= lagging;
  for (std::size_t i = 0; i < mix.groups.size(); ++i) {
    const double first = updateRate(mix, i, static_cast<double>(mix.groups[i].start));
    const double rate = balance.equal ? std::sqrt(leading * lagging) : std::clamp(first, lagging, leading);
    balance.sizes.push_back(sizeAtRate(mix, i, rate));
  }
  finishBalance(mix, balance);
  return balance;
}

} // namespace partita::test
