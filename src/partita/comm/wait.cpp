#include "partita/comm/wait.hpp"

#include "partita/comm/mpi.hpp"
#include "partita/core/clock.hpp"

#include <exception>
#include <thread>
#include <utility>

namespace partita {

namespace {

// Of the main thread alone: a thread that writes a checkpoint waits for MPI as well.
thread_local std::function<void()> idle_hook;
thread_local Watcher* watcher = nullptr;

// Between two pauses lie microseconds; after a gap as long as this the process itself was stopped.
constexpr std::chrono::seconds stopped_after{2};

} // namespace

void Waiting::pause() {
  const auto now = Clock::now();
  if (_start == Clock::time_point() || now - _last > stopped_after) _start = now;
  _last = now;
  // Short waits are the rule between stages of equal speed: spin a little before giving the core away.
  if (now - _start < std::chrono::microseconds(200)) {
    std::this_thread::yield();
    return;
  }
  if (idle_hook) idle_hook();
  if (watcher != nullptr) watcher->waiting(_what, secondsBetween(_start, now));
  std::this_thread::sleep_for(std::chrono::microseconds(50));
}

void Waiting::over() const {
  if (_last - _start > std::chrono::seconds(1)) alive(); // others may have been told of this wait
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

void setIdleHook(std::function<void()> hook) {
  idle_hook = std::move(hook);
}

void alive() {
  if (watcher != nullptr) watcher->computing();
}

void idleBriefly() {
  int unused = 0;
  PARTITA_MPI(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &unused, MPI_STATUS_IGNORE));
  if (idle_hook) idle_hook();
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
  MPI_Wait(&_request, MPI_STATUS_IGNORE); // until then its buffer may be written to
}

} // namespace partita
