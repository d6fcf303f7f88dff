#include "partita/train/checkpointer.hpp"

#include "partita/core/log.hpp"
#include "partita/core/region.hpp"
#include "partita/io/stage_tensors.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace partita {

namespace {

/// Which replica writes a tensor: each has all of its stage, so they share the work.
bool writesHere(const Grid& grid, std::size_t number) {
  return static_cast<int>(number % static_cast<std::size_t>(grid.replicas())) == grid.replica();
}

} // namespace

Checkpointer::Checkpointer(Run run, bool background)
    : _run(std::move(run)), _comm(std::make_shared<const Communicator>(_run.grid.world().duplicate())),
      _background(background && _run.directory.exists()), _thread(_background) {
  _largest_anywhere = _comm->maximum(static_cast<std::int64_t>(largestCopy()));
  if (!_run.directory.exists() || _run.config.checkpoint.every == 0) return;
  // Memory that is touched for the first time costs more than the copy itself; that is paid here.
  _copy = decltype(_copy)("partita::Checkpointer::copy", largestCopy());
}

std::size_t Checkpointer::largestCopy() const {
  const std::size_t kinds = 1 + optimiserStates(_run.config.optimiser).size();
  std::size_t values = 0;
  for (const auto& local : _run.stages)
    values +=
        kinds * static_cast<std::size_t>(local->stage.masters().size()) + local->stage.statistics().extent(0);
  return values;
}

std::vector<std::string> Checkpointer::kindsFor(const StagePlan& stage, const Position& position) const {
  std::vector<std::string> kinds{parameters_kind, statistics_kind};
  const bool one_by_one = _run.length.turns > 1 && position.phase == RunPhase::training;
  if (one_by_one && stage.index != position.stage) return kinds; // done, or not begun
  for (const std::string& name : optimiserStates(_run.config.optimiser)) kinds.push_back(name);
  return kinds;
}

/// The same list on every rank.
void Checkpointer::listTensors(CheckpointJob& job, const Position& position) const {
  for (const StagePlan& stage : _run.partition.stages) {
    Partition alone;
    alone.stages = {stage};
    for (const std::string& kind : kindsFor(stage, position)) {
      for (const TensorRecord& tensor : networkTensors(alone, kind)) job.content.tensors.push_back(tensor);
    }
  }
  job.content.values.assign(job.content.tensors.size(), nullptr);
}

void Checkpointer::copyValues(const ExecSpace& space, CheckpointJob& job,
                              const std::vector<StageUpdater*>& updaters) {
  if (_copy.extent(0) == 0)
    _copy = decltype(_copy)(Kokkos::view_alloc(Kokkos::WithoutInitializing, "partita::Checkpointer::copy"),
                            largestCopy());
  fence(space, "partita::Checkpointer::copyValues"); // behind all updates, wherever the state lies
  std::size_t used = 0;
  const auto copy = [&](const std::string& kind, const Stage& stage, const StoredVector& values) {
    for (const StageTensor& tensor : tensorsOf(stage, kind)) {
      const auto& tensors = job.content.tensors;
      const auto found = std::find_if(tensors.begin(), tensors.end(), [&](const TensorRecord& record) {
        return record.kind == kind && record.layer == tensor.layer && record.name == tensor.name;
      });
      const auto number = static_cast<std::size_t>(found - tensors.begin());
      if (found == tensors.end() || !writesHere(_run.grid, number)) continue;
      Real* to = _copy.data() + used;
      // A forward pass already changes statistics: what waits for the thread is what only an update changes.
      if (_background && values.onHost() != nullptr && kind != statistics_kind) {
        job.copies.push_back({values, tensor.offset, tensor.size, to});
      } else {
        values.copyOut(space, tensor.offset, tensor.size, to);
      }
      job.content.values[number] = to;
      used += static_cast<std::size_t>(tensor.size);
    }
  };
  for (const auto& local : _run.stages) {
    copy(parameters_kind, local->stage, local->stage.masters());
    copy(statistics_kind, local->stage, StoredVector(local->stage.statistics()));
  }
  for (StageUpdater* updater : updaters) {
    for (const Optimiser::State& state : updater->optimiser().state())
      copy(state.name, updater->local().stage, state.values);
  }
}

RunProgress Checkpointer::progressAt(const Position& position) const {
  RunProgress progress;
  progress.position = position;
  progress.run_step = _run.length.runStep(position);
  progress.samples = _run.samples;
  progress.per_epoch = _run.length.per_epoch;
  progress.seed = _run.config.run.seed;
  progress.stages = _run.grid.plan().stages;
  progress.replicas = _run.grid.replicas();
  progress.ranks = _run.grid.world().size();
  return progress;
}

