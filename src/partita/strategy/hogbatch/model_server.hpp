#pragma once

#include "partita/comm/lasting.hpp"
#include "partita/strategy/hogbatch/model_access.hpp"

#include <map>

namespace partita {

/// Rank 0's side of `accessByMessages`: reads and changes the model for workers on other nodes, without ever
/// waiting for one of them.
class ModelServer {
 public:
  /// `ranks`: the workers on other nodes. The references must outlive the object.
  ModelServer(const RunContext& context, Mailbox& mailbox, const Communicator& channel,
              const SharedModel& model, const std::vector<int>& ranks);

  /// Ignores a worker, if it is one of them, from now on. What it has not changed yet stays unchanged.
  void forget(int rank);

  /// Makes what progress it can now. Returns whether there was any.
  bool serve();
  /// Serves until each worker has read the model once more, and all messages have arrived, or a rank is lost.
  void serveMeeting();

 private:
  struct Client {
    std::vector<Real> gradient, parameters;
    ModelRequest request;
    bool applies = false, wants_model = false, forgotten = false;
    std::int64_t reads = 0;
    Request first, second; ///< gradient and parameters of the worker
    Request sent;          ///< the model
  };

  void begin(int rank, const ModelRequest& request);
  bool sendModel(int rank, Client& client);
  bool finish(int rank, Client& client);
  void post(int rank, std::vector<Real>& values, Request& request);

  const RunContext& _context;
  Mailbox& _mailbox;
  const Communicator& _channel;
  const SharedModel& _model;
  ModelChange _change;
  Lasting<std::map<int, Client>> _clients; ///< by rank
};

} // namespace partita
