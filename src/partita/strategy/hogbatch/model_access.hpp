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
  /// Changes the model by the gradients of the stage, computed from version `read`, as the order says.
  virtual Applied apply(const ExecSpace& space, const WorkOrder& order, std::int64_t read) = 0;
};

/// The changes of a worker, without its gradient and rate. `shared`: they are added, whatever strategy/merge
/// says.
ModelChange changeOf(const RunConfig& config, bool shared);

/// For a worker on the node of the model, whose stage lies in the shared memory or has a copy. The references
/// must outlive the object.
std::unique_ptr<ModelAccess> accessByWindow(const RunContext& context, const SharedModel& model, Stage& stage,
                                            bool shared);

/// For a worker on another node: rank 0 copies the model and changes it, see ModelServer. `channel`: a
/// communicator of all ranks for the values.
std::unique_ptr<ModelAccess> accessByMessages(const RunContext& context, Mailbox& mailbox,
                                              const Communicator& channel, Stage& stage);

} // namespace partita
