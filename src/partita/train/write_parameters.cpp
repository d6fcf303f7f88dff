#include "partita/train/write_parameters.hpp"

#include "partita/comm/loss_watch.hpp"
#include "partita/comm/wait.hpp"
#include "partita/core/asynchronous.hpp"
#include "partita/core/error.hpp"
#include "partita/io/stage_tensors.hpp"
#include "partita/io/write_run_file.hpp"
#include "partita/train/write_watch.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <functional>
#include <memory>

namespace partita {

namespace {

/// Runs collective work on a file in a thread, if MPI allows that, so that this thread notices a file system
/// that hangs. Throws what `work` throws, and RunError if the writing of PATH.partial makes no progress for
/// `patience` seconds (0: never).
void doWatched(const std::string& path, std::int64_t patience, const std::function<void()>& work) {
  struct Progress {
    std::atomic<bool> done{false};
    std::exception_ptr failure;
    LossWatch::Together together;
  };
  BackgroundThread thread(MpiEnvironment::threadsMayCall());
  const auto progress = std::make_shared<Progress>();
  thread.submit([progress, work] {
    try {
      work();
    } catch (...) {
      progress->failure = std::current_exception();
    }
    progress->done = true;
  });
  WriteWatch watch(path + ".partial", patience);
  while (!progress->done) {
    idleBriefly();
    if (watch.stalled())
      throw RunError(path + ": was not written within " + std::to_string(patience) + " s (run/watchdog)");
  }
  if (progress->failure != nullptr) std::rethrow_exception(progress->failure);
}

/// The fitted weights with which the joined network adds up its stages; empty if all are equal. Collective.
std::vector<double> exitWeights(const Setup& setup) {
  std::vector<double> weights(setup.plans.partition.stages.size(), 0.0);
  for (const auto& local : setup.stages)
    if (setup.grid.speaks())
      weights[static_cast<std::size_t>(local->index())] = local->exit_weight.value_or(0.0);
  setup.grid.world().sum(weights);
  const bool fitted =
      std::any_of(weights.begin(), weights.end(), [](double weight) { return weight != 0.0; });
  return fitted ? weights : std::vector<double>{};
}

} // namespace

void writeParameters(const std::string& path, const RunFacts& facts, const Setup& setup) {
  RunFileContent content;
  content.facts = facts;
  content.facts.exit_weights = exitWeights(setup);
  for (const char* kind : {parameters_kind, statistics_kind}) {
    for (const TensorRecord& tensor : networkTensors(setup.plans.partition, kind))
      content.tensors.push_back(tensor);
  }
  content.parts.assign(content.tensors.size(), {});
  std::vector<std::vector<Real>> copies;
  const auto place = [&](const char* kind, const Stage& stage, const StoredVector& values) {
    copies.push_back(values.values(ExecSpace()));
    placeValues(content, kind, stage, copies.back().data());
  };
  for (const auto& local : setup.stages) {
    if (setup.grid.replica() > 0) break;
    place(parameters_kind, local->stage, local->stage.masters());
    place(statistics_kind, local->stage, StoredVector(local->stage.statistics()));
  }
  const Communicator comm = setup.grid.world().duplicate();
  doWatched(path, setup.config.run.watchdog, [&] { writeRunFile(comm, path + ".partial", content, 0); });
}

} // namespace partita
