#include "partita/strategy/hogbatch/model_server.hpp"

#include <algorithm>

namespace partita {

ModelServer::ModelServer(const RunContext& context, Mailbox& mailbox, const Communicator& channel,
                         const SharedModel& model, const std::vector<int>& ranks)
    : _context(context), _mailbox(mailbox), _channel(channel), _model(model),
      _change(changeOf(context.config, false)) {
  const auto size = static_cast<std::size_t>(model.size());
  for (const int rank : ranks) {
    Client& client = (*_clients)[rank];
    client.gradient.resize(size);
    client.parameters.resize(size);
  }
}

void ModelServer::post(int rank, std::vector<Real>& values, Request& request) {
  request.receive(values.data(), _model.size(), mpiType<Real>(), rank, Tag::model, _channel,
                  "result of a worker");
}

void ModelServer::begin(int rank, const ModelRequest& request) {
  Client& client = _clients->at(rank);
  if (client.forgotten) return;
  client.request = request;
  if (client.sent.underWay()) client.sent.wait(); // the worker has received it
  if (request.kind == ModelRequest::Kind::apply) {
    client.applies = true;
    post(rank, client.gradient, client.first);
    post(rank, client.parameters, client.second);
    return;
  }
  client.wants_model = true;
}

/// Returns false if there is nothing to send, or another rank holds the lock of the model.
bool ModelServer::sendModel(int rank, Client& client) {
  if (!client.wants_model) return false;
  ModelReply reply;
  {
    const auto lock = SharedModel::Lock::unlessHeld(_model, _context.config.run.decisions);
    if (!lock) return false;
    reply.applied.version = _model.read(client.parameters.data());
  }
  client.wants_model = false;
  client.sent.send(client.parameters.data(), _model.size(), mpiType<Real>(), rank, Tag::model, _channel,
                   "parameters of the model");
  _context.grid.traffic.between_replicas += _model.size() * static_cast<std::int64_t>(sizeof(Real));
  _mailbox.send(rank, Tag::model, reply);
  ++client.reads;
  return true;
}

/// Changes the model if all values have arrived, and no other rank holds its lock.
bool ModelServer::finish(int rank, Client& client) {
  client.sent.test();
  const bool first = client.first.test(), second = client.second.test();
  if (!client.applies || !first || !second) return false;
  const auto lock = SharedModel::Lock::unlessHeld(_model, _context.config.run.decisions);
  if (!lock) return false;
  client.applies = false;
  ModelChange change = _change;
  change.gradient = client.gradient.data();
  change.parameters = client.parameters.data();
  change.rate = client.request.rate;
  change.decay = client.request.decay;
  change.rank = rank;
  change.number = client.request.number;
  ModelReply reply;
  reply.applied = _model.apply(change, client.request.version);
  _mailbox.send(rank, Tag::model, reply);
  return true;
}

void ModelServer::forget(int rank) {
  const auto client = _clients->find(rank);
  if (client != _clients->end()) client->second.forgotten = true; // others use the shared memory
}

bool ModelServer::serve() {
  bool worked = false;
  while (const auto message = _mailbox.take(Tag::model)) {
    begin(message->from, message->as<ModelRequest>());
    worked = true;
  }
  for (auto& [rank, client] : *_clients) {
    if (client.forgotten) continue;
    worked = sendModel(rank, client) || worked;
    worked = finish(rank, client) || worked;
  }
  return worked;
}

void ModelServer::serveMeeting() {
  const auto waits = [this] {
    return std::any_of(_clients->begin(), _clients->end(), [](const auto& client) {
      return client.second.reads == 0 || client.second.sent.underWay();
    });
  };
  for (auto& [rank, client] : *_clients) client.reads = 0;
  Waiting waiting({WaitedFor::Kind::any, "workers that read the model"});
  while (waits()) {
    if (_context.losses != nullptr && !_context.losses->lost().empty()) break; // it would never read
    _mailbox.poll();
    if (!serve()) waiting.pause();
  }
  waiting.over();
}

} // namespace partita
