#include "partita/plan/cost/refine.hpp"

#include "partita/config/text.hpp"
#include "partita/plan/cost/cluster_rows.hpp"
#include "partita/plan/cost/typical.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

namespace partita {

namespace {

CostModel modelOf(const RunEvidence& evidence, const Cluster& cluster) {
  CostTask task = evidence.task;
  task.timing = timingOf(task, cluster);
  return {task, cluster, CostMode::exact};
}

std::string lineOf(const std::string& what, double before, double now, std::size_t runs) {
  return what + formatted(": %.4g -> %.4g, from ", before, now) +
         counted(static_cast<std::int64_t>(runs), "run");
}

/// The factor for the seconds per sample, which do not include the update.
double computeFactor(const RunEvidence& evidence, Cluster cluster) {
  const double with_update = modelOf(evidence, cluster).predict(evidence.run).busySeconds();
  cluster.seconds_per_update = 0.0;
  for (NetworkTiming& network : cluster.networks) network.seconds_per_update = 0.0;
  cluster.host_bandwidth = cluster.file_bandwidth = std::numeric_limits<double>::infinity();
  const double passes = modelOf(evidence, cluster).predict(evidence.run).busySeconds();
  constexpr double least = 0.01; // for updates that alone would take longer than the step
  return std::max(least, (evidence.compute - (with_update - passes)) / passes);
}

/// What runs say about one network.
struct FoundNetwork {
  NetworkTiming network;
  std::vector<double> before, now; ///< seconds per sample, which without a row depend on the batch of the run
  std::vector<double> factors;
};

std::vector<FoundNetwork> networksOf(const std::vector<RunEvidence>& runs, const Cluster& cluster) {
  std::map<decltype(identityOf(NetworkTiming())), FoundNetwork> networks;
  for (const RunEvidence& evidence : runs) {
    NetworkTiming network = networkOf(evidence.task);
    FoundNetwork& found = networks[identityOf(network)];
    const NetworkTiming used = timingOf(evidence.task, cluster); // whose other values the time belongs to
    network.batch = used.batch;
    network.seconds_per_update = used.seconds_per_update;
    network.spatial_layers = used.spatial_layers;
    found.network = network;
    const CostModel model = modelOf(evidence, cluster);
    double seconds = 0.0;
    for (const LayerTime& time : model.times()) seconds += time.perSample();
    found.before.push_back(seconds);
    found.factors.push_back(computeFactor(evidence, cluster));
    found.now.push_back(seconds * found.factors.back());
  }
  std::vector<FoundNetwork> list;
  list.reserve(networks.size());
  for (auto& [identity, found] : networks) list.push_back(std::move(found));
  return list;
}

/// Is it a row of this network, as far as the row says which one it has?
bool isRowOf(const NetworkTiming& row, const NetworkTiming& network) {
  return row.parameters == network.parameters && !row.differsIn(network.precision) &&
         (row.flops_per_sample == 0.0 || row.hasFlops(network.flops_per_sample));
}

/// Samples of another deck with this network may be larger, so a time changes by a factor.
void refineRow(NetworkTiming& row, const std::vector<FoundNetwork>& networks) {
  std::vector<double> factors, now;
  for (const FoundNetwork& found : networks) {
    if (!isRowOf(row, found.network)) continue;
    factors.insert(factors.end(), found.factors.begin(), found.factors.end());
    now.insert(now.end(), found.now.begin(), found.now.end());
  }
  if (factors.empty()) return;
  row.seconds_per_sample = row.seconds_per_sample > 0.0
                               ? row.seconds_per_sample * typical(Typical::median, factors)
                               : typical(Typical::median, now);
}

void refineNetworks(Cluster& cluster, const std::vector<RunEvidence>& runs, std::vector<std::string>& lines) {
  std::vector<FoundNetwork> networks = networksOf(runs, cluster);
  for (NetworkTiming& row : cluster.networks) refineRow(row, networks);
  for (FoundNetwork& found : networks) {
    NetworkTiming& network = found.network;
    network.seconds_per_sample = typical(Typical::median, found.now);
    bool is_new = true;
    std::string name; // a run knows its network, but not which of several decks it was
    for (const NetworkTiming& row : cluster.networks) {
      if (!isRowOf(row, network)) continue;
      is_new = false;
      name += (name.empty() || row.deck.empty() ? "" : ", ") + row.deck;
    }
    if (name.empty()) name = std::to_string(network.parameters) + " parameters";
    if (is_new) cluster.networks.push_back(network);
    lines.push_back(lineOf("network " + name + ", seconds per sample", typical(Typical::median, found.before),
                           network.seconds_per_sample, found.now.size()));
  }
}

void slowMessages(Cluster& cluster, double factor) {
  for (LinkTable::Row& row : cluster.links.rows) {
    row.link.latency *= factor;
    row.link.seconds_per_byte *= factor;
    for (Link::Point& point : row.link.measured) point.seconds *= factor;
  }
}

/// The sums of a run if computing hides this fraction of what it can hide.
Exchange sumsOf(const RunEvidence& evidence, Cluster cluster, double overlap) {
  cluster.overlap = overlap;
  Exchange sums;
  const Prediction prediction = modelOf(evidence, cluster).predict(evidence.run);
  for (const Exchange& exchange : prediction.exchanges)
    if (exchange.kind == ExchangeKind::gradients || exchange.kind == ExchangeKind::parameters)
      sums += exchange;
  return sums;
}

/// How much slower messages have to be for the sums to take as long as in the run. The time of sums grows
/// with that of messages, but not in proportion: additions, gaps and what is hidden stay as they are. If no
/// messages would explain the run, their times change in proportion to those of the sums.
double messageFactor(const RunEvidence& evidence, const Cluster& cluster, double overlap) {
  const auto sums = [&](double factor) {
    Cluster slowed = cluster;
    slowMessages(slowed, factor);
    return sumsOf(evidence, slowed, overlap).seconds;
  };
  double low = 1e-2, high = 1e2;
  if (sums(low) >= evidence.sums || sums(high) <= evidence.sums) return evidence.sums / sums(1.0);
  for (int halvings = 0; halvings < 48; ++halvings) {
    const double middle = std::sqrt(low * high);
    (sums(middle) < evidence.sums ? low : high) = middle;
  }
  return std::sqrt(low * high);
}

void refineMessages(Cluster& cluster, const std::vector<RunEvidence>& runs, std::vector<std::string>& lines) {
  std::vector<double> overlaps, factors;
  for (const RunEvidence& evidence : runs) {
    const Exchange sums = sumsOf(evidence, cluster, 1.0);
    if (sums.messages == 0.0) continue;
    const double all = sums.seconds + sums.hidden;
    if (evidence.sums > sums.seconds && sums.hidden > 0.0) {
      overlaps.push_back(std::max(0.0, 1.0 - (evidence.sums - sums.seconds) / sums.hidden));
      if (evidence.sums > all) factors.push_back(messageFactor(evidence, cluster, 0.0));
    } else if (sums.seconds > 0.0 && evidence.sums > 0.0) {
      if (sums.hidden > 0.0) overlaps.push_back(1.0);
      factors.push_back(messageFactor(evidence, cluster, 1.0));
    }
  }
  if (!overlaps.empty()) {
    const double now = typical(Typical::median, overlaps);
    lines.push_back(lineOf("overlap", cluster.overlap, now, overlaps.size()));
    cluster.overlap = now;
  }
  if (factors.empty()) return;
  const double factor = typical(Typical::median, factors);
  lines.push_back(lineOf("time of messages, relative", 1.0, factor, factors.size()));
  slowMessages(cluster, factor);
  cluster.links.assumed = false;
}

} // namespace

std::vector<std::string> refine(Cluster& cluster, const std::vector<RunEvidence>& runs) {
  std::vector<std::string> lines;
  refineNetworks(cluster, runs, lines); // first: what is hidden depends on the times of the passes
  refineMessages(cluster, runs, lines);
  return lines;
}

} // namespace partita
