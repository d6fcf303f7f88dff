#include "partita/train/worker_history.hpp"

#include <algorithm>

#include "data_files.hpp"
#include "support/catch.hpp"

namespace partita::test::train_worker_history {

namespace {

WorkersSnapshot snapshotAt(std::int64_t step) {
  WorkersSnapshot snapshot;
  snapshot.step = step;
  snapshot.workers.resize(2);
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

TEST_CASE("A table of the workers that cannot be written is a mistake found at once", "[train]") {
  const ScratchFolder folder;
  CHECK_THROWS_AS(WorkerHistory(folder.path("none/workers.csv"), 0), UserError);
  WorkerHistory without("", 0);
  without.add(1.0, snapshotAt(10));
  CHECK(without.any());
}

} // namespace partita::test::train_worker_history
