#include "partita/strategy/hogbatch/hogbatch.hpp"

#include "partita/comm/agree.hpp"
#include "partita/core/log.hpp"
#include "partita/plan/hogbatch/deck_mix.hpp"
#include "partita/plan/strategy_plan.hpp"

namespace partita {

bool isSharedWorker(const RunConfig& config, const Grid& grid) {
  return grid.ownsStages() && config.strategy.hogbatch.isShared(static_cast<std::size_t>(grid.replica()));
}

HogbatchTraining::HogbatchTraining(const RunContext& context)
    : _context(context), _mailbox(context.grid.world()), _channel(context.grid.world().duplicate()),
      _evaluator(context, context.length.steps) {
  PARTITA_REQUIRE(context.window != nullptr, "workers without a window");
  const std::int64_t values = context.partition.stages.front().storedValues();
  if (context.window->data() != nullptr)
    _model = std::make_unique<SharedModel>(*context.window, values, context.grid.world().size());
  const std::vector<int> others = ranksOnOtherNodes();
  if (context.grid.ownsStages()) {
    makeWorker();
  } else {
    beginCoordinator(others);
  }
}

/// Workers that cannot access the model themselves. Collective.
std::vector<int> HogbatchTraining::ranksOnOtherNodes() const {
  const Communicator& world = _context.grid.world();
  std::vector<double> elsewhere(static_cast<std::size_t>(world.size()), 0.0);
  elsewhere[static_cast<std::size_t>(world.rank())] = _model == nullptr ? 1.0 : 0.0;
  world.sum(elsewhere);
  std::vector<int> ranks;
  for (int rank = 0; rank < world.size(); ++rank)
    if (elsewhere[static_cast<std::size_t>(rank)] > 0.0) ranks.push_back(rank);
  return ranks;
}

void HogbatchTraining::makeWorker() {
  Stage& stage = _context.stages.front()->stage;
  const bool shared = isSharedWorker(_context.config, _context.grid);
  _access = _model != nullptr ? accessByWindow(_context, *_model, stage, shared)
                              : accessByMessages(_context, _mailbox, _channel, stage);
  const auto worker = static_cast<std::size_t>(_context.grid.replica());
  _worker = std::make_unique<Worker>(_context, _mailbox, *_access,
                                     _context.config.strategy.hogbatch.slowdownOf(worker));
}

void HogbatchTraining::beginCoordinator(const std::vector<int>& others) {
  _coordinator = std::make_unique<Coordinator>(_context, _mailbox, *_model);
  _coordinator->restore(_context.start, _context.control.keptNumbers());
  const std::int64_t version = _coordinator->state().version;
  _model->setVersion(version);
  if (!others.empty()) {
    _server = std::make_unique<ModelServer>(_context, _mailbox, _channel, *_model, others);
    _coordinator->setServer(_server.get());
  }
  if (_context.decisions_file.empty()) return;
  const bool goes_on = _context.meeting != nullptr && _context.meeting->any();
  _log = std::make_unique<DecisionLog>(_context.decisions_file, version, goes_on);
  _coordinator->setLog(_log.get());
}

/// The first worker writes its parameters, which all workers have, into the model. Collective.
void HogbatchTraining::beginModel(const ExecSpace& space) {
  const Communicator& world = _context.grid.world();
  const int giver = _context.grid.plan().first_rank;
  const Lasting<std::vector<Real>> lasting;
  std::vector<Real>& values = *lasting;
  if (world.rank() == giver) values = _context.stages.front()->stage.masters().values(space);
  const bool elsewhere = world.maximum(std::int64_t{world.rank() == giver && _model == nullptr}) > 0;
  if (!elsewhere && world.rank() == giver) _model->write(values.data());
  if (elsewhere && (world.rank() == giver || world.rank() == 0)) {
    Request request;
    if (world.rank() == giver) {
      request
          .send(values.data(), static_cast<std::int64_t>(values.size()), mpiType<Real>(), 0, Tag::model,
                _channel, "first parameters")
          .wait();
    } else {
      values.resize(static_cast<std::size_t>(_model->size()));
      request
          .receive(values.data(), _model->size(), mpiType<Real>(), giver, Tag::model, _channel,
                   "first parameters")
          .wait();
      _model->write(values.data());
    }
  }
  _context.window->synchronise();
  world.barrier();
  _context.window->synchronise();
}

/// A checkpoint has equally many numbers from each rank; those of rank 0 count. Collective.
void HogbatchTraining::keepNumbers() {
  std::vector<double> numbers, count{0.0};
  if (_coordinator != nullptr) numbers = _coordinator->state().numbers();
  count[0] = static_cast<double>(numbers.size());
  _context.grid.world().sum(count);
  numbers.resize(static_cast<std::size_t>(count[0]), 0.0);
  _context.control.keepNumbers(numbers);
}

/// All ranks have come together, and nothing changes the model. Returns whether the run ends here.
bool HogbatchTraining::meet(const ExecSpace& space, const WorkOrder& order) {
  const Position at{RunPhase::training, 0, order.step};
  if (_log != nullptr) {
    try {
      _log->flush();
    } catch (const UserError&) { // has been reported when a row was first written; the rows wait in memory
    }
  }
  if (order.evaluates) _evaluator.afterStep(space, at, 1, 1);
  if (order.evaluates && _coordinator != nullptr) _coordinator->evaluated(order.step, _evaluator.loss());
  if (_context.meeting != nullptr) {
    _context.meeting->evaluates = false;
    if (_coordinator != nullptr) _context.meeting->numbers = _coordinator->state().numbers();
  }
  keepNumbers();
  const bool ends = _context.control.afterStep(space, at, {});
  _context.grid.world().barrier(); // the model must not change before all ranks have copied what they keep
  if (_context.meeting != nullptr) _context.meeting->work = MeetingState::Work::done;
  return ends;
}

/// Keeps what a run with fewer ranks would continue from: nothing changes the model before the end of the
/// meeting.
void HogbatchTraining::keepMeeting(const WorkOrder& order) {
  if (_context.meeting == nullptr) return;
  MeetingState& state = *_context.meeting;
  state.work = MeetingState::Work::begun;
  state.evaluates = order.evaluates;
  state.position = {RunPhase::training, 0, order.step};
  state.times = _context.clock.times();
  state.traffic = _context.grid.traffic;
  if (_coordinator == nullptr) return;
  state.numbers = _coordinator->state().numbers();
  state.workers = _coordinator->reports();
  state.parameters.resize(static_cast<std::size_t>(_model->size()));
  _model->read(state.parameters.data());
}

WorkOrder HogbatchTraining::nextMeeting(const ExecSpace& space) {
  LossWatch* const losses = _context.losses;
  if (_coordinator == nullptr) {
    const WorkOrder order = _worker->workUntilMeeting(space);
    keepMeeting(order);
    return order;
  }
  if (losses != nullptr) losses->hold(true);
  const WorkOrder order =
      _coordinator->workUntilMeeting([this](std::int64_t at) { return _evaluator.due(at); });
  keepMeeting(order);
  if (losses == nullptr) return order;
  losses->hold(false);
  if (losses->lost().empty()) return order;
  _context.meeting->work = MeetingState::Work::due; // the remaining workers have not met yet
  losses->leaveTheLost();
}

/// After the loss of a rank: repeats the meeting that it interrupted. Returns whether the run ends here.
bool HogbatchTraining::meetAgain(const ExecSpace& space) {
  MeetingState* const state = _context.meeting;
  if (state == nullptr || !state->any() || state->work == MeetingState::Work::done) return false;
  if (_coordinator != nullptr) _coordinator->rest();
  state->work = MeetingState::Work::begun;
  WorkOrder order;
  order.kind = WorkOrder::Kind::meet;
  order.step = state->position.step;
  order.evaluates = state->evaluates;
  return meet(space, order);
}

bool HogbatchTraining::run(const ExecSpace& space) {
  beginModel(space);
  if (_context.losses != nullptr) _context.losses->hasStarted();
  _context.clock.start();
  const std::int64_t steps = _context.length.steps;
  if (_coordinator != nullptr && _context.start.step > 0) _coordinator->showWorkers(_context.start.step);
  bool ended = meetAgain(space);
  if (_coordinator != nullptr) _coordinator->resume(_context.start.step);
  for (std::int64_t step = _context.start.step; step < steps && !ended;) {
    const WorkOrder order = nextMeeting(space);
    step = order.step;
    ended = meet(space, order);
    if (_coordinator != nullptr) _coordinator->resume(step);
  }
  _context.clock.stop();
  _mailbox.close();
  if (_log != nullptr) {
    try {
      _log->synchronise();
    } catch (const UserError& failure) { // no reason to lose the model
      Log::warning(failure.what());
    }
  }
  return !ended;
}

} // namespace partita
