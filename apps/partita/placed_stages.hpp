#pragma once

#include "partita/io/json.hpp"
#include "partita/plan/placement/device_placement.hpp"

#include <string>
#include <vector>

namespace partita {

/// The stages of a plan from the first: ids of layers and devices and, if the task has nodes or options,
/// whether a stage opens a node and what it chooses.
std::vector<JsonObject> stageObjects(const PlacementTask& task, const DevicePlan& plan);

/// The same as a table, one line per stage.
std::vector<std::string> stageLines(const PlacementTask& task, const DevicePlan& plan);

} // namespace partita
