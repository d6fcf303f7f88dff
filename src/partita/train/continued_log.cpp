#include "partita/train/continued_log.hpp"

#include "partita/config/deck.hpp"
#include "partita/config/files.hpp"
#include "partita/config/user_error.hpp"
#include "partita/plan/hogbatch/deck_mix.hpp"
#include "partita/strategy/hogbatch/decisions.hpp"
#include "partita/strategy/hogbatch/run_state.hpp"

#include <algorithm>

namespace partita {

void checkContinuedLog(const RunConfig& config, const RunDirectory& directory, const Restart& restart,
                       bool same_course, int replicas) {
  const std::string log = directory.file("decisions.csv");
  if (!restart.found || !directory.owns(restart.file) || !regularFileExists(log))
    throw UserError("run/decisions: the log must begin with the run, but this run continues from " +
                    restart.file + " without its log; set run/decisions=false");
  if (!same_course)
    throw UserError("run/decisions: the log cannot continue, because with this deck the run goes back from "
                    "the step of " +
                    restart.file + " or begins again; set run/decisions=false");
  const auto state = HogbatchState::from(restart.found->numbers, workerGroups(config, replicas).size(),
                                         static_cast<std::size_t>(replicas));
  if (!state)
    throw UserError("run/decisions: the log cannot continue with other workers or after another strategy; "
                    "continue with run/decisions=false, or with the workers of the checkpoint");
  if (!changeAlike(parseDeck(restart.opened->facts().deck, restart.file), config))
    throw UserError("run/decisions: the log cannot continue with another strategy/merge or strategy/update, "
                    "since it records neither; set run/decisions=false");
  const std::vector<Decision> decisions = readDecisions(log);
  const std::int64_t found = std::count_if(decisions.begin(), decisions.end(), [&](const Decision& one) {
    return one.applied >= 0 && one.applied < state->version;
  });
  if (found != state->version)
    throw UserError("run/decisions: the log has " + std::to_string(found) + " of the " +
                    std::to_string(state->version) + " updates before " + restart.file +
                    "; set run/decisions=false");
}

} // namespace partita
