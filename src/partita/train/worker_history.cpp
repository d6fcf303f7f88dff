#include "partita/train/worker_history.hpp"

#include "partita/config/text.hpp"
#include "partita/core/log.hpp"

#include <algorithm>
#include <sstream>

namespace partita {

namespace {

const char* const workers_header =
    "time_s,run_step,rank,role,batch,updates,examples,update_share,busy,staleness_mean,dropped,lost,"
    "given_away,lost_step";
constexpr TableColumns worker_columns{1, 1};

} // namespace

WorkerHistory::WorkerHistory(const std::string& path, std::int64_t run_step) : _written(run_step) {
  if (!path.empty()) _table = std::make_unique<TableFile>(path, workers_header, worker_columns, run_step);
}

std::vector<double> WorkerHistory::shares() const {
  double all = 0.0;
  for (const WorkerCounts& worker : _latest.workers) all += static_cast<double>(worker.updates);
  std::vector<double> shares;
  for (const WorkerCounts& worker : _latest.workers)
    shares.push_back(all > 0.0 ? static_cast<double>(worker.updates) / all : 0.0);
  return shares;
}

std::vector<double> WorkerHistory::busy() const {
  std::vector<double> busy;
  for (const WorkerCounts& worker : _latest.workers)
    busy.push_back(_latest.seconds > 0.0 ? std::min(1.0, worker.busy_seconds / _latest.seconds) : 0.0);
  return busy;
}

void WorkerHistory::add(double now, const WorkersSnapshot& snapshot) {
  _latest = snapshot;
  if (_table == nullptr || snapshot.step <= _written) return;
  _written = snapshot.step;
  std::ostringstream rows;
  rows.precision(7);
  const std::vector<double> share = shares(), working = busy();
  for (std::size_t i = 0; i < snapshot.workers.size(); ++i) {
    const WorkerCounts& worker = snapshot.workers[i];
    rows << now << ',' << snapshot.step << ',' << worker.rank << ',' << (worker.shared ? "shared" : "replica")
         << ',' << worker.batch_last << ',' << worker.updates << ',' << worker.examples << ',' << share[i]
         << ',' << working[i] << ',' << worker.stalenessMean() << ',' << worker.dropped << ','
         << worker.overwritten << ',' << worker.given_away << ',';
    if (worker.isLost()) rows << worker.lost_step;
    rows << '\n';
  }
  _table->append(rows.str());
}

bool WorkerHistory::anyLost() const {
  return std::any_of(_latest.workers.begin(), _latest.workers.end(),
                     [](const WorkerCounts& worker) { return worker.isLost(); });
}

void WorkerHistory::flush() {
  if (_table != nullptr) _table->flush();
}

void WorkerHistory::synchronise() {
  if (_table != nullptr) _table->synchronise();
}

std::string WorkerHistory::line() const {
  if (!any()) return "";
  constexpr std::size_t most_shown = 6;
  std::string shares_text = "  shares", batches = "  batches";
  const std::vector<double> share = shares();
  for (std::size_t i = 0; i < std::min(share.size(), most_shown); ++i) {
    shares_text += formatted(" %.2f", share[i]);
    batches += " " + std::to_string(_latest.workers[i].batch_last);
  }
  const char* const more = share.size() > most_shown ? " ..." : "";
  std::vector<int> lost;
  for (const WorkerCounts& worker : _latest.workers)
    if (worker.isLost()) lost.push_back(static_cast<int>(worker.rank));
  return shares_text + more + batches + more + (lost.empty() ? "" : "  lost " + formatRanges(lost));
}

} // namespace partita
