#include "partita/plan/cost/gradient_buckets.hpp"

#include "partita/plan/stage_memory.hpp"
#include "partita/plan/sum_buckets.hpp"

#include <algorithm>
#include <cmath>

namespace partita {

BucketRule bucketRule(const RunConfig& config) {
  constexpr double kib = 1024.0;
  const bool whole = config.optimiser.clip_norm > 0.0 || leavesStepsOut(config) ||
                     config.optimiser.offload != Offload::none; // the whole gradient is needed at once
  return {kib * static_cast<double>(config.strategy.bucket_kib), !whole};
}

namespace {

struct Bucket {
  double begin = 0.0, end = 0.0; ///< bytes from the front of the gradient
  double time = 0.0;             ///< when it is ready; afterwards, when its sum is complete
};

/// The buckets in the order in which their sums begin. Time 0 is the start of the backward pass.
std::vector<Bucket> bucketsOf(const std::vector<GradientLayer>& layers, const BucketRule& rule,
                              double total) {
  const double size = std::max(rule.bytes, std::ceil(total / static_cast<double>(SumBuckets::most_buckets)));
  std::vector<Bucket> started, held;
  double begin = total, end = total, time = 0.0;
  for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer) {
    time += layer->backwardFree();
    begin -= layer->bytes;
    while (end - begin >= size || (begin <= 0.0 && end > 0.0)) {
      const Bucket bucket{std::max(begin, end - size), end, time};
      const bool holds = rule.late && (started.size() + held.size()) % 3 == 2;
      (holds ? held : started).push_back(bucket);
      end = bucket.begin;
    }
  }
  for (auto bucket = held.rbegin(); bucket != held.rend(); ++bucket)
    started.push_back({bucket->begin, bucket->end, time});
  return started;
}

/// Seconds that the next forward pass, which begins at `now`, waits for the sums of its layers.
double waitForward(const std::vector<GradientLayer>& layers, const std::vector<Bucket>& buckets, double now) {
  double waited = 0.0, front = 0.0;
  for (const GradientLayer& layer : layers) {
    double complete = now;
    for (const Bucket& bucket : buckets)
      if (layer.bytes > 0.0 && bucket.begin < front + layer.bytes && bucket.end > front)
        complete = std::max(complete, bucket.time);
    waited += complete - now;
    now = complete + layer.forwardFree();
    front += layer.bytes;
  }
  return waited;
}

} // namespace

Exchange gradientExchange(const std::vector<GradientLayer>& layers, const BucketRule& rule,
                          std::int64_t replicas, double overlap,
                          const std::function<SumTime(double bytes)>& all_reduce) {
  Exchange exchange{ExchangeKind::gradients};
  if (replicas == 1) return exchange;
  double total = 0.0, computed = 0.0;
  for (const GradientLayer& layer : layers) {
    total += layer.bytes;
    computed += layer.backwardFree();
  }
  std::vector<Bucket> buckets = bucketsOf(layers, rule, total);
  constexpr auto at_once = static_cast<std::size_t>(SumBuckets::most_at_once);
  double link_free = 0.0, complete = 0.0, seconds = 0.0; // `seconds`: while any sum is under way
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    Bucket& bucket = buckets[i];
    const double bytes = bucket.end - bucket.begin;
    const SumTime own = all_reduce(bytes);
    const Messages messages = allReduce(replicas, bytes);
    const double turn = i < at_once ? 0.0 : buckets[i - at_once].time,
                 start = std::max({link_free, bucket.time, turn});
    link_free = start + own.busy;
    bucket.time = link_free + own.latency;
    seconds += std::max(0.0, bucket.time - std::max(start, complete));
    complete = std::max(complete, bucket.time);
    exchange += {exchange.kind, messages.count, messages.count * messages.bytes};
  }
  const double waited =
      rule.late ? waitForward(layers, buckets, computed) : std::max(0.0, complete - computed);
  exchange.hidden = overlap * std::max(0.0, seconds - waited);
  exchange.seconds = seconds - exchange.hidden;
  return exchange;
}

} // namespace partita
