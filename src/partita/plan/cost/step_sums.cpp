#include "partita/plan/cost/step_sums.hpp"

#include "partita/plan/parts/part_of_stage.hpp"

namespace partita {

namespace {

SumTime sumTime(const Cluster& cluster, const RingPath& path, int ranks, double bytes) {
  const Messages messages = allReduce(ranks, bytes);
  const double latency = messages.count * path.link.shortest(),
               additions = bytes * asReal(ranks - 1) / asReal(ranks) * cluster.seconds_per_reduced_byte;
  return {path.link.seconds(messages, path.flows) - latency + additions, latency};
}

} // namespace

Exchange gradientSums(const Cluster& cluster, const RingPath& path, int ranks,
                      const std::vector<GradientLayer>& layers, const BucketRule& rule) {
  return gradientExchange(layers, rule, ranks, cluster.overlap,
                          [&](double bytes) { return sumTime(cluster, path, ranks, bytes); });
}

StepSums::StepSums(const CostTerms& terms, const ProgramRun& run)
    : _cluster(terms.cluster), _real_bytes(run.device.real_bytes), _replicas(run.grid.replicas),
      _summing(dividesPlaces(run.config.strategy) ? run.grid.replicas * run.grid.parts : run.grid.replicas),
      _statistics(ringPath(terms.cluster, run.grid.size(), _replicas,
                           std::int64_t{run.grid.groups} * run.grid.parts)),
      _gradients(_summing == _replicas
                     ? _statistics
                     : ringPath(terms.cluster, run.grid.size(), _summing, run.grid.groups)) {}

Exchange StepSums::gradients(const std::vector<GradientLayer>& layers, const BucketRule& rule) const {
  return gradientSums(_cluster, _gradients, _summing, layers, rule);
}

Exchange StepSums::norms(const StageTime& stage, double passes) const {
  Exchange norms{ExchangeKind::norm};
  const auto add = [&](double values, double times) {
    const double bytes = values * asReal(_real_bytes);
    const Messages messages = allReduce(_replicas, bytes);
    const SumTime time = sumTime(_cluster, _statistics, _replicas, bytes);
    norms += {ExchangeKind::norm, times * messages.count, times * messages.count * messages.bytes,
              times * (time.busy + time.latency)};
  };
  for (const double values : stage.statistic_sums) add(values, passes);
  if (stage.statistics > 0.0) add(stage.statistics, 1.0);
  return norms;
}

} // namespace partita
