#pragma once

#include "partita/plan/placement/device_placement.hpp"
#include "partita/plan/schedule/operator_schedule.hpp"

#include <string>

namespace partita {

/// Reads {num_tc, num_vc, ops: [{id, core_type: TC|VC|TCandVC, latency, intra_op_latency}], edges: [[id,
/// id]]}. Other names are ignored. Throws UserError with the place in the file.
ScheduleTask readScheduleTask(const std::string& path);

/// Reads the input of PHAZE's device placement; docs/placement.md lists the names. Other names are ignored.
/// Throws UserError with the place in the file.
PlacementTask readPlacementTask(const std::string& path);

} // namespace partita
