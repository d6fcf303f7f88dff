#pragma once

#include "partita/comm/mailbox.hpp"
#include "partita/strategy/hogbatch/messages.hpp"
#include "partita/strategy/run_context.hpp"

namespace partita {

/// Access of a worker to the model. A worker has at most one result at a time.
class ModelAccess {
 public:
  virtual ~ModelAccess() = default;
  /// Updates the parameters of the worker's stage and returns the version of the model.
  virtual std::int64_t read(const ExecSpace& space) = 0;
  /// Changes the model as the order says, by the stage's gradient, which was computed from version `read`.
  virtual Applied apply(const ExecSpace& space, const WorkOrder& order, std::int64_t read) = 0;
};

/// How a worker changes the model, without gradient and rate. `shared`: changes are added, whatever
/// strategy/merge says.
ModelChange changeOf(const RunConfig& config, bool shared);

/// For a worker on the model's node, whose stage is in the shared memory or has a copy. The references must
/// outlive the object.
std::unique_ptr<ModelAccess> accessByWindow(const RunContext& context, const SharedModel& model, Stage& stage,
                                            bool shared);

/// For a worker on another node: rank 0 reads and changes the model on its behalf, see ModelServer.
/// `channel`: a communicator of all ranks for parameters and gradients.
std::unique_ptr<ModelAccess> accessByMessages(const RunContext& context, Mailbox& mailbox,
                                              const Communicator& channel, Stage& stage);

} // namespace partita