/// What has to be summed over the ranks: traffic, times of rank 0, scores by stage and replica, steps and
/// loss scales by stage, reports sent by rank.
std::vector<double> Checkpointer::ownNumbers(const ExecSpace& space,
                                             const std::vector<StageUpdater*>& updaters) const {
  const Grid& grid = _run.grid;
  const auto replicas = static_cast<std::size_t>(grid.replicas()),
             stages = static_cast<std::size_t>(grid.plan().stages), scores = 3 * replicas * stages,
             updates = 3 * stages;
  std::vector<double> numbers(CheckpointJob::numbers_before_scores + scores + updates +
                              static_cast<std::size_t>(grid.world().size()));
  numbers[0] = static_cast<double>(grid.traffic.between_stages);
  numbers[1] = static_cast<double>(grid.traffic.between_replicas);
  numbers[2] = static_cast<double>(grid.traffic.evaluation);
  if (grid.world().rank() == 0) {
    const RunTimes times = _run.clock.times();
    numbers[3] = _run.monitor.seconds();
    numbers[4] = times.training;
    numbers[5] = times.evaluation;
  }
  for (StageUpdater* updater : updaters) {
    const Score::Sums sums = updater->local().score.peek(space);
    const auto place = static_cast<std::size_t>(updater->local().index()) * replicas +
                       static_cast<std::size_t>(grid.replica());
    numbers[CheckpointJob::numbers_before_scores + 3 * place] = sums.loss;
    numbers[CheckpointJob::numbers_before_scores + 3 * place + 1] = sums.correct;
    numbers[CheckpointJob::numbers_before_scores + 3 * place + 2] = sums.rows;
    if (grid.replica() > 0) continue; // all of them have the same
    const auto update = CheckpointJob::numbers_before_scores + scores +
                        3 * static_cast<std::size_t>(updater->local().index());
    numbers[update] = static_cast<double>(updater->optimiser().steps());
    numbers[update + 1] = updater->lossScale().value();
    numbers[update + 2] = static_cast<double>(updater->lossScale().clean());
  }
  numbers[CheckpointJob::numbers_before_scores + scores + updates +
          static_cast<std::size_t>(grid.world().rank())] = static_cast<double>(_run.monitor.sent());
  return numbers;
}

void Checkpointer::take(const ExecSpace& space, const Position& position,
                        const std::vector<StageUpdater*>& updaters) {
  const auto start = Clock::now();
  finish();
  const Region region(space, "partita::Checkpointer::take", Phase::checkpoint);
  finishUpdates(space, updaters);
  for (StageUpdater* updater : updaters) updater->failIfDiverged(space, updater->local().tape, Matrix());
  auto job = std::make_shared<CheckpointJob>();
  job->final_name = _run.directory.file(checkpointName(_run.length.runStep(position)));
  job->partial = job->final_name + ".partial";
  job->content.facts = _run.facts;
  job->content.progress = progressAt(position);
  job->compression = static_cast<int>(_run.config.checkpoint.compression);
  listTensors(*job, position);
  copyValues(space, *job, updaters);
  job->numbers = ownNumbers(space, updaters);
  job->still_seconds = std::chrono::duration<double>(Clock::now() - start).count();
  _job = job;
  _thread.submit([job, comm = _comm] {
    job->copy();
    job->write(*comm);
  });
}

void Checkpointer::waitForCopy() {
  if (_job == nullptr || _job->state != CheckpointJob::State::copying) return;
  const auto begin = Clock::now();
  while (_job->state == CheckpointJob::State::copying) idleBriefly();
  _job->still_seconds += std::chrono::duration<double>(Clock::now() - begin).count();
}

void Checkpointer::poll() {
  if (_job == nullptr) return;
  if (_job->state != CheckpointJob::State::copying)
    _job->copies.clear(); // by this thread, as Kokkos wants it
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
    tellResult();
  } else {
    tellIfSlow();
  }
}

/// Training goes on without it; it is the next one that would have to wait.
void Checkpointer::tellIfSlow() {
  const std::int64_t patience = _run.config.run.watchdog;
  const bool slow = patience > 0 && Clock::now() - _job->start > std::chrono::seconds(patience);
  if (slow && !std::exchange(_job->told, true)) {
    Log::warning("the checkpoint at step " + std::to_string(_job->content.progress->run_step) +
                 " is still being written after " + std::to_string(patience) + " s (run/watchdog)");
  }
}

void Checkpointer::tellResult() {
  const RunProgress& progress = *_job->content.progress;
  const double seconds = std::chrono::duration<double>(Clock::now() - _job->start).count();
  _failed = !_job->failure.empty();
  if (_failed) {
    Log::warning("no checkpoint at step " + std::to_string(progress.run_step) + ": " + _job->failure);
  } else {
    _last_step = progress.run_step;
    _last_seconds = seconds;
    double bytes = 0.0;
    for (const TensorRecord& tensor : _job->content.tensors)
      bytes += static_cast<double>(tensor.size()) * sizeof(Real);
    std::array<char, 160> line{};
    std::snprintf(line.data(), line.size(),
                  "checkpoint at step %lld: %s written in %.3f s, training stood still for %.3f s",
                  static_cast<long long>(_last_step), formatBytes(bytes).c_str(), _job->write_seconds,
                  _job->still_seconds);
    Log::info(line.data());
    for (const std::string& path : _job->set_aside)
      Log::warning("a checkpoint that this run does not go on from is set aside: " + path);
  }
  _job.reset();
}

/// On rank 0: the thread gives the file its name, when no row of the history up to its step can get lost.
void Checkpointer::publish() {
  _job->state = CheckpointJob::State::naming;
  _job->failure = failureOf([&] { _run.monitor.flushHistory(); });
  _thread.submit([job = _job, folder = _run.directory.file("."), history = _run.directory.file("history.csv"),
                  keep = static_cast<std::size_t>(_run.config.checkpoint.keep)] {
    job->publish(folder, history, keep);
  });
}

bool Checkpointer::finish() {
  const auto begin = Clock::now();
  const auto patience = std::chrono::seconds(_run.config.run.watchdog);
  while (_job != nullptr) {
    poll();
    if (_job == nullptr) break;
    idleBriefly();
    if (patience.count() > 0 && Clock::now() - begin > patience)
      throw RunError("the checkpoint " +
                     _run.directory.file(checkpointName(_job->content.progress->run_step)) +
                     " is not written after " + std::to_string(patience.count()) + " s (run/watchdog)");
  }
  return !_failed;
}

double Checkpointer::expectedSeconds() const {
  constexpr double assumed_rate = 3e8; // bytes a second and rank
  if (_last_seconds > 0.0) return _last_seconds;
  return static_cast<double>(_largest_anywhere) * sizeof(Real) / assumed_rate;
}

} // namespace partita
