#include "partita/comm/loss_watch.hpp"

#include "partita/comm/agree.hpp"
#include "partita/config/user_error.hpp"
#include "partita/core/log.hpp"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iostream>
#include <mutex>
#include <sstream>
#include <unistd.h>
#include <utility>

namespace partita {

namespace {

constexpr double file_patience = 3.0; // s: a file that all ranks close is written by then, or never

std::atomic<int> files_together{0};
constexpr double abort_patience = 5.0; // s: for a job that rank 0 has ended, with its own message
constexpr double start_patience = 7.0; // s: for a new start, in which no rank computes for long

std::atomic<bool> any_lost{false};
/// A process. The start time is kept because its number may be reused after its death.
struct Process {
  pid_t number;
  double start;
};
std::vector<Process> given_up; ///< of this node, not responding: nobody else ends them
LossWatch* watch_that_goes_on = nullptr;
std::vector<Process> other_processes; ///< of the job, as far as they are visible
std::mutex of_processes;              ///< a watch may end the job while another one begins
std::atomic<bool> ends_job{false};
std::atomic<bool> goes_on{false};

/// Start time of a process in ticks since the system began: with its number, it identifies the process.
/// Negative if it is dead, or not visible from here.
double startOf(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string text;
  std::getline(file, text);
  const std::size_t name_end = text.rfind(')'); // the name may contain anything
  if (name_end == std::string::npos) return -1.0;
  std::istringstream fields(text.substr(name_end + 1));
  std::string state, skipped;
  fields >> state;
  if (state == "Z" || state == "X") return -1.0; // the launcher has not noticed yet
  constexpr int between = 18;                    // fields 4 to 21
  for (int i = 0; i < between; ++i) fields >> skipped;
  double start = -1.0;
  fields >> start;
  return start;
}

/// Processes with the same place see one another: those of one system since its start, and of one container.
double placeOfProcesses() {
  std::string boot, container(64, '\0');
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  const ssize_t length = readlink("/proc/self/ns/pid", &container[0], container.size());
  container.resize(length > 0 ? static_cast<std::size_t>(length) : 0);
  constexpr int bits_to_drop = 12; // a double holds the others
  return static_cast<double>(std::hash<std::string>()(boot + container) >> bits_to_drop);
}

void killAll(const std::vector<Process>& processes) {
  for (const Process& process : processes)
    if (process.number != 0 && startOf(process.number) == process.start) kill(process.number, SIGKILL);
}

} // namespace

RanksLost::RanksLost(const Communicator& watched, const std::vector<int>& ranks)
    : std::runtime_error(formatRanks(watched.worldRanks(ranks)) + ": no longer there"), _ranks(ranks) {}

LossWatch::LossWatch(const Communicator& world, After after, double patience, std::function<double()> clock)
    : _comm(world.duplicate()), _processes(2 * static_cast<std::size_t>(world.size()), 0.0), _after(after),
      _patience(patience), _time(std::move(clock)), _hook([this] { look(); }) {
  const auto own = static_cast<std::size_t>(_comm.rank());
  std::vector<double> places(static_cast<std::size_t>(_comm.size()), 0.0);
  places[own] = placeOfProcesses();
  _processes[2 * own] = static_cast<double>(getpid());
  _processes[2 * own + 1] = startOf(getpid());
  _comm.sum(_processes);
  _comm.sum(places);
  for (std::size_t i = 0; i < places.size(); ++i) {
    const bool visible = places[i] == places[own] && _processes[2 * i + 1] >= 0.0; // even if it has just died
    if (!visible) _processes[2 * i] = 0.0;
  }
  beginThread();
}

LossWatch::LossWatch(const LossWatch& before)
    : _comm(before._comm.only(before.survivors())), _after(before._after), _patience(before._patience),
      _starts(true), _hook([this] { look(); }) {
  for (const int rank : before.survivors()) {
    const auto place = before._processes.begin() + 2 * static_cast<std::ptrdiff_t>(rank);
    _processes.insert(_processes.end(), place, place + 2);
  }
  beginThread();
}

LossWatch::~LossWatch() {
  if (watch_that_goes_on == this) watch_that_goes_on = nullptr;
  _ends = true;
  if (_thread.joinable()) _thread.join();
}

void LossWatch::beginThread() {
  ends_job = _comm.rank() == 0;
  std::vector<Process> others;
  for (std::size_t i = 0; i < _processes.size(); i += 2)
    if (_processes[i] != 0.0 && _processes[i] != static_cast<double>(getpid()))
      others.push_back({static_cast<pid_t>(_processes[i]), _processes[i + 1]});
  {
    const std::lock_guard<std::mutex> lock(of_processes);
    other_processes = std::move(others);
  }
  if (_after == After::go_on) {
    goes_on = true;
    watch_that_goes_on = this;
  }
  _ready = true;
  if (MpiEnvironment::threadsMayCall()) _thread = std::thread([this] { watchInBackground(); });
}

/// This rank may be in a call of MPI or of HDF5 that needs a rank that has died, where no hook is called.
void LossWatch::watchInBackground() {
  double silent = 0.0;
  for (std::int64_t calls = -1; !_ends;
       std::this_thread::sleep_for(std::chrono::duration<double>(between_looks))) {
    if (goes_on && _after == After::end) return;
    std::vector<int> dead;
    for (int rank = 0; rank < _comm.size(); ++rank)
      if ((_comm.rank() == 0) != (rank == 0) && isDead(rank)) dead.push_back(rank);
    silent = dead.empty() || calls != _calls ? 0.0 : silent + between_looks;
    calls = _calls;
    if (silent < patienceFor(dead)) continue;
    if (_code >= 0) leaveProcess(_code);
    fail(names(dead) + ": died during work that needs all ranks");
  }
}

/// How long this rank may stay in a call after the death of these ranks.
double LossWatch::patienceFor(const std::vector<int>& dead) const {
  constexpr double others = 4.0; // times as long for ranks that still work
  const double shorter = std::min(start_patience, _patience);
  if (_starts || !_left) return _starts ? shorter : _patience;
  const bool more =
      std::any_of(dead.begin(), dead.end(), [this](int rank) { return _lost.count(rank) == 0; });
  return more ? shorter : others * _patience;
}

bool LossWatch::isDead(int rank) const {
  const auto place = 2 * static_cast<std::size_t>(rank);
  const auto process = static_cast<pid_t>(_processes[place]);
  return process != 0 && startOf(process) != _processes[place + 1];
}

const std::set<int>& LossWatch::lost() {
  if (_comm.rank() != 0 || secondsSince(_looked) < between_looks) return _lost;
  _looked = Clock::now();
  for (int rank = 1; rank < _comm.size(); ++rank)
    if (_lost.count(rank) == 0 && isDead(rank)) _lost.insert(rank);
  return _lost;
}

/// Called while this rank waits.
void LossWatch::look() {
  if (!_ready || _left || (goes_on && _after == After::end)) return;
  ++_calls;
  if (_comm.rank() != 0) return obey();
  if (lost().empty() || _holds) return;
  if (_after == After::end) fail(namesOfLost() + ": died");
  if (filesAreDone()) leaveTheLost();
}

double LossWatch::now() {
  constexpr double longest_gap = 1.0; // s; a rank that waits looks far more often
  return _time.look(longest_gap);
}

/// A file that all ranks write together is never closed if one of them has died.
bool LossWatch::filesAreDone() {
  if (files_together == 0) return true;
  if (!_files_since) _files_since = now();
  if (now() - *_files_since > file_patience) {
    fail(namesOfLost() + ": died while all ranks wrote a file together, so the run cannot continue (restart "
                         "it with -r latest)");
  }
  return false;
}

void LossWatch::leaveTheLost() {
  const bool is_last = static_cast<int>(_lost.size()) + 1 >= _comm.size();
  if (is_last && _code < 0) fail("all workers are lost");
  // Never freed: a rank that was given up may still receive it.
  auto* const order = new std::vector<int>(static_cast<std::size_t>(_comm.size()) + 1, 0);
  order->front() = _code;
  for (const int rank : _lost) (*order)[static_cast<std::size_t>(rank) + 1] = 1;
  for (int rank = 1; rank < _comm.size(); ++rank) {
    if (_lost.count(rank) > 0 && isDead(rank)) continue;
    MPI_Request request = MPI_REQUEST_NULL;
    PARTITA_MPI(
        MPI_Isend(order->data(), static_cast<int>(order->size()), MPI_INT, rank, 0, _comm.get(), &request));
    PARTITA_MPI(MPI_Request_free(&request));
    const auto place = 2 * static_cast<std::size_t>(rank);
    if (_lost.count(rank) > 0)
      given_up.push_back({static_cast<pid_t>(_processes[place]), _processes[place + 1]});
  }
  leave();
}

void LossWatch::obey() {
  if (_lost.empty()) {
    int found = 0;
    PARTITA_MPI(MPI_Iprobe(0, 0, _comm.get(), &found, MPI_STATUS_IGNORE));
    if (found == 0) return lookAtRankZero();
    std::vector<int> order(static_cast<std::size_t>(_comm.size()) + 1);
    PARTITA_MPI(MPI_Recv(order.data(), static_cast<int>(order.size()), MPI_INT, 0, 0, _comm.get(),
                         MPI_STATUS_IGNORE));
    if (order.front() >= 0) _code = order.front(); // rank 0 may not know yet that all results are there
    for (int rank = 0; rank < _comm.size(); ++rank)
      if (order[static_cast<std::size_t>(rank) + 1] != 0) _lost.insert(rank);
  }
  if (filesAreDone()) leave();
}

void LossWatch::leave() {
  any_lost = true;
  if (_lost.count(_comm.rank()) > 0) leaveProcess(exit_failure); // given up: the others have continued
  if (_code >= 0) leaveProcess(_code);
  _left = true;
  throw RanksLost(_comm, {_lost.begin(), _lost.end()});
}

/// Nobody else would report that the coordinator has died.
void LossWatch::lookAtRankZero() {
  if (secondsSince(_looked) < between_looks) return;
  _looked = Clock::now();
  if (!isDead(0)) return;
  if (_code >= 0) leaveProcess(_code); // it has left after the results
  if (!_alone_since) _alone_since = now();
  if (now() - *_alone_since < abort_patience) return;
  fail("rank 0, which coordinates, has died");
}

/// "ranks 1,3": their numbers in the job, which differ from those here after an earlier loss.
std::string LossWatch::names(const std::vector<int>& ranks) const {
  std::vector<int> job_ranks;
  job_ranks.reserve(ranks.size());
  for (const int rank : ranks) job_ranks.push_back(_job_ranks[static_cast<std::size_t>(rank)]);
  return formatRanks(job_ranks);
}

void LossWatch::fail(const std::string& text) const {
  ends_job = true;
  endJob(_job_ranks[static_cast<std::size_t>(_comm.rank())], text, exit_failure);
}

void LossWatch::endOthers() {
  if (!ends_job || !launcherGoesOn()) return;
  const std::lock_guard<std::mutex> lock(of_processes);
  killAll(other_processes);
}

bool LossWatch::giveUp(const std::vector<int>& ranks) {
  if (watch_that_goes_on == nullptr) return false;
  watch_that_goes_on->_lost.insert(ranks.begin(), ranks.end());
  return true;
}

std::vector<int> LossWatch::survivors() const {
  std::vector<int> ranks;
  for (int rank = 0; rank < _comm.size(); ++rank)
    if (_lost.count(rank) == 0) ranks.push_back(rank);
  return ranks;
}

bool LossWatch::launcherGoesOn() {
  const char* const recovers = std::getenv("OMPI_MCA_orte_enable_recovery"); // of Open MPI 4
  return recovers != nullptr && std::string(recovers) != "0" && std::string(recovers) != "false";
}

bool LossWatch::anyLost() {
  return any_lost;
}

void LossWatch::leaveProcess(int code) {
  std::cout.flush();
  std::cerr.flush();
  std::fflush(nullptr);
  killAll(given_up); // the launcher would wait for them
  _exit(code);
}

LossWatch::Together::Together() {
  ++files_together;
}

LossWatch::Together::~Together() {
  --files_together;
}

} // namespace partita
