#pragma once

#include "partita/plan/cost/cluster.hpp"

#include <cstdint>
#include <vector>

#include "commands.hpp"
#include "result_file.hpp"

namespace partita {

/// Does `partita plan predict` describe the workers of the deck, which are not in step, instead of comparing
/// strategies?
bool predictsWorkers(const PredictArguments& arguments);
/// The forecast of a deck whose workers train at their own pace, for each number of ranks that it can use.
/// Throws UserError if it can use none of them.
void predictWorkers(const PredictArguments& arguments, const std::vector<std::int64_t>& ranks,
                    const Cluster& cluster, ResultFile& file);

} // namespace partita
