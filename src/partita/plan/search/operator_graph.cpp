#include "partita/plan/search/operator_graph.hpp"

#include <algorithm>
#include <numeric>
#include <set>

namespace partita {

GraphOperator GraphOperator::product(const std::string& name, double batch, double rows, double inner,
                                     double columns) {
  GraphOperator op = vector(name, OperatorKind::product, batch * rows * columns);
  op.batch = batch;
  op.rows = rows;
  op.inner = inner;
  op.columns = columns;
  return op;
}

GraphOperator GraphOperator::vector(const std::string& name, OperatorKind kind, double elements) {
  GraphOperator op;
  op.name = name;
  op.kind = kind;
  op.elements = elements;
  return op;
}

int GraphLayer::add(GraphOperator op, const std::vector<int>& inputs) {
  const int position = static_cast<int>(graph.operators.size());
  activations += op.elements + op.values;
  graph.operators.push_back(std::move(op));
  for (const int input : inputs)
    if (input >= 0) graph.edges.emplace_back(input, position);
  return position;
}

double GraphLayer::macs() const {
  double sum = 0.0;
  for (const GraphOperator& op : graph.operators) sum += op.batch * op.rows * op.inner * op.columns;
  return sum;
}

namespace {

/// Sums over devices are not fused: they run beside other operators.
bool fusible(const GraphOperator& op) {
  return op.kind != OperatorKind::all_reduce;
}

/// The set of each operator, named by its last member, the only one with successors outside.
std::vector<int> setsOf(const OperatorGraph& graph, bool fuse) {
  const int count = static_cast<int>(graph.operators.size());
  std::vector<int> set(count);
  std::iota(set.begin(), set.end(), 0);
  const auto successors = [&](int name) {
    std::set<int> found;
    for (const auto& [from, to] : graph.edges)
      if (set[from] == name && set[to] != name) found.insert(set[to]);
    return found;
  };
  const auto has_product = [&](int name) {
    bool found = false;
    for (int op = 0; op < count; ++op)
      found = found || (set[op] == name && graph.operators[op].kind == OperatorKind::product);
    return found;
  };
  const auto absorbs = [&](int first, int second) {
    return fusible(graph.operators[first]) && fusible(graph.operators[second]) && !has_product(second);
  };
  for (bool changed = fuse; changed;) {
    changed = false;
    for (int first = 0; first < count; ++first) {
      if (set[first] != first) continue;
      const std::set<int> next = successors(first);
      if (next.size() != 1 || !absorbs(first, *next.begin())) continue;
      const int second = *next.begin();
      std::replace(set.begin(), set.end(), first, second);
      changed = true;
    }
  }
  return set;
}

} // namespace

FusedGraph fusedGraph(const OperatorGraph& graph, bool fuse) {
  const int count = static_cast<int>(graph.operators.size());
  const std::vector<int> set = setsOf(graph, fuse);
  FusedGraph fused;
  std::vector<int> place(count, -1);
  for (int name = 0; name < count; ++name) {
    if (set[name] != name) continue;
    place[name] = static_cast<int>(fused.members.size());
    fused.members.emplace_back();
    for (int op = 0; op < count; ++op)
      if (set[op] == name) fused.members.back().push_back(op);
  }
  std::set<std::pair<int, int>> edges;
  for (const auto& [from, to] : graph.edges)
    if (set[from] != set[to]) edges.emplace(place[set[from]], place[set[to]]);
  fused.edges.assign(edges.begin(), edges.end());
  return fused;
}

} // namespace partita
