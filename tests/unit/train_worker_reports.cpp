#include "partita/train/worker_reports.hpp"

#include <algorithm>

#include "data_files.hpp"
#include "support/catch.hpp"

namespace partita::test::train_worker_reports {

namespace {

WorkersReport reportAt(std::int64_t step) {
  WorkersReport report;
  report.step = step;
  report.workers.resize(2);
  return report;
}

std::int64_t linesOf(const std::string& text) {
  return std::count(text.begin(), text.end(), '\n');
}

} // namespace

TEST_CASE("The table of the workers is there before they report", "[train]") {
  const ScratchFolder folder;
  WorkerReports reports(folder.path("workers.csv"), 0);
  CHECK(linesOf(folder.read("workers.csv")) == 1);
  reports.add(1.0, reportAt(10));
  CHECK(linesOf(folder.read("workers.csv")) == 3);
  reports.add(2.0, reportAt(10)); // the same report, again
  CHECK(linesOf(folder.read("workers.csv")) == 3);
}

TEST_CASE("A table of the workers that cannot be written is a mistake found at once", "[train]") {
  const ScratchFolder folder;
  CHECK_THROWS_AS(WorkerReports(folder.path("none/workers.csv"), 0), UserError);
  WorkerReports without("", 0);
  without.add(1.0, reportAt(10));
  CHECK(without.any());
}

} // namespace partita::test::train_worker_reports
