#pragma once

#include "partita/config/run_config.hpp"
#include "partita/train/restart.hpp"
#include "partita/train/run_directory.hpp"

namespace partita {

/// Throws UserError unless the log of decisions in the directory goes on where the run continues: it must
/// have all updates before the checkpoint, and the same workers. Changes nothing. `same_course`: the run
/// takes over all steps before the checkpoint. `config` is the effective deck.
void checkContinuedLog(const RunConfig& config, const RunDirectory& directory, const Restart& restart,
                       bool same_course, int replicas);

} // namespace partita
