#include "partita/plan/search/operator_graph.hpp"

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

/// What an operator is for fusion.
enum class Role { product, element_wise, dropout, activation, mean, other };

Role roleOf(const GraphOperator& op) {
  if (op.taps > 1.0) return Role::other; // pooling
  switch (op.kind) {
  case OperatorKind::product:
    return Role::product;
  case OperatorKind::add:
  case OperatorKind::multiply:
  case OperatorKind::divide:
  case OperatorKind::power:
    return Role::element_wise;
  case OperatorKind::dropout:
    return Role::dropout;
  case OperatorKind::gelu:
  case OperatorKind::exponential:
  case OperatorKind::tanh:
  case OperatorKind::sine:
  case OperatorKind::relu:
  case OperatorKind::norm:
    return Role::activation;
  case OperatorKind::mean:
    return Role::mean;
  case OperatorKind::move:
  case OperatorKind::softmax:
  case OperatorKind::all_reduce:
    break;
  }
  return Role::other;
}

/// May a set that begins with the first operator absorb the second?
bool absorbs(const GraphOperator& first, const GraphOperator& second) {
  const Role role = roleOf(second);
  if (role == Role::element_wise || role == Role::dropout)
    return roleOf(first) == Role::product || roleOf(first) == Role::element_wise;
  return (roleOf(first) == Role::product && role == Role::activation) ||
         (roleOf(first) == Role::element_wise && role == Role::mean);
}

/// The first operator of the set of each operator.
std::vector<int> setsOf(const OperatorGraph& graph, bool fuse) {
  const std::vector<GraphOperator>& operators = graph.operators;
  std::vector<std::set<int>> before(operators.size()), after(operators.size());
  for (const auto& [from, to] : graph.edges) {
    before[to].insert(from);
    after[from].insert(to);
  }
  std::vector<int> set(operators.size());
  std::iota(set.begin(), set.end(), 0);
  for (std::size_t op = 0; fuse && op < set.size(); ++op) {
    if (before[op].size() != 1) continue;
    const int previous = *before[op].begin();
    if (after[previous].size() == 1 && absorbs(operators[set[previous]], operators[op]))
      set[op] = set[previous];
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
