#include "partita/strategy/pipeline/engine.hpp"

#include "partita/comm/wait_times.hpp"
#include "partita/core/error.hpp"
#include "partita/core/region.hpp"
#include "partita/plan/run_length.hpp"

#include <algorithm>
#include <utility>

namespace partita {

PipelineEngine::PipelineEngine(Grid& grid, const StrategySection& strategy, std::int64_t microbatches,
                               const Sizes& sizes, std::int64_t batches, PipelineWork& work)
    : _rule(strategy, grid.group(), grid.plan().groups, microbatches), _microbatches(microbatches),
      _first_stage(grid.firstStage()), _work(work) {
  const int group = grid.group(), groups = grid.plan().groups;
  const std::int64_t messages = batches * microbatches;
  std::int64_t& bytes = grid.traffic.between_stages;
  const auto forwards = [&](int peer, Precision stored) {
    return grid.channel(grid.chain(), peer, Tag::forward, waits::activations, stored);
  };
  const auto backwards = [&](int peer, Precision stored) {
    return grid.channel(grid.backward(), peer, Tag::backward, waits::activation_gradients, stored);
  };
  if (group > 0) {
    const std::int64_t before = liveWindow(strategy, group - 1, groups, microbatches);
    _from_previous = std::make_unique<Receiver>(forwards(group - 1, sizes.stored_in), sizes.rows, sizes.in,
                                                _rule.window() + 1, messages, _rule.window());
    _back =
        std::make_unique<Sender>(backwards(group - 1, sizes.stored_in), sizes.rows, sizes.in, before, bytes);
  }
  if (group + 1 < groups) {
    _onward = std::make_unique<Sender>(forwards(group + 1, sizes.stored_out), sizes.rows, sizes.out,
                                       _rule.window(), bytes);
    _from_next = std::make_unique<Receiver>(backwards(group + 1, sizes.stored_out), sizes.rows, sizes.out, 2,
                                            messages);
  }
}

void PipelineEngine::runBatch(const ExecSpace& space) {
  _progress = {};
  while (_progress.backwards < _microbatches) {
    alive();
    const PassKind operation = waitForNext(space);
    delayAtRandom();
    if (operation == PassKind::forward) {
      forward(space);
    } else {
      backward(space);
    }
    std::swap(_last, _before);
    _last.set(space);
  }
  for (const Sender* const sender : {_onward.get(), _back.get()})
    while (sender != nullptr && !sender->allSent()) pollBriefly();
}

void PipelineEngine::finish() {
  for (Sender* const sender : {_onward.get(), _back.get()})
    if (sender != nullptr) sender->finish();
}

/// At most one operation queues behind the one that runs, and the rank waits for others only once its device
/// has nothing to do.
PassKind PipelineEngine::waitForNext(const ExecSpace& space) {
  const Region region(space, "partita::PipelineEngine::next", Phase::communication);
  PassKind operation = next();
  while (!_before.reached() || (operation == PassKind::none && !_last.reached())) {
    pollBriefly();
    operation = next();
  }
  if (operation != PassKind::none) return operation;
  Waiting waiting(awaited());
  while ((operation = next()) == PassKind::none) waiting.pause();
  waiting.over();
  return operation;
}

/// Tests what has arrived and asks the rule.
PassKind PipelineEngine::next() {
  ++_looks;
  const bool forward_here = _from_previous != nullptr ? _from_previous->ready() : _rule.mayForward(_progress);
  if (_arrivals.forward < 0 && forward_here) _arrivals.forward = _looks;
  if (_arrivals.backward < 0 && _from_next != nullptr && _from_next->ready()) _arrivals.backward = _looks;
  return _rule.choose(_progress, _arrivals);
}

WaitedFor PipelineEngine::awaited() const {
  const bool forward = _rule.mayForward(_progress), backward = _rule.mayBackward(_progress);
  PARTITA_REQUIRE(forward || backward, "the schedule waits for nothing");
  WaitedFor what;
  if (!backward)
    what = _from_previous->awaited();
  else if (!forward)
    what = _from_next->awaited();
  else
    what = WaitedFor::either(_from_previous->awaited(), _from_next->awaited());
  what.stage = _first_stage + 1;
  what.live = _progress.live();
  return what;
}

void PipelineEngine::forward(const ExecSpace& space) {
  const std::int64_t number = _progress.forwards;
  PARTITA_REQUIRE(_progress.live() < _rule.window(), "more live activations than buffers");
  const TypedMatrix in =
      _from_previous != nullptr ? _from_previous->take(space, _work.rows(number)) : TypedMatrix();
  TypedMatrix out;
  {
    const ScheduleTrace::Span span(_trace, space, "F", number);
    out = _work.forward(space, number, in);
  }
  ++_progress.forwards;
  _arrivals.forward = -1;
  _most_live = std::max(_most_live, _progress.live());
  if (_onward != nullptr) {
    _onward->send(space, out);
  } else {
    backward(space); // the loss is computed here, so there is nothing to wait for
  }
}

void PipelineEngine::backward(const ExecSpace& space) {
  const std::int64_t number = _progress.backwards;
  const TypedMatrix gradient =
      _from_next != nullptr ? _from_next->take(space, _work.rows(number)) : TypedMatrix();
  TypedMatrix before;
  {
    const ScheduleTrace::Span span(_trace, space, "B", number);
    before = _work.backward(space, number, gradient);
  }
  ++_progress.backwards;
  _arrivals.backward = -1;
  if (_back != nullptr) _back->send(space, before);
  if (_from_next != nullptr) _from_next->release(space);
  if (_from_previous != nullptr) _from_previous->release(space);
}

} // namespace partita
