#pragma once

#include "partita/plan/schedule/operator_schedule.hpp"

#include <chrono>
#include <cstddef>
#include <vector>

namespace partita::detail {

using Deadline = std::chrono::steady_clock::time_point;

/// The shortest schedule of a few operators that start after time 0, by branch and bound. Operators are
/// placed in the order of their starts, each as early as possible. A partial schedule is dropped if another
/// one of the same operators frees everything at least as early, or if its lower bound reaches the makespan
/// of a known schedule. The search goes breadth first with a limited number of partial schedules per level.
/// The limit grows until none is left out or until it reaches `most_width` (0: as many as 512 MiB hold). What
/// was left out bounds the makespan from below.
OperatorSchedule searchComponent(const ScheduleTask& task, Deadline deadline, std::size_t most_width = 0);

} // namespace partita::detail
