#include "partita/comm/wait.hpp"

#include "partita/comm/mpi.hpp"
#include "partita/comm/wait_times.hpp"
#include "partita/core/clock.hpp"
#include "partita/core/region.hpp"

#include <algorithm>
#include <exception>
#include <thread>
#include <utility>
#include <vector>

namespace partita {

namespace {

// Used by the main thread only: a thread that writes a checkpoint waits for MPI as well.
thread_local std::vector<const IdleHook*> idle_hooks;
thread_local bool in_idle_hook = false;
thread_local Watcher* watcher = nullptr;

// Pauses are microseconds apart; after a gap this long, the process itself was stopped.
constexpr std::chrono::seconds stopped_after{2};

thread_local std::vector<std::pair<const char*, double>> wait_times; // few, so that a search is short

void addWaitTime(const char* what, double seconds) {
  const auto found = std::find_if(wait_times.begin(), wait_times.end(),
                                  [what](const auto& other) { return other.first == what; });
  if (found == wait_times.end())
    wait_times.emplace_back(what, seconds);
  else
    found->second += seconds;
}

void callIdleHooks(IdleHook::When when) {
  if (std::exchange(in_idle_hook, true)) return;
  struct Leaving {
    ~Leaving() { in_idle_hook = false; } // a hook may throw, to end the wait
  } const leaving;
  for (const IdleHook* hook : idle_hooks) hook->call(when);
}

} // namespace

std::map<std::string, double> waitTimes() {
  std::map<std::string, double> times; // the same words may have several addresses
  for (const auto& [what, seconds] : wait_times) times[what] += seconds;
  return times;
}

double secondsWaited() {
  double seconds = 0.0;
  for (const auto& [what, time] : wait_times) seconds += time;
  return seconds;
}

void resetWaitTimes() {
  wait_times.clear();
}

UncountedWaits::UncountedWaits() : _before(wait_times) {}
UncountedWaits::~UncountedWaits() {
  wait_times = _before;
}

/// Counts the time since the last pause.
void Waiting::count(Clock::time_point now) const {
  const double seconds = secondsBetween(_last, now);
  addWaitTime(_what.what, seconds);
  PhaseTimes::add(Phase::waiting, seconds, _counted);
}

/// Returns the seconds of this wait so far.
double Waiting::begin() {
  const auto now = Clock::now();
  if (_start != Clock::time_point()) count(now);
  if (_start == Clock::time_point() || now - _last > stopped_after) _start = now;
  _last = now;
  _counted = PhaseTimes::counted();
  return secondsBetween(_start, now);
}

void Waiting::sleepOnce(double waited, double seconds) {
  callIdleHooks(IdleHook::When::long_waits);
  if (watcher != nullptr) watcher->waiting(_what, waited);
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

void Waiting::sleep(double seconds) {
  sleepOnce(begin(), seconds);
}

void Waiting::pause() {
  const double waited = begin();
  // Most waits between stages of equal speed are short, and a rank that yields sees its message at once, even
  // if ranks share cores; a rank that sleeps sees it 100 us later.
  constexpr double short_wait = 2e-3, slow_memory = 0.5e9; // s, bytes/s
  if (waited < short_wait + static_cast<double>(_what.bytes) / slow_memory) {
    pollBriefly();
    return;
  }
  sleepOnce(waited, 50e-6);
}

void Waiting::over() const {
  if (_start != Clock::time_point()) count(Clock::now());
  if (_last - _start > std::chrono::seconds(1)) alive(); // this wait may have been reported
}

void wait(MPI_Request& request, const WaitedFor& what, MPI_Status* status) {
  Waiting waiting(what);
  for (;;) {
    int done = 0;
    PARTITA_MPI(MPI_Test(&request, &done, status));
    if (done != 0) break;
    waiting.pause();
  }
  waiting.over();
}

IdleHook::IdleHook(std::function<void()> call, When when) : _call(std::move(call)), _when(when) {
  idle_hooks.push_back(this);
}

void IdleHook::call(When now) const {
  if (now == When::long_waits || _when == When::all_waits) _call();
}

IdleHook::~IdleHook() {
  idle_hooks.erase(std::find(idle_hooks.begin(), idle_hooks.end(), this));
}

void alive() {
  if (watcher != nullptr) watcher->computing();
}

void pollBriefly() {
  callIdleHooks(IdleHook::When::all_waits);
  std::this_thread::yield();
}

void idleBriefly() {
  int unused = 0;
  PARTITA_MPI(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &unused, MPI_STATUS_IGNORE));
  callIdleHooks(IdleHook::When::long_waits);
  alive();
  std::this_thread::sleep_for(std::chrono::microseconds(50));
}

void setWatcher(Watcher* new_watcher) {
  watcher = new_watcher;
}

Request::~Request() {
  if (!underWay() || std::uncaught_exceptions() > 0) return;
  countLeftRequests(1, _what.what);
}

Request::Request(Request&& other) noexcept
    : _request(std::exchange(other._request, MPI_REQUEST_NULL)), _what(other._what) {}

MPI_Request* Request::start(const WaitedFor& what) {
  PARTITA_REQUIRE(!underWay(), std::string("started twice: ") + what.what);
  _what = what;
  return &_request;
}

Request& Request::send(const void* values, std::int64_t count, MPI_Datatype type, int to, Tag tag,
                       const Communicator& comm, const char* what) {
  PARTITA_MPI(MPI_Isend(values, mpiCount(count), type, to, static_cast<int>(tag), comm.get(),
                        start({WaitedFor::Kind::taker, what, comm.worldRank(to)})));
  return *this;
}

Request& Request::receive(void* values, std::int64_t count, MPI_Datatype type, int from, Tag tag,
                          const Communicator& comm, const char* what) {
  PARTITA_MPI(MPI_Irecv(values, mpiCount(count), type, from, static_cast<int>(tag), comm.get(),
                        start({WaitedFor::Kind::message, what, comm.worldRank(from)})));
  return *this;
}

bool Request::test(MPI_Status* status) {
  int done = 0;
  PARTITA_MPI(MPI_Test(&_request, &done, status));
  return done != 0;
}

void Request::wait(MPI_Status* status) {
  partita::wait(_request, _what, status);
}

void Request::abandon() {
  if (!underWay()) return;
  MPI_Cancel(&_request);
  MPI_Wait(&_request, MPI_STATUS_IGNORE); // until then its buffer may still be written
}

} // namespace partita
