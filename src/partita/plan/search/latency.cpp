#include "partita/plan/search/latency.hpp"

#include <algorithm>
#include <cmath>
#include <set>

namespace partita {

namespace {

constexpr double division = 10.0; ///< cycles

/// Cycles per value and lane of an element-wise operator.
struct Cost {
  double forward, backward;
};

Cost costOf(OperatorKind kind) {
  switch (kind) {
  case OperatorKind::move:
  case OperatorKind::add:
  case OperatorKind::multiply:
  case OperatorKind::relu:
  case OperatorKind::norm:
  case OperatorKind::mean:
    return {1.0, 1.0};
  case OperatorKind::dropout:
    return {2.0, 1.0}; // the backward pass applies a mask
  case OperatorKind::divide:
    return {division, division};
  case OperatorKind::softmax:
    return {10.0, 2.0};
  case OperatorKind::exponential:
    return {12.0, 2.0}; // the derivative follows from the output, as for tanh
  case OperatorKind::sine:
    return {13.0, 2.0};
  case OperatorKind::power:
  case OperatorKind::gelu:
    return {15.0, 16.0};
  case OperatorKind::tanh:
    return {27.0, 2.0};
  case OperatorKind::product:
  case OperatorKind::all_reduce:
    break;
  }
  return {0.0, 0.0};
}

} // namespace

double LatencyEstimator::cyclesOf(const GraphOperator& product, bool all_cores) {
  if (_options.peak)
    return product.batch * product.rows * product.inner * product.columns /
           (static_cast<double>(_accelerator.width) * _accelerator.depth *
            (all_cores ? _accelerator.tensor_cores : 1));
  const Shape shape{product.batch, product.rows, product.inner, product.columns, all_cores};
  const auto known = _products.find(shape);
  if (known != _products.end()) return known->second;
  return _products[shape] = productCycles(_accelerator, product, all_cores, _options.bytes_per_value);
}

double LatencyEstimator::vectorCycles(const GraphOperator& op, Direction pass, bool all_cores) const {
  if (op.kind == OperatorKind::move && !_options.moves) return 0.0;
  const double lanes =
      static_cast<double>(_accelerator.vector_width) * (all_cores ? _accelerator.vector_cores : 1);
  const Cost cost = costOf(op.kind);
  const double steps = std::ceil(op.elements * op.taps / lanes), row_steps = std::ceil(op.row / lanes);
  if (pass == Direction::backward) return (steps + std::ceil(op.second / lanes)) * cost.backward;
  if (op.kind == OperatorKind::mean) return op.elements * (row_steps + division);
  const double sums = op.kind == OperatorKind::softmax ? op.elements / op.row * row_steps + division : 0.0;
  return steps * cost.forward + sums;
}

double LatencyEstimator::seconds(const GraphOperator& op, Direction pass, bool all_cores) {
  if (op.kind == OperatorKind::all_reduce) {
    if (op.backward_only != (pass == Direction::backward)) return 0.0;
    return 2.0 * (_degree - 1.0) / _degree * _options.bytes_per_value * op.values / _bandwidth;
  }
  if (op.kind != OperatorKind::product) return vectorCycles(op, pass, all_cores) / _options.frequency;
  if (pass == Direction::forward) return cyclesOf(op, all_cores) / _options.frequency;
  GraphOperator input = op, weight = op; // products for the gradients of the operands
  std::swap(input.inner, input.columns);
  std::swap(weight.rows, weight.inner);
  const double cycles =
      cyclesOf(input, all_cores) + (_options.weight_gradients ? cyclesOf(weight, all_cores) : 0.0);
  return cycles / _options.frequency;
}

Operator LatencyEstimator::fusedOperator(const OperatorGraph& graph, const std::vector<int>& members,
                                         Direction pass) {
  Operator fused;
  const auto is_product = [&](int op) { return graph.operators[op].kind == OperatorKind::product; };
  const bool product = std::any_of(members.begin(), members.end(), is_product);
  const bool vector = !std::all_of(members.begin(), members.end(), is_product);
  fused.type = product && vector ? CoreType::both : product ? CoreType::tensor : CoreType::vector;
  bool counted = false;
  for (const int op : members) {
    if (product && !is_product(op) && counted && !_options.each_fused) continue;
    counted = counted || !is_product(op);
    fused.latency += seconds(graph.operators[op], pass, false);
    fused.intra_op_latency += seconds(graph.operators[op], pass, true);
  }
  return fused;
}

ScheduleTask LatencyEstimator::task(const OperatorGraph& graph, Direction pass) {
  const FusedGraph fused = fusedGraph(graph, _options.fuse);
  const std::size_t count = fused.members.size();
  std::vector<Operator> operators;
  for (const std::vector<int>& members : fused.members)
    operators.push_back(fusedOperator(graph, members, pass));
  std::vector<std::set<int>> before(count);
  for (const auto& [from, to] : fused.edges) before[to].insert(from);
  ScheduleTask task;
  task.tensor_cores = _accelerator.tensor_cores;
  task.vector_cores = _accelerator.vector_cores;
  std::vector<int> place(count, -1);
  for (std::size_t i = 0; i < count; ++i) {
    if (operators[i].latency == 0.0 && operators[i].intra_op_latency == 0.0) {
      for (std::size_t later = i + 1; later < count; ++later)
        if (before[later].erase(static_cast<int>(i)) > 0)
          before[later].insert(before[i].begin(), before[i].end());
      continue;
    }
    place[i] = static_cast<int>(task.operators.size());
    operators[i].id = static_cast<std::int64_t>(i);
    task.operators.push_back(operators[i]);
    for (const int from : before[i]) {
      const std::pair<int, int> edge{place[from], place[i]};
      task.edges.push_back(pass == Direction::forward ? edge : std::pair<int, int>{edge.second, edge.first});
    }
  }
  return task;
}

} // namespace partita
