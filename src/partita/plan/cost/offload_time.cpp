#include "partita/plan/cost/offload_time.hpp"

#include "partita/plan/cost/cost_model.hpp"
#include "partita/plan/stage_memory.hpp"

#include <algorithm>
#include <cmath>

namespace partita {

namespace {

/// A device copies to and from pinned memory while it computes, but waits for files. A host copies memory
/// itself, and has threads for files.
bool overlapsCopies(const Cluster& cluster, Offload offload) {
  return (offload == Offload::host) == cluster.device;
}

} // namespace

double updateSeconds(const Cluster& cluster, const RunConfig& config, double values, double on_device,
                     std::int64_t real_bytes) {
  const Offload offload = config.optimiser.offload;
  const auto vectors = static_cast<double>(optimiserVectors(config));
  if (offload == Offload::none || vectors == 0.0 || values == 0.0) return on_device;
  const double bandwidth = offload == Offload::host ? cluster.host_bandwidth : cluster.file_bandwidth,
               one_way = vectors * values * asReal(real_bytes) / bandwidth, all = 2.0 * one_way + on_device;
  if (!overlapsCopies(cluster, offload)) return all;
  const double buckets = std::ceil(values / static_cast<double>(config.optimiser.offload_bucket));
  // The first bucket takes all three steps; each further one adds the longest of them.
  return (all + (buckets - 1.0) * std::max(one_way, on_device)) / buckets;
}

} // namespace partita
