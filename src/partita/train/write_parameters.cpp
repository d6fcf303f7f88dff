#include "partita/train/write_parameters.hpp"

#include "partita/io/stage_tensors.hpp"
#include "partita/io/write_run_file.hpp"
#include "partita/train/write_watch.hpp"

#include <algorithm>

namespace partita {

namespace {

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
  doWatched(path, setup.config.run.watchdog, MpiEnvironment::threadsMayCall(),
            [&] { writeRunFile(comm, path + ".partial", content, 0); });
}

} // namespace partita
