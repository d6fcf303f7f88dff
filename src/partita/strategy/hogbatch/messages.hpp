#pragma once

#include "partita/strategy/hogbatch/shared_model.hpp"

namespace partita {

/// From the coordinator to a worker (Tag::order). A message has one or several, which are carried out in
/// turn.
struct WorkOrder {
  enum class Kind {
    train, ///< compute the gradient of a batch, and change the model by it if `applies`
    apply, ///< change the model by the gradient of the last batch
    meet,  ///< all ranks meet after `step`
  };
  Kind kind = Kind::train;
  bool applies = true;     ///< train: at once; otherwise an order to apply may follow
  bool evaluates = false;  ///< meet: at the end of an epoch
  std::int64_t number = 0; ///< train: the batch's number in the run, from 0
  std::int64_t epoch = 0;  ///< train: of the batch, from 0
  std::int64_t first = 0;  ///< train: position of its first sample in the epoch
  std::int64_t count = 0;  ///< train: its samples
  std::int64_t wanted = 0; ///< train: samples that the worker was to get; the epoch may have had fewer
  std::int64_t row = 0;    ///< train: position of its first sample in its step
  std::int64_t total = 0;  ///< train: samples of that step
  double rate = 0.0, decay = 0.0;
  std::int64_t step = 0; ///< meet
};

/// The answer to an order to train or to apply (Tag::result). A message has one or several.
struct WorkResult {
  WorkOrder::Kind kind = WorkOrder::Kind::train;
  bool wants_meeting = false; ///< a signal has reached this rank
  bool failed = false;        ///< train: the loss is not finite; only if failures are tolerated
  bool more = false;          ///< results follow that the worker has sent together with this one
  std::int64_t number = 0;
  std::int64_t read = 0; ///< version of the parameters that the gradient was computed from
  Applied applied;       ///< apply, and train that applies at once
  double seconds = 0.0;  ///< from the beginning to the end of this order
  double waited = 0.0;   ///< s, of these: for rank 0 or for another worker
  double loss = 0.0, correct = 0.0, rows = 0.0; ///< sums over the batch
};

/// From a worker on another node to rank 0 (Tag::model). `apply` is followed by the gradient and the
/// parameters, as messages of their own. `read` is answered by a ModelReply and the parameters.
struct ModelRequest {
  enum class Kind { read, apply };
  Kind kind = Kind::read;
  double rate = 0.0, decay = 0.0;
  std::int64_t version = 0; ///< of the parameters that the gradient was computed from
  std::int64_t number = 0;  ///< of the batch
};
/// The answer; after `read` only the version is set.
struct ModelReply {
  Applied applied;
};

} // namespace partita
