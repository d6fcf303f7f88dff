#include "partita/strategy/hogbatch/decisions.hpp"
#include "partita/train/history.hpp"
#include "partita/train/run_files.hpp"
#include "partita/train/worker_reports.hpp"

#include <algorithm>

#include "data_files.hpp"
#include "support/catch.hpp"

namespace partita::test::train_run_files {

namespace {

const std::string row = "...\n1,2\n";

/// A folder with the tables and the summary of a run.
void writeRun(const ScratchFolder& folder) {
  folder.write("history.csv", history_mark + row);
  folder.write("workers.csv", workers_mark + row);
  folder.write("decisions.csv", decisions_mark + row);
  folder.write("summary.json", "{\n  \"strategy\": \"hogbatch\"\n}\n");
}

std::vector<std::string> sorted(std::vector<std::string> names) {
  std::sort(names.begin(), names.end());
  return names;
}

} // namespace

TEST_CASE("All tables of a run grow, but only those that are there", "[train]") {
  const ScratchFolder folder;
  CHECK(growingFilesIn(folder.path()).empty());
  folder.write("history.csv", history_mark + row);
  CHECK(growingFilesIn(folder.path()) == std::vector<std::string>{folder.path("history.csv")});
  writeRun(folder);
  CHECK(sorted(growingFilesIn(folder.path())) == std::vector<std::string>{folder.path("decisions.csv"),
                                                                          folder.path("history.csv"),
                                                                          folder.path("workers.csv")});
}

TEST_CASE("What a run does not take over is set aside", "[train]") {
  const ScratchFolder folder;
  const auto moved = [&](const TakenOver& taken) {
    writeRun(folder);
    std::vector<std::string> names = setResultsAside(folder.path(), taken);
    for (std::string& name : names) {
      std::filesystem::remove(name);
      name = std::filesystem::path(name).stem().string();
    }
    return sorted(names);
  };
  using Names = std::vector<std::string>;
  CHECK(moved({true, true, true}).empty());
  CHECK(moved({true, false, true}) == Names{"decisions.csv"});
  CHECK(moved({true, true, false}) == Names{"summary.json"});
  CHECK(moved({false, true, true}) == Names{"history.csv", "workers.csv"});
  CHECK(moved({}).size() == 4);
}

} // namespace partita::test::train_run_files
