#include "partita/plan/cost/cluster.hpp"

#include "partita/plan/cost/layer_cost.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace partita {

const Link& LinkTable::of(std::int64_t ranks) const {
  for (const Row& row : rows)
    if (ranks <= row.ranks) return row.link;
  return rows.back().link;
}

bool NetworkTiming::hasFlops(double flops) const {
  constexpr double digits = 1e-9; // of the cluster file
  return flops > 0.0 && std::abs(flops_per_sample - flops) <= digits * flops;
}

NetworkTiming Cluster::timing(const std::string& deck, std::int64_t parameters, double flops,
                              const std::string& precision) const {
  const auto same_name = [&](const NetworkTiming& row) { return !deck.empty() && row.deck == deck; };
  const auto same_size = [&](const NetworkTiming& row) {
    return parameters > 0 && row.parameters == parameters;
  };
  const auto only_named = [&](const NetworkTiming& row) {
    return same_name(row) && (row.parameters == 0 || parameters == 0);
  };
  const auto fit = [&](const NetworkTiming& row) {
    return std::make_tuple(!row.differsIn(precision), same_size(row),
                           !precision.empty() && row.precision == precision, row.hasFlops(flops),
                           same_name(row));
  };
  const NetworkTiming *best = nullptr, *named = nullptr;
  for (const NetworkTiming& row : networks) {
    if (only_named(row) && named == nullptr && !row.differsIn(precision)) named = &row;
    if ((same_size(row) || only_named(row)) && (best == nullptr || fit(row) > fit(*best))) best = &row;
  }
  if (best == nullptr) return {};
  NetworkTiming timing = *best;
  if (timing.differsIn(precision)) {
    timing.seconds_per_sample = timing.seconds_per_update = 0.0;
    timing.batch = 0;
  }
  if (named != nullptr && timing.seconds_per_update == 0.0)
    timing.seconds_per_update = named->seconds_per_update;
  if (named != nullptr && timing.spatial_layers == 0) timing.spatial_layers = named->spatial_layers;
  if (flops > 0.0 && timing.flops_per_sample > 0.0)
    timing.seconds_per_sample *= flops / timing.flops_per_sample;
  return timing;
}

const WorkerTiming* Cluster::worker(const std::string& deck, std::int64_t parameters,
                                    std::int64_t rank) const {
  const auto of = [&](const std::string& name) -> const WorkerTiming* {
    const auto found = std::find_if(workers.begin(), workers.end(),
                                    [&](const auto& one) { return one.rank == rank && one.deck == name; });
    return found == workers.end() ? nullptr : &*found;
  };
  bool is_it = true; // unless only other networks have that name
  for (const NetworkTiming& network : networks) {
    if (network.deck != deck || parameters == 0) continue;
    is_it = network.parameters == 0 || network.parameters == parameters;
    if (is_it) break;
  }
  const WorkerTiming* own = is_it ? of(deck) : nullptr;
  const std::string known = timing(deck, parameters).deck;
  return own != nullptr || known.empty() ? own : of(known);
}

WorkerTiming workerTiming(std::int64_t small, double small_seconds, std::int64_t large,
                          double large_seconds) {
  const auto fewer = static_cast<double>(small), more = static_cast<double>(large);
  WorkerTiming timing;
  timing.samples_per_second = more / large_seconds;
  const double difference = large_seconds - small_seconds;
  const double overhead = small_seconds - fewer * difference / (more - fewer);
  if (difference <= 0.0 || overhead <= 0.0) return timing;
  timing.overhead = overhead;
  timing.samples_per_second = (more - fewer) / difference;
  return timing;
}

double Cluster::slowdown(double ranks) const {
  const auto factor = [this](double at) {
    Concurrency before{1, 1.0};
    for (const Concurrency& row : concurrency) {
      if (static_cast<double>(row.ranks) >= at) {
        const auto whole = static_cast<double>(row.ranks - before.ranks);
        if (whole <= 0.0) return row.factor;
        return before.factor +
               (row.factor - before.factor) * (at - static_cast<double>(before.ranks)) / whole;
      }
      before = row;
    }
    return before.factor;
  };
  const auto all = static_cast<double>(node_ranks);
  return factor(std::clamp(ranks, 1.0, all)) / factor(all);
}

CoreSharing Cluster::sharing(std::int64_t groups, std::int64_t ranks) const {
  const std::int64_t on_node = std::min(ranks, node_ranks);
  CoreSharing sharing;
  for (std::int64_t working = 0; working <= groups; ++working)
    sharing.slowdowns.push_back(slowdown(asReal(on_node * working) / asReal(groups)) /
                                slowdown(asReal(on_node)));
  if (node_at_once > 0 && node_at_once < on_node)
    sharing.at_once = static_cast<std::size_t>(std::max<std::int64_t>(1, groups * node_at_once / on_node));
  return sharing;
}

const Link& Cluster::linkAfter(std::int64_t group, std::int64_t groups, std::int64_t copies) const {
  bool inside = true;
  for (std::int64_t copy = 0; inside && copy < std::min(copies, node_ranks); ++copy) // then it repeats
    inside = (group + groups * copy) % node_ranks + 1 < node_ranks;
  const std::int64_t ranks = groups * copies;
  return links.of(inside ? std::min(node_ranks, ranks) : ranks);
}

} // namespace partita
