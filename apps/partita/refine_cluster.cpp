#include "partita/config/files.hpp"
#include "partita/config/json_value.hpp"
#include "partita/config/user_error.hpp"
#include "partita/core/log.hpp"
#include "partita/io/earlier_output.hpp"
#include "partita/io/output_file.hpp"
#include "partita/plan/cost/cluster_file.hpp"
#include "partita/plan/cost/cluster_rows.hpp"
#include "partita/plan/cost/refine.hpp"
#include "partita/train/run_files.hpp"

#include <optional>

#include "commands.hpp"
#include "plan_task.hpp"

namespace partita {

namespace {

/// What a run has measured; the run must be one that compares itself with a prediction.
RunEvidence evidenceOf(const std::string& folder) {
  constexpr double most_seconds = 1e12;
  const std::string path = folder + "/summary.json";
  if (!regularFileExists(path))
    throw UserError("--from: '" + folder + "' is not the directory of a finished run: there is no file " +
                    path);
  const detail::JsonValue summary = detail::JsonValue::read(path);
  if (!summary.has("measured"))
    throw UserError(path + ": has no key `measured`; train with run/cluster=FILE");
  const detail::JsonValue measured = summary.at("measured");
  if (!measured.has("communication"))
    throw UserError("--from: '" + folder + "' is a run of workers; calibrate with its deck instead");
  const detail::JsonValue waits = measured.at("communication");
  PlanTask plan = planTask(folder + "/deck.toml", {}, Cluster{});
  const std::int64_t ranks = summary.at("grid").at("ranks").integer(1, most_ranks);
  RunEvidence evidence{plan.task, plan.task.program->run(ranks)};
  evidence.compute = measured.at("compute_s").number(0, most_seconds);
  if (evidence.compute == 0.0)
    throw UserError(path + ": /measured/compute_s is 0: the run has measured no computing time");
  for (const ExchangeKind kind : {ExchangeKind::gradients, ExchangeKind::parameters})
    if (waits.has(nameOf(kind))) evidence.sums += waits.at(nameOf(kind)).number(0, most_seconds);
  return evidence;
}

/// The files that are read because of a run: its own, and the data and the cluster file that its deck names.
std::vector<std::string> filesReadFrom(const std::string& run) {
  std::vector<std::string> files = filesOfRun(run);
  for (const std::string& file : filesRead(run + "/deck.toml", {}, "")) files.push_back(file);
  return files;
}

} // namespace

void refineCluster(const CalibrateArguments& arguments) {
  std::vector<RunEvidence> runs;
  runs.reserve(arguments.runs.size());
  for (const std::string& run : arguments.runs) runs.push_back(evidenceOf(run));
  const std::string& compared = runs.front().task.program->deck().run.cluster;
  if (!regularFileExists(compared))
    throw UserError(arguments.runs.front() + "/deck.toml: run/cluster: there is no file '" + compared +
                    "' here; names are relative to the folder in which the run was started");
  Cluster cluster = loadCluster(compared);
  std::optional<OutputFile> file;
  if (!arguments.output.empty()) {
    for (const std::string& run : arguments.runs) refuseOutput(arguments.output, filesReadFrom(run));
    refuseToReplace(arguments.output, clusterOutput(), arguments.overwrite);
    file.emplace(arguments.output);
  }
  const std::vector<std::string> lines = refine(cluster, runs);
  const std::string refined = ", refined from runs";
  if (cluster.source.find(refined) == std::string::npos) cluster.source += refined;
  if (file) {
    file->write(sealed(clusterText(cluster), clusterOutput()));
    file->commit();
  }
  Log::info("  refined: " + compared);
  for (const std::string& line : lines) Log::info("  " + line);
  if (!file) Log::info(clusterText(cluster));
}

} // namespace partita
