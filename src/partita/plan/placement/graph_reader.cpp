#include "partita/plan/placement/graph_reader.hpp"

#include <algorithm>

namespace partita::detail {

namespace {

constexpr std::int64_t largest_id = std::int64_t{1} << 53;

} // namespace

std::int64_t NodeNames::add(const JsonValue& node) {
  const JsonValue name = node.at("id");
  const std::int64_t id = name.integer(-largest_id, largest_id);
  if (!_positions.emplace(id, static_cast<int>(_ids.size())).second)
    name.fail(std::to_string(id) + " is also the id of element " + std::to_string(_positions.at(id)));
  _ids.push_back(id);
  return id;
}

int NodeNames::find(const JsonValue& name) const {
  const std::int64_t id = name.integer(-largest_id, largest_id);
  const auto found = _positions.find(id);
  if (found == _positions.end()) name.fail("nothing has the id " + std::to_string(id));
  return found->second;
}

void NodeNames::requireNoCycle(const JsonValue& place, const std::vector<std::pair<int, int>>& edges) const {
  std::vector<std::vector<int>> before(_ids.size()), after(_ids.size());
  std::vector<std::size_t> missing(_ids.size());
  for (const auto& [from, to] : edges) {
    after[from].push_back(to);
    before[to].push_back(from);
    ++missing[to];
  }
  std::vector<int> done;
  for (std::size_t i = 0; i < _ids.size(); ++i)
    if (missing[i] == 0) done.push_back(static_cast<int>(i));
  for (std::size_t next = 0; next < done.size(); ++next)
    for (const int to : after[done[next]])
      if (--missing[to] == 0) done.push_back(to);
  if (done.size() == _ids.size()) return;

  // Every remaining node has a remaining predecessor, so walking back ends in a cycle.
  const auto left = [&](int node) { return missing[node] > 0; };
  int node = static_cast<int>(
      std::find_if(missing.begin(), missing.end(), [](std::size_t n) { return n > 0; }) - missing.begin());
  for (std::size_t i = 0; i < _ids.size(); ++i)
    node = *std::find_if(before[node].begin(), before[node].end(), left);
  place.fail("the edges form a cycle through id " + std::to_string(_ids[node]));
}

} // namespace partita::detail
