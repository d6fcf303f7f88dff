#pragma once

#include "partita/config/names.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace partita {

/// The cores that an operator needs: one tensor core, one vector core, or (fused operators) one of each with
/// the same number.
enum class CoreType { tensor, vector, both };

/// An operator of a layer. It takes `latency` on one core of its type, and `intra_op_latency` on all cores of
/// the accelerator, while no other operator runs. Times have any unit, and are finite and not negative.
struct Operator {
  std::int64_t id = 0;
  CoreType type = CoreType::tensor;
  double latency = 0.0, intra_op_latency = 0.0;
};

/// Operators of a layer to schedule on one accelerator. Edges are pairs of positions in `operators`: the
/// second starts after the first has ended. The graph has no cycles.
struct ScheduleTask {
  int tensor_cores = 1, vector_cores = 1;
  std::vector<Operator> operators;
  std::vector<std::pair<int, int>> edges;
};

/// When and where an operator runs. Core numbers are -1 for cores that it does not need, and for operators on
/// all cores.
struct ScheduledOperator {
  double start = 0.0, end = 0.0;
  bool all_cores = false;
  int tensor_core = -1, vector_core = -1;
};

/// A schedule, with operators in the order of the task. No schedule is shorter than `lower_bound`.
struct OperatorSchedule {
  std::vector<ScheduledOperator> operators;
  double makespan = 0.0, lower_bound = 0.0;

  /// (makespan - lower_bound) / makespan; 0 for an optimal schedule.
  double gap() const { return makespan > lower_bound ? (makespan - lower_bound) / makespan : 0.0; }
};

/// The engine that computes schedules: the branch and bound of this library, or a solver of integer programs
/// that was found when the program was built.
enum class ScheduleEngine { built_in, highs, cbc };

template <>
const std::vector<std::string>& namesOf<ScheduleEngine>(); ///< as the command line spells them

/// The version of an engine; empty if this build does not have it.
std::string engineVersion(ScheduleEngine engine);

class ScheduleCache;

struct ScheduleOptions {
  ScheduleEngine engine = ScheduleEngine::built_in;
  double seconds = std::numeric_limits<double>::infinity(); ///< for all components together
  std::size_t width = 0;          ///< built-in: most partial schedules per level; 0: as many as memory allows
  ScheduleCache* cache = nullptr; ///< schedules of earlier calls; new ones are added
};

/// The schedule that minimises the makespan over modes, starts and cores (the integer program of PHAZE, ICML
/// 2024, with all its constraints on cores). The result is exact, up to the tolerance of a solver, unless a
/// limit ends the search. Then it is the best schedule found, with the bound proven so far. With a time limit
/// it depends on the machine; with a width limit it does not. Throws UserError if this build does not have
/// the engine.
OperatorSchedule scheduleOperators(const ScheduleTask& task, const ScheduleOptions& options = {});

/// The fault of a schedule: an operator starts before a predecessor has ended, overlaps another on the same
/// core or an operator on all cores, or has wrong cores or a wrong duration; or the makespan is wrong. Empty
/// if the schedule is valid. Durations and ends may differ by 1e-9 of the makespan.
std::string faultOf(const ScheduleTask& task, const OperatorSchedule& schedule);

} // namespace partita
