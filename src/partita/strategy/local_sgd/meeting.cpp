#include "partita/strategy/local_sgd/meeting.hpp"

#include "partita/comm/wait_times.hpp"
#include "partita/core/loops.hpp"
#include "partita/core/region.hpp"
#include "partita/plan/strategy_plan.hpp"

#include <cmath>

namespace partita {

namespace {

/// Factor on differences in fp16, most of which would otherwise underflow: a power of two, for which the sum
/// of the replicas fits if a parameter has changed by less than 64 on average. If it does not fit, the
/// meeting continues with half the factor, but not below `least_scale`, where only a diverged run overflows.
constexpr double least_scale = 1.0 / 16;

double scaleOf(const RunConfig& config, int replicas) {
  return usesFp16(config) ? std::exp2(std::floor(std::log2(1024.0 / replicas))) : 1.0;
}

template <class Stored>
struct Subtract {
  const Real *parameters, *anchor;
  Stored* difference;
  Real scale;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i) const {
    difference[i] = fromReal<Stored>(scale * (anchor[i] - parameters[i]));
  }
};

template <class Stored>
struct OuterKernel {
  const Stored* differences;            // summed over the replicas
  Real *parameters, *anchor, *momentum; // `momentum` null: plain average
  Stored* rounded;
  Real mean_factor, rate, decay; // `mean_factor`: from a sum to a mean

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i) const {
    Real direction = mean_factor * toReal(differences[i]);
    if (momentum != nullptr) {
      momentum[i] = decay * momentum[i] + direction;
      direction = rate * (direction + decay * momentum[i]);
    }
    const Real value = anchor[i] - direction;
    parameters[i] = anchor[i] = value;
    if constexpr (!is_real<Stored>) rounded[i] = fromReal<Stored>(value);
  }
};

StoredVector makeVector(const RunConfig& config, const char* name, std::int64_t size) {
  return {placementOf(config.optimiser), std::string("partita::StageMeeting::") + name, size};
}

} // namespace

StageMeeting::StageMeeting(const RunConfig& config, StageUpdater& updater, Grid& grid)
    : _section(config.strategy.local_sgd), _updater(updater), _peers(grid.peers()),
      _replicas(grid.replicas()), _first_scale(scaleOf(config, _replicas)), _scale(_first_scale),
      _trained(updater.local().stage.trained()),
      _anchor(makeVector(config, "anchor", _trained.parameters.size)),
      _momentum(_section.outer == OuterStep::nesterov
                    ? makeVector(config, "momentum", _trained.parameters.size)
                    : StoredVector()),
      _stream(_trained.parameters.size, {_trained.masters, _anchor, _momentum},
              _anchor.offloaded() || _trained.masters.offloaded() ? config.optimiser.offload_bucket
                                                                  : _trained.parameters.size),
      _sum(grid.peers(), _trained.gradients, config.strategy.bucket_kib * 1024 / bytesOf(grid.paths().sums),
           grid.paths().reductions, grid.traffic.between_replicas, grid.paths().sums,
           grid.deviceSums(grid.peers()), waits::parameters),
      _statistics(grid.peers(), grid.paths().reductions,
                  static_cast<std::int64_t>(updater.local().stage.statistics().extent(0)),
                  grid.traffic.between_replicas) {
  if (usesFp16(config) && _trained.gradients.size > 0)
    _norm.emplace(std::vector<GradientNorm::Part>{{0, _trained.gradients.size}});
  const std::vector<std::string> names =
      planOf(config.strategy).keptStates(config.strategy, updater.local().stage.plan());
  updater.keep({names[0], _anchor});
  constexpr bool required = false; // without it, the velocity starts from 0
  if (_momentum.size() > 0) updater.keep({names[1], _momentum}, required);
}

void StageMeeting::begin(const ExecSpace& space) {
  _anchor.copyIn(space, _updater.local().stage.masters().values(space).data());
  if (_momentum.size() > 0) _momentum.clear(space);
}

bool StageMeeting::hasMet(const ExecSpace& space) const {
  const bool same = _updater.local().stage.masters().values(space) == _anchor.values(space);
  return _peers.maximum(std::int64_t{same ? 0 : 1}) == 0;
}

void StageMeeting::meet(const ExecSpace& space, OuterStep outer) {
  const Region region(space, "partita::StageMeeting::meet", Phase::communication);
  sum(space, _first_scale);
  while (overflowed(space) && _scale > least_scale) sum(space, _scale / 2.0);
  step(space, outer);
  if (_replicas > 1) _statistics.average(space, _updater.local().stage.statistics());
}

/// Of the differences times `scale`, in the gradient buffer.
void StageMeeting::sum(const ExecSpace& space, double scale) {
  _scale = scale;
  _sum.setScale(static_cast<Real>(scale), static_cast<Real>(1.0 / scale));
  subtract(space);
  _sum.ready(space, 0, _trained.gradients.size);
  _sum.finish(space);
}

/// All replicas have the same sum, so they need not agree on this.
bool StageMeeting::overflowed(const ExecSpace& space) {
  if (!_norm) return false;
  _norm->measure(space, _trained.gradients);
  return !std::isfinite(_norm->squaredNorm(space));
}

/// Without masters the parameters themselves are trained.
StageMeeting::Values StageMeeting::valuesOf(const BucketStream::Bucket& bucket) const {
  const TypedSpan parameters = _trained.parameters.part(bucket.begin, bucket.end);
  Real* const masters = bucket.values[0];
  return {masters != nullptr ? masters : static_cast<Real*>(parameters.data), bucket.values[1],
          bucket.values[2], parameters.data, _trained.gradients.part(bucket.begin, bucket.end).data};
}

void StageMeeting::subtract(const ExecSpace& space) {
  _stream.run(space, [&](const BucketStream::Bucket& bucket) {
    const Values values = valuesOf(bucket);
    withStored(_trained.gradients.precision, [&](auto stored) {
      using Stored = decltype(stored);
      forEachValue(space, "partita::StageMeeting::subtract_kernel", bucket.end - bucket.begin,
                   Subtract<Stored>{values.parameters, values.anchor, static_cast<Stored*>(values.gradients),
                                    static_cast<Real>(_scale)});
    });
  });
}

void StageMeeting::step(const ExecSpace& space, OuterStep outer) {
  const bool nesterov = outer == OuterStep::nesterov;
  _stream.run(space, [&](const BucketStream::Bucket& bucket) {
    const Values values = valuesOf(bucket);
    withStored(_trained.gradients.precision, [&](auto stored) {
      using Stored = decltype(stored);
      forEachValue(space, "partita::StageMeeting::step_kernel", bucket.end - bucket.begin,
                   OuterKernel<Stored>{
                       static_cast<const Stored*>(values.gradients), values.parameters, values.anchor,
                       nesterov ? values.momentum : nullptr, static_cast<Stored*>(values.rounded),
                       static_cast<Real>(1.0 / (_scale * _replicas)), static_cast<Real>(_section.outer_rate),
                       static_cast<Real>(_section.outer_momentum)});
    });
  });
}

} // namespace partita
