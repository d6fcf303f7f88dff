#include "partita/plan/schedule/operator_schedule.hpp"

#include <algorithm>
#include <cmath>

namespace partita {

namespace {

std::string nameOf(const Operator& op) {
  return "operator " + std::to_string(op.id);
}

bool validCore(int core, int cores, bool needed) {
  return needed ? core >= 0 && core < cores : core == -1;
}

/// What is wrong with a single operator.
std::string ownFault(const ScheduleTask& task, const Operator& op, const ScheduledOperator& placed,
                     double tolerance) {
  const double duration = placed.all_cores ? op.intra_op_latency : op.latency;
  if (!(placed.start >= 0.0) || !(std::fabs(placed.end - placed.start - duration) <= tolerance))
    return nameOf(op) + " does not take as long as its mode";
  const bool tensor = !placed.all_cores && op.type != CoreType::vector;
  const bool vector = !placed.all_cores && op.type != CoreType::tensor;
  if (!validCore(placed.tensor_core, task.tensor_cores, tensor) ||
      !validCore(placed.vector_core, task.vector_cores, vector))
    return nameOf(op) + " has the wrong cores";
  if (tensor && vector && placed.tensor_core != placed.vector_core)
    return nameOf(op) + " has cores of different numbers";
  return {};
}

/// Do two operators exclude each other in time?
bool compete(const ScheduledOperator& a, const ScheduledOperator& b) {
  return a.all_cores || b.all_cores || (a.tensor_core >= 0 && a.tensor_core == b.tensor_core) ||
         (a.vector_core >= 0 && a.vector_core == b.vector_core);
}

} // namespace

std::string faultOf(const ScheduleTask& task, const OperatorSchedule& schedule) {
  const std::vector<Operator>& ops = task.operators;
  const std::vector<ScheduledOperator>& placed = schedule.operators;
  if (placed.size() != ops.size()) return "not every operator has a place";
  const double tolerance = 1e-9 * schedule.makespan;
  double last = 0.0;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const std::string fault = ownFault(task, ops[i], placed[i], tolerance);
    if (!fault.empty()) return fault;
    last = std::max(last, placed[i].end);
    for (std::size_t j = 0; j < i; ++j)
      if (compete(placed[i], placed[j]) && placed[i].end > placed[j].start && placed[j].end > placed[i].start)
        return nameOf(ops[i]) + " overlaps " + nameOf(ops[j]);
  }
  for (const auto& [from, to] : task.edges)
    if (placed[from].end > placed[to].start)
      return nameOf(ops[to]) + " starts before " + nameOf(ops[from]) + " has ended";
  if (std::fabs(last - schedule.makespan) > tolerance) return "the last operator does not end the schedule";
  if (!(schedule.lower_bound <= schedule.makespan + tolerance)) return "the lower bound exceeds the makespan";
  return {};
}

} // namespace partita
