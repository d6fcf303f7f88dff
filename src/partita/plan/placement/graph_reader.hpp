#pragma once

#include "partita/config/json_value.hpp"

#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

namespace partita::detail {

/// The nodes of a graph in a file, by their ids.
class NodeNames {
 public:
  /// Adds the next node, with the id at /id of `node`.
  std::int64_t add(const JsonValue& node);
  /// The position of the node with this id.
  int find(const JsonValue& name) const;
  /// Requires that no path leads from a node back to it. `edges` are pairs of positions.
  void requireNoCycle(const JsonValue& place, const std::vector<std::pair<int, int>>& edges) const;

 private:
  std::unordered_map<std::int64_t, int> _positions;
  std::vector<std::int64_t> _ids;
};

} // namespace partita::detail
