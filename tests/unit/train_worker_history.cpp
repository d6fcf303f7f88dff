#include "partita/train/worker_history.hpp"

#include <algorithm>
#include <filesystem>

#include "data_files.hpp"
#include "support/catch.hpp"

namespace partita::test::train_worker_history {

namespace {

WorkersSnapshot snapshotAt(std::int64_t step) {
  WorkersSnapshot snapshot;
  snapshot.step = step;
  snapshot.workers.resize(2);
  snapshot.workers[1].rank = 1;
  return snapshot;
}

std::int64_t linesOf(const std::string& text) {
  return std::count(text.begin(), text.end(), '\n');
}

} // namespace

TEST_CASE("The table of the workers is there before they report", "[train]") {
  const ScratchFolder folder;
  WorkerHistory history(folder.path("workers.csv"), 0);
  CHECK(linesOf(folder.read("workers.csv")) == 1);
  history.add(1.0, snapshotAt(10));
  CHECK(linesOf(folder.read("workers.csv")) == 3);
  history.add(2.0, snapshotAt(10)); // the same step, again
  CHECK(linesOf(folder.read("workers.csv")) == 3);
}

TEST_CASE("A table of the workers whose rows are not in the order of their steps is set aside", "[train]") {
  const auto setsAside = [](std::int64_t first, std::int64_t second) {
    const ScratchFolder folder;
    const std::string path = folder.path("workers.csv");
    std::string rows;
    for (const std::int64_t step : {first, second}) {
      WorkerHistory history(path, 0);
      history.add(1.0, snapshotAt(step)); // in a later call the time may begin anew
      const std::string text = folder.read("workers.csv");
      rows += rows.empty() ? text : text.substr(text.find('\n') + 1);
    }
    folder.write("workers.csv", rows);
    WorkerHistory{path, 40};
    return std::filesystem::exists(path + ".superseded");
  };
  CHECK_FALSE(setsAside(10, 20));
  CHECK(setsAside(20, 10));
  CHECK(setsAside(10, 10));
}

TEST_CASE("A table of the workers that cannot be written is a mistake found at once", "[train]") {
  const ScratchFolder folder;
  CHECK_THROWS_AS(WorkerHistory(folder.path("none/workers.csv"), 0), UserError);
  WorkerHistory without("", 0);
  without.add(1.0, snapshotAt(10));
  CHECK(without.any());
}

} // namespace partita::test::train_worker_history
