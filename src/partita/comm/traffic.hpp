#pragma once

#include <cstdint>

namespace partita {

/// Bytes this rank has sent since the start, by purpose.
struct Traffic {
  std::int64_t between_stages = 0;   ///< activations and their gradients while training
  std::int64_t between_replicas = 0; ///< payload this rank put into all-reduces
  std::int64_t evaluation = 0;       ///< activations while evaluating
  std::int64_t between_parts = 0;    ///< what parts of a stage sent each other while training
  std::int64_t part_messages = 0;    ///< number of these messages
};

struct TrafficCounter {
  const char* name; ///< in checkpoints and in `summary.json`
  std::int64_t Traffic::*value;
  bool of_parts = false; ///< checkpoints of earlier versions have no counters of parts
};

/// In the order of `summary.json`.
constexpr TrafficCounter traffic_counters[] = {
    {"bytes_between_stages", &Traffic::between_stages},
    {"bytes_between_replicas", &Traffic::between_replicas},
    {"bytes_between_parts", &Traffic::between_parts, true},
    {"messages_between_parts", &Traffic::part_messages, true},
    {"bytes_evaluation", &Traffic::evaluation},
};

} // namespace partita
