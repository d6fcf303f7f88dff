#include "partita/plan/cost/collectives.hpp"

#include <algorithm>
#include <cmath>

namespace partita {

double Link::seconds(double bytes) const {
  if (measured.empty()) return latency + bytes * seconds_per_byte;
  if (bytes <= measured.front().bytes) return measured.front().seconds;
  const Point& last = measured.back();
  if (bytes >= last.bytes) return last.seconds * bytes / last.bytes;
  const auto above = std::upper_bound(measured.begin(), measured.end(), bytes,
                                      [](double size, const Point& point) { return size < point.bytes; });
  const Point &a = *(above - 1), &b = *above;
  const double part = std::log(bytes / a.bytes) / std::log(b.bytes / a.bytes);
  return a.seconds * std::pow(b.seconds / a.seconds, part);
}

double Link::seconds(const Messages& messages, double flows) const {
  return messages.count == 0.0 ? 0.0 : messages.count * seconds(messages.bytes * flows);
}

namespace {

/// `rounds` rounds of ranks - 1 messages, each with the part of one rank.
Messages ring(std::int64_t ranks, double rounds, double part) {
  return {rounds * static_cast<double>(ranks - 1), part};
}

double treeDepth(std::int64_t ranks) {
  double depth = 0.0;
  for (std::int64_t reached = 1; reached < ranks; reached *= 2) ++depth;
  return depth;
}

} // namespace

Messages pointToPoint(double bytes) {
  return {1.0, bytes};
}

Messages ringAllReduce(std::int64_t ranks, double bytes) {
  return ring(ranks, 2.0, bytes / static_cast<double>(ranks));
}

bool usesRing(std::int64_t ranks, double bytes) {
  constexpr double shortest_message = 8192.0; // about the bytes that a link carries during one latency
  return bytes >= shortest_message * static_cast<double>(ranks);
}

Messages allReduce(std::int64_t ranks, double bytes) {
  return usesRing(ranks, bytes) ? ringAllReduce(ranks, bytes) : treeAllReduce(ranks, bytes);
}

Messages ringAllGather(std::int64_t ranks, double bytes_per_rank) {
  return ring(ranks, 1.0, bytes_per_rank);
}

Messages treeAllReduce(std::int64_t ranks, double bytes) {
  return {2.0 * treeDepth(ranks), bytes};
}

} // namespace partita
