#include "partita/train/checkpointer.hpp"

#include "partita/comm/loss_watch.hpp"
#include "partita/config/text.hpp"
#include "partita/core/clock.hpp"
#include "partita/core/log.hpp"
#include "partita/core/region.hpp"
#include "partita/plan/strategy_plan.hpp"
#include "partita/strategy/divergence.hpp"
#include "partita/train/write_watch.hpp"

#include <algorithm>
#include <filesystem>
#include <thread>
#include <utility>

namespace partita {

namespace {

/// A new checkpoint takes the place of at most one. There are more only if the run continues with a smaller
/// `checkpoint/keep`.
void reportRemoved(const std::vector<std::string>& removed, std::int64_t keep) {
  if (removed.size() < 2) return;
  const auto name = [](const std::string& path) { return std::filesystem::path(path).filename().string(); };
  Log::info(std::to_string(removed.size()) + " older checkpoints were removed, " + name(removed.back()) +
            " to " + name(removed.front()) + " (checkpoint/keep = " + std::to_string(keep) + ")");
}

} // namespace

Checkpointer::Checkpointer(CheckpointedRun run, std::shared_ptr<OwnCheckpoints> own, bool background)
    : _run(std::move(run)), _comm(std::make_shared<const Communicator>(_run.grid.world().duplicate())),
      _snapshot(_run, background && _run.directory.exists() && !planOf(_run.config.strategy).atOwnPace()),
      _represents(_run.grid.replica() == 0 ||
                  planOf(_run.config.strategy).replicasDiffer(_run.config.strategy)),
      _own(std::move(own)), _thread(background && _run.directory.exists()), _hook([this] { poll(); }) {
  _largest_anywhere = _comm->maximum(static_cast<std::int64_t>(_snapshot.size()));
  _everywhere = _comm->total(_represents ? static_cast<std::int64_t>(_snapshot.size()) : 0);
  if (_run.directory.exists() && _run.config.checkpoint.every > 0) _snapshot.allocate();
}

void Checkpointer::take(const ExecSpace& space, const Position& position,
                        const std::vector<StageUpdater*>& updaters) {
  const auto start = Clock::now();
  finish();
  const Region region(space, "partita::Checkpointer::take", Phase::checkpoint);
  finishUpdates(space, updaters);
  for (StageUpdater* updater : updaters) updater->failIfDiverged(space, updater->local().tape, Matrix());
  const std::int64_t run_step = _run.length.runStep(position);
  if (_represents) {
    for (const auto& stage : _run.stages) failIfNotFinite(space, *stage, run_step);
    for (StageUpdater* updater : updaters)
      for (const Optimiser::State& state : updater->states())
        failIfNotFinite(space, updater->local(), state.name, state.values, run_step);
  }
  auto job = std::make_shared<CheckpointJob>();
  job->final_name = _run.directory.file(checkpointName(run_step));
  job->again = run_step == _last_step; // ranks at their own pace may meet several times in a step
  job->partial = _partial = job->final_name + ".partial";
  job->require_place = [directory = _run.directory] { directory.requireInPlace(); };
  job->own = _own;
  job->compression = static_cast<int>(_run.config.checkpoint.compression);
  _snapshot.take(space, position, updaters, *job);
  job->content.progress->numbers = _numbers;
  job->still_seconds = secondsSince(start);
  _job = job;
  auto together = std::make_shared<LossWatch::Together>();
  _thread.submit([job, comm = _comm, together] {
    job->copy();
    job->write(*comm);
  });
}

void Checkpointer::waitForCopy() {
  const std::shared_ptr<CheckpointJob> job = _job; // a hook may end it
  if (job == nullptr || job->state != CheckpointJob::State::copying) return;
  const auto begin = Clock::now();
  while (job->state == CheckpointJob::State::copying) idleBriefly();
  job->still_seconds += secondsSince(begin);
}

void Checkpointer::poll() {
  if (_job == nullptr) return;
  if (_job->state != CheckpointJob::State::copying)
    _job->copies.clear(); // in this thread, as Kokkos requires
  if (_job->state == CheckpointJob::State::written) {
    if (!_job->failure.empty() || _run.grid.world().rank() != 0) {
      _job->state = CheckpointJob::State::named;
    } else if (_run.monitor.hasHeard(_job->reports)) {
      publish();
    } else {
      _run.monitor.pump();
    }
  }
  if (_job->state == CheckpointJob::State::named) {
    reportResult();
  } else {
    reportIfSlow();
  }
}

/// Training continues without this checkpoint; only the next one would have to wait for it.
void Checkpointer::reportIfSlow() {
  const std::int64_t patience = _run.config.run.watchdog;
  const bool slow = patience > 0 && Clock::now() - _job->start > std::chrono::seconds(patience);
  if (slow && !std::exchange(_job->slow_reported, true)) {
    Log::warning("the checkpoint at step " + std::to_string(_job->content.progress->run_step) +
                 " is still being written after " + std::to_string(patience) + " s (run/watchdog)");
  }
}

void Checkpointer::reportResult() {
  const RunProgress& progress = *_job->content.progress;
  for (const std::string& path : _job->set_aside) // also if the new one could not get its name afterwards
    Log::warning("a checkpoint that this run does not continue from was renamed to " + path);
  _failed = !_job->failure.empty();
  if (_failed) {
    Log::warning("no checkpoint at step " + std::to_string(progress.run_step) + ": " + _job->failure);
  } else {
    _last_step = progress.run_step;
    _seconds.measured(secondsSince(_job->start));
    double bytes = 0.0;
    for (const TensorRecord& tensor : _job->content.tensors)
      bytes += static_cast<double>(tensor.size()) * sizeof(Real);
    Log::info(formatted("checkpoint at step %lld: %s written in %.3f s, training paused for %.3f s",
                        static_cast<long long>(_last_step), formatBytes(bytes).c_str(), _job->write_seconds,
                        _job->still_seconds));
    reportRemoved(_job->removed, _run.config.checkpoint.keep);
  }
  _job.reset();
}

/// On rank 0: the thread renames the file to its final name after the rows of growing files up to its step
/// were written. Rows for which the disk has no room wait in memory: that is no reason to lose the
/// checkpoint.
void Checkpointer::publish() {
  _job->state = CheckpointJob::State::naming;
  failureOf([&] { _run.monitor.flushHistory(); }); // which has been reported when a row was first written
  _thread.submit([job = _job, folder = _run.directory.path(), keep = _run.config.checkpoint.keep] {
    job->publish(folder, keep);
  });
}

bool Checkpointer::isNamed() const {
  return _job == nullptr || (_job->state == CheckpointJob::State::named && _job->failure.empty());
}

void Checkpointer::waitForName() const {
  const auto begin = Clock::now();
  const auto patience = static_cast<double>(_run.config.run.watchdog);
  while (_job != nullptr && _job->state == CheckpointJob::State::naming &&
         (patience == 0.0 || secondsSince(begin) < patience))
    std::this_thread::sleep_for(std::chrono::milliseconds(1)); // no hook: it might throw again
}

bool Checkpointer::finish() {
  if (_job != nullptr) finishJob();
  return !_failed;
}

/// However long it takes, while it makes progress.
void Checkpointer::finishJob() {
  const std::int64_t patience = _run.config.run.watchdog;
  WriteWatch watch(_job->partial, patience);
  for (poll(); _job != nullptr; poll()) {
    idleBriefly();
    if (watch.stalled() && _job != nullptr) // which may have ended during that look
      throw RunError("the checkpoint " + _job->final_name + " was not written within " +
                     std::to_string(patience) + " s (run/watchdog)");
  }
}

void Checkpointer::finishBeforeEnd() {
  if (_job != nullptr) failureOf([&] { finishJob(); });
  constexpr double patience = 10.0; // s: for rank 0, which may be computing
  const auto begin = Clock::now();
  std::error_code ignored;
  while (!_failed && std::filesystem::exists(_partial, ignored) && secondsSince(begin) < patience)
    idleBriefly();
}

double Checkpointer::expectedSeconds() const {
  constexpr double rate = 3e8, rate_of_all = 1e10; // assumed: bytes per second of a rank, and of the disk
  if (_seconds.known()) return _seconds.last();
  return sizeof(Real) * std::max(static_cast<double>(_largest_anywhere) / rate,
                                 static_cast<double>(_everywhere) / rate_of_all);
}

} // namespace partita
