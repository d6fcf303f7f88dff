#pragma once

#include "partita/config/run_config.hpp"
#include "partita/plan/cost/cluster.hpp"

namespace partita {

/// Seconds of an update of `values` parameters of a stage that takes `on_device` seconds if the state of the
/// optimiser is on the device. Elsewhere it passes through in buckets, in the way of BucketStream: with three
/// sets of buffers, copies in, updates and copies out either overlap or follow one another.
double updateSeconds(const Cluster& cluster, const RunConfig& config, double values, double on_device);

} // namespace partita
