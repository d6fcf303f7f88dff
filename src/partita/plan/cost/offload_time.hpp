#pragma once

#include "partita/config/run_config.hpp"
#include "partita/plan/cost/cluster.hpp"

namespace partita {

/// Seconds of an update of `values` parameters of a stage, which takes `on_device` seconds with the optimiser
/// state, of `real_bytes` bytes per value, on the device. State elsewhere passes through in buckets, as in
/// BucketStream. With three sets of buffers, copies in, updates and copies out overlap; otherwise they follow
/// one another.
double updateSeconds(const Cluster& cluster, const RunConfig& config, double values, double on_device,
                     std::int64_t real_bytes);

} // namespace partita
