#include "partita/strategy/hogbatch/model_server.hpp"

#include <algorithm>

namespace partita {

ModelServer::ModelServer(const RunContext& context, Mailbox& mailbox, const Communicator& channel,
                         const SharedModel& model, const std::vector<int>& ranks)
    : _context(context), _mailbox(mailbox), _channel(channel), _model(model),
      _change(changeOf(context.config, false)), _scale{context.config.strategy.hogbatch.staleness,
                                                       context.config.strategy.hogbatch.staleness_bound} {
  const auto size = static_cast<std::size_t>(model.size());
  for (const int rank : ranks) {
    _clients[rank].gradient.resize(size);
    _clients[rank].parameters.resize(size);
  }
}

void ModelServer::post(int rank, std::vector<Real>& values, Request& request) {
  PARTITA_MPI(
      MPI_Irecv(values.data(), mpiCount(_model.size()), mpiType<Real>(), rank, static_cast<int>(Tag::model),
                _channel.get(),
                request.start({WaitedFor::Kind::message, "result of a worker", _channel.worldRank(rank)})));
}

void ModelServer::begin(int rank, const ModelRequest& request) {
  Client& client = _clients.at(rank);
  client.request = request;
  if (request.kind == ModelRequest::Kind::apply) {
    client.applies = true;
    post(rank, client.gradient, client.first);
    post(rank, client.parameters, client.second);
    return;
  }
  if (client.sent.underWay()) client.sent.wait(); // the worker has received it
  ModelReply reply;
  {
    const SharedModel::Lock lock(_model, _context.config.run.decisions, 0);
    reply.applied.version = _model.read(client.parameters.data());
  }
  PARTITA_MPI(MPI_Isend(
      client.parameters.data(), mpiCount(_model.size()), mpiType<Real>(), rank, static_cast<int>(Tag::model),
      _channel.get(),
      client.sent.start({WaitedFor::Kind::taker, "parameters of the model", _channel.worldRank(rank)})));
  _context.grid.traffic.between_replicas += _model.size() * static_cast<std::int64_t>(sizeof(Real));
  _mailbox.send(rank, Tag::model, reply);
  ++client.reads;
}

/// Changes the model if all values have arrived.
bool ModelServer::finish(int rank, Client& client) {
  client.sent.test();
  const bool first = client.first.test(), second = client.second.test();
  if (!client.applies || !first || !second) return false;
  client.applies = false;
  ModelChange change = _change;
  change.gradient = client.gradient.data();
  change.parameters = client.parameters.data();
  change.rate = client.request.rate;
  change.decay = client.request.decay;
  change.rank = rank;
  change.number = client.request.number;
  ModelReply reply;
  {
    const SharedModel::Lock lock(_model, _context.config.run.decisions, 0);
    reply.applied = _model.apply(change, client.request.version, _scale);
  }
  _mailbox.send(rank, Tag::model, reply);
  return true;
}

bool ModelServer::serve() {
  bool worked = false;
  while (const auto message = _mailbox.take(Tag::model)) {
    begin(message->from, message->as<ModelRequest>());
    worked = true;
  }
  for (auto& [rank, client] : _clients) worked = finish(rank, client) || worked;
  return worked;
}

void ModelServer::serveMeeting() {
  const auto waits = [this] {
    return std::any_of(_clients.begin(), _clients.end(), [](const auto& client) {
      return client.second.reads == 0 || client.second.sent.underWay();
    });
  };
  for (auto& [rank, client] : _clients) client.reads = 0;
  Waiting waiting({WaitedFor::Kind::any, "workers that read the model"});
  while (waits()) {
    _mailbox.poll();
    if (!serve()) waiting.pause();
  }
  waiting.over();
}

} // namespace partita
