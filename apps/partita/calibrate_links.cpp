#include "calibrate_links.hpp"

#include "partita/comm/rank_places.hpp"
#include "partita/comm/ring_time.hpp"
#include "partita/config/text.hpp"
#include "partita/core/log.hpp"
#include "partita/kernels/products.hpp"

#include <cmath>
#include <string>
#include <vector>

namespace partita {

namespace {

/// 2, 4, 8, ... and all ranks.
std::vector<int> ringSizes(int ranks) {
  std::vector<int> sizes;
  for (int size = 2; size < ranks; size *= 2) sizes.push_back(size);
  if (ranks > 1) sizes.push_back(ranks);
  return sizes;
}

/// latency + bytes / bandwidth by least squares of the relative errors, for people who read the file.
std::string fittedLine(int ranks, const std::vector<Link::Point>& points) {
  double one = 0, m = 0, mm = 0, t = 0, mt = 0; // sums of 1/t^2, m/t^2, (m/t)^2, 1/t, m/t
  for (const Link::Point& point : points) {
    const double per = 1.0 / point.seconds;
    one += per * per;
    m += point.bytes * per * per;
    mm += point.bytes * per * point.bytes * per;
    t += per;
    mt += point.bytes * per;
  }
  const double determinant = one * mm - m * m, latency = (t * mm - mt * m) / determinant,
               seconds_per_byte = (one * mt - m * t) / determinant;
  return formatted("  ring of %d ranks: a message takes about %.2f us + bytes / %s/s", ranks, 1e6 * latency,
                   formatBytes(1.0 / seconds_per_byte).c_str());
}

/// Seconds of a message between ranks that compute in between, as a stage does with a small microbatch.
double oversubscribedMessage(const ExecSpace& space, const Communicator& world, int ranks,
                             std::int64_t bytes) {
  constexpr int n = 128;
  const Matrix a = makeMatrix("partita::calibrate::a", n, n), b = makeMatrix("partita::calibrate::b", n, n),
               c = makeMatrix("partita::calibrate::c", n, n);
  return oversubscribedRingStep(world, ranks, bytes, [&] {
    gemm(space, Op::none, Op::none, Real(1), a, b, Real(0), c);
    fence(space, "partita::calibrate::message");
  });
}

/// A longer message takes no less time. Where measured times decrease, which is noise, their geometric mean
/// replaces them.
void smooth(std::vector<Link::Point>& points) {
  struct Level {
    double logarithms;
    std::size_t count;
    double mean() const { return logarithms / static_cast<double>(count); }
  };
  std::vector<Level> levels; // pools of adjacent violators
  for (const Link::Point& point : points) {
    Level level{std::log(point.seconds), 1};
    for (; !levels.empty() && levels.back().mean() > level.mean(); levels.pop_back())
      level = {level.logarithms + levels.back().logarithms, level.count + levels.back().count};
    levels.push_back(level);
  }
  auto point = points.begin();
  for (const Level& level : levels)
    for (std::size_t i = 0; i < level.count; ++i) (point++)->seconds = std::exp(level.mean());
}

} // namespace

LinkTable measureLinks(const ExecSpace& space, const Communicator& world, bool quick) {
  const bool oversubscribed = isOversubscribed(world);
  const std::int64_t smallest = 64, largest = std::int64_t{1} << (quick ? 20 : 26);
  LinkTable table;
  for (const int ranks : ringSizes(world.size())) {
    LinkTable::Row row{ranks, {}};
    for (std::int64_t bytes = smallest; bytes <= largest; bytes *= 2)
      row.link.measured.push_back(
          {static_cast<double>(bytes), oversubscribed ? oversubscribedMessage(space, world, ranks, bytes)
                                                      : ringStepSeconds(world, ranks, bytes)});
    smooth(row.link.measured);
    Log::info(fittedLine(ranks, row.link.measured));
    table.rows.push_back(row);
  }
  return table;
}

} // namespace partita
