#include "partita/comm/mpi.hpp"

#include <array>
#include <chrono>
#include <limits>
#include <thread>
#include <utility>

namespace partita {

namespace {
// Of the main thread alone: a thread that writes a checkpoint waits for MPI as well.
thread_local std::function<void()> idle_hook;
} // namespace

std::string describeMpiError(const char* call, int code) {
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  return std::string(call) + " failed: " + std::string(text.data(), static_cast<std::size_t>(length));
}

MpiEnvironment::MpiEnvironment(int& argc, char**& argv) {
  int provided = 0;
  PARTITA_MPI(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
  PARTITA_MPI(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
}

MpiEnvironment::~MpiEnvironment() {
  MPI_Finalize();
}

bool MpiEnvironment::threadsMayCall() {
  int provided = MPI_THREAD_SINGLE;
  PARTITA_MPI(MPI_Query_thread(&provided));
  return provided == MPI_THREAD_MULTIPLE;
}

Communicator::Communicator(MPI_Comm comm) : _comm(comm) {
  PARTITA_MPI(MPI_Comm_set_errhandler(_comm, MPI_ERRORS_RETURN));
  PARTITA_MPI(MPI_Comm_rank(_comm, &_rank));
  PARTITA_MPI(MPI_Comm_size(_comm, &_size));
}

Communicator Communicator::world() {
  MPI_Comm comm = MPI_COMM_NULL;
  PARTITA_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
  return Communicator(comm);
}

Communicator Communicator::split(int colour, int key) const {
  MPI_Comm comm = MPI_COMM_NULL;
  PARTITA_MPI(MPI_Comm_split(_comm, colour, key, &comm));
  return Communicator(comm);
}

Communicator::Communicator(Communicator&& other) noexcept
    : _comm(std::exchange(other._comm, MPI_COMM_NULL)), _rank(other._rank), _size(other._size) {}

Communicator& Communicator::operator=(Communicator&& other) noexcept {
  std::swap(_comm, other._comm);
  std::swap(_rank, other._rank);
  std::swap(_size, other._size);
  return *this;
}

Communicator::~Communicator() {
  if (_comm != MPI_COMM_NULL) MPI_Comm_free(&_comm);
}

void Communicator::barrier() const {
  MPI_Request request = MPI_REQUEST_NULL;
  PARTITA_MPI(MPI_Ibarrier(_comm, &request));
  wait(request);
}

void Communicator::sum(std::vector<double>& values) const {
  MPI_Request request = MPI_REQUEST_NULL;
  PARTITA_MPI(MPI_Iallreduce(MPI_IN_PLACE, values.data(), mpiCount(static_cast<std::int64_t>(values.size())),
                             MPI_DOUBLE, MPI_SUM, _comm, &request));
  wait(request);
}

std::int64_t Communicator::maximum(std::int64_t value) const {
  PARTITA_MPI(MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_INT64_T, MPI_MAX, _comm));
  return value;
}

double Communicator::maximum(double value) const {
  PARTITA_MPI(MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_DOUBLE, MPI_MAX, _comm));
  return value;
}

std::int64_t Communicator::total(std::int64_t value) const {
  PARTITA_MPI(MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_INT64_T, MPI_SUM, _comm));
  return value;
}

std::vector<std::int64_t> Communicator::gather(std::int64_t value) const {
  std::vector<std::int64_t> values(static_cast<std::size_t>(_size));
  PARTITA_MPI(MPI_Gather(&value, 1, MPI_INT64_T, values.data(), 1, MPI_INT64_T, 0, _comm));
  return values;
}

void setIdleHook(std::function<void()> hook) {
  idle_hook = std::move(hook);
}

void idleBriefly() {
  int unused = 0;
  PARTITA_MPI(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &unused, MPI_STATUS_IGNORE));
  if (idle_hook) idle_hook();
  std::this_thread::sleep_for(std::chrono::microseconds(50));
}

void wait(MPI_Request& request, MPI_Status* status) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  for (;;) {
    int done = 0;
    PARTITA_MPI(MPI_Test(&request, &done, status));
    if (done != 0) return;
    // Short waits are the rule between stages of equal speed: spin a little before giving the core away.
    if (Clock::now() - start < std::chrono::microseconds(200)) {
      std::this_thread::yield();
      continue;
    }
    idleBriefly();
  }
}

int mpiCount(std::int64_t count) {
  PARTITA_REQUIRE(count >= 0 && count <= std::numeric_limits<int>::max(),
                  "message too long for one MPI call");
  return static_cast<int>(count);
}

} // namespace partita
