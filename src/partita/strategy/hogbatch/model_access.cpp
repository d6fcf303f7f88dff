#include "partita/strategy/hogbatch/model_access.hpp"

#include "partita/comm/lasting.hpp"
#include "partita/core/region.hpp"

namespace partita {

namespace {

/// Parameters and gradients of a stage where the host can read and write them. Their memory lives as long as
/// this object.
class StageOnHost {
 public:
  explicit StageOnHost(Stage& stage)
      : _stage(stage), _parameters(Kokkos::create_mirror_view(PinnedSpace(), stage.parameters())),
        _gradients(Kokkos::create_mirror_view(PinnedSpace(), stage.gradients())) {}

  std::int64_t size() const { return _stage.masters().size(); }
  Real* parameters() const { return _parameters.data(); }
  Real* gradients() const { return _gradients.data(); }

  /// Copies `parameters`, which the host has written, to the stage.
  void load(const ExecSpace& space) const {
    if (device_is_host) return;
    Kokkos::deep_copy(space, _stage.parameters(), _parameters);
    fence(space, "partita::StageOnHost::load");
  }
  /// Copies the stage's gradients to `gradients` for the host.
  void store(const ExecSpace& space) const {
    if (!device_is_host) Kokkos::deep_copy(space, _gradients, _stage.gradients());
    fence(space, "partita::StageOnHost::store");
  }

 private:
  Stage& _stage;
  PinnedVector _parameters, _gradients; ///< those of the stage if the device is the host
};

class WindowAccess final : public ModelAccess {
 public:
  WindowAccess(const RunContext& context, const SharedModel& model, Stage& stage, bool shared)
      : _model(model), _stage(stage), _in_place(_stage.parameters() == model.values()),
        _locks(context.config.run.decisions), _change(changeOf(context.config, shared)) {
    _change.rank = context.grid.world().rank();
  }

  std::int64_t read(const ExecSpace& space) override {
    if (_in_place) return _model.version();
    const Region region(space, "partita::WindowAccess::read", Phase::communication);
    std::int64_t version = 0;
    {
      const SharedModel::Lock lock(_model, _locks, _change.rank);
      version = _model.read(_stage.parameters());
    }
    _stage.load(space);
    return version;
  }

  Applied apply(const ExecSpace& space, const WorkOrder& order, std::int64_t read) override {
    const Region region(space, "partita::WindowAccess::apply", Phase::optimiser);
    _stage.store(space);
    _change.gradient = _stage.gradients();
    _change.parameters = _in_place ? nullptr : _stage.parameters();
    _change.rate = order.rate;
    _change.decay = order.decay;
    _change.number = order.number;
    const SharedModel::Lock lock(_model, _locks, _change.rank);
    return _model.apply(_change, read);
  }

 private:
  const SharedModel& _model;
  StageOnHost _stage;
  bool _in_place, _locks;
  ModelChange _change;
};

class MessageAccess final : public ModelAccess {
 public:
  MessageAccess(const RunContext& context, Mailbox& mailbox, const Communicator& channel, Stage& stage)
      : _context(context), _mailbox(mailbox), _channel(channel), _stage(StageOnHost(stage)) {}

  std::int64_t read(const ExecSpace& space) override {
    const Region region(space, "partita::MessageAccess::read", Phase::communication);
    Request values;
    values.receive(_stage->parameters(), _stage->size(), mpiType<Real>(), 0, Tag::model, _channel,
                   "parameters of the model");
    _mailbox.send(0, Tag::model, ModelRequest{});
    values.wait();
    const auto reply = _mailbox.waitAny({Tag::model}, "version of the model").as<ModelReply>();
    _stage->load(space);
    return reply.applied.version;
  }

  Applied apply(const ExecSpace& space, const WorkOrder& order, std::int64_t read) override {
    const Region region(space, "partita::MessageAccess::apply", Phase::communication);
    _stage->store(space);
    _mailbox.send(0, Tag::model,
                  ModelRequest{ModelRequest::Kind::apply, order.rate, order.decay, read, order.number});
    Request gradients, parameters;
    send(_stage->gradients(), gradients);
    send(_stage->parameters(), parameters);
    gradients.wait();
    parameters.wait();
    return _mailbox.waitAny({Tag::model}, "changed model").as<ModelReply>().applied;
  }

 private:
  void send(const Real* values, Request& request) {
    request.send(values, _stage->size(), mpiType<Real>(), 0, Tag::model, _channel, "result of a worker");
    _context.grid.traffic.between_replicas += _stage->size() * static_cast<std::int64_t>(sizeof(Real));
  }

  const RunContext& _context;
  Mailbox& _mailbox;
  const Communicator& _channel;
  Lasting<StageOnHost> _stage; ///< messages may be under way when the loss of a rank ends the training
};

} // namespace

ModelChange changeOf(const RunConfig& config, bool shared) {
  const HogbatchSection& section = config.strategy.hogbatch;
  ModelChange change;
  change.merge = shared ? ReplicaMerge::delta : section.merge;
  change.update = section.update;
  change.staleness = {section.staleness, section.staleness_bound};
  return change;
}

std::unique_ptr<ModelAccess> accessByWindow(const RunContext& context, const SharedModel& model, Stage& stage,
                                            bool shared) {
  return std::make_unique<WindowAccess>(context, model, stage, shared);
}

std::unique_ptr<ModelAccess> accessByMessages(const RunContext& context, Mailbox& mailbox,
                                              const Communicator& channel, Stage& stage) {
  return std::make_unique<MessageAccess>(context, mailbox, channel, stage);
}

} // namespace partita
