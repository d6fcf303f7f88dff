#include "partita/comm/mpi.hpp"

#include "partita/comm/lasting.hpp"
#include "partita/comm/link.hpp"
#include "partita/comm/loss_watch.hpp"
#include "partita/comm/wait.hpp"
#include "partita/config/text.hpp"

#if defined(__linux__)
#include <dlfcn.h>
#include <link.h>
#endif

#include <array>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <mutex>
#include <numeric>
#include <utility>

namespace partita {

namespace {

WaitedFor everyone(const char* what) {
  return {WaitedFor::Kind::all, what};
}

} // namespace

std::string describeMpiError(const char* call, int code) {
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  return std::string(call) + " failed: " + std::string(text.data(), length);
}

namespace {

/// Keeps all libraries loaded until the process ends. Open MPI unloads its plugins in MPI_Finalize; a thread
/// that still runs in one of them would crash.
void keepLibrariesLoaded() {
#if defined(__linux__)
  std::vector<std::string> names;
  dl_iterate_phdr(
      [](dl_phdr_info* library, std::size_t, void* found) {
        static_cast<std::vector<std::string>*>(found)->emplace_back(library->dlpi_name);
        return 0;
      },
      &names);
  for (const std::string& name : names)
    if (!name.empty()) dlopen(name.c_str(), RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
#endif
}

} // namespace

void startWithoutDaemon() {
  for (const char* of_launcher : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK", "SLURM_STEP_ID"})
    if (std::getenv(of_launcher) != nullptr) return;
  setenv("OMPI_MCA_ess_singleton_isolated", "1", 0);
  setenv("OMPI_MCA_orte_create_session_dirs", "0", 0);
}

MpiEnvironment::MpiEnvironment(int& argc, char**& argv) {
  int provided = 0;
  PARTITA_MPI(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
  keepLibrariesLoaded();
  PARTITA_MPI(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
}

MpiEnvironment::~MpiEnvironment() {
#ifndef NDEBUG
  const std::string leaks = describeLeaks();
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (!leaks.empty())
    std::fprintf(stderr, "partita: rank %d: not released before MPI ends: %s\n", rank, leaks.c_str());
#endif
  MPI_Finalize();
}

std::string MpiEnvironment::library() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  PARTITA_MPI(MPI_Get_library_version(text.data(), &length));
  std::string name;
  for (const char c : std::string(text.data(), length)) {
    if (c == ',' || c == '\n') break;
    const bool space = std::isspace(static_cast<unsigned char>(c)) != 0; // MPICH has tabs, or several spaces
    if (!space || (!name.empty() && name.back() != ' ')) name += space ? ' ' : c;
  }
  return name;
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
  _world_ranks.assign(static_cast<std::size_t>(_size), -1);
  countCommunicators(1);
}

Communicator Communicator::world() {
  MPI_Comm comm = MPI_COMM_NULL;
  PARTITA_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
  return Communicator(comm);
}

Communicator Communicator::split(int colour, int key) const {
  barrier(); // MPI_Comm_split blocks: wait for missing ranks here, where the watchdog sees it
  MPI_Comm comm = MPI_COMM_NULL;
  PARTITA_MPI(MPI_Comm_split(_comm, colour, key, &comm));
  return Communicator(comm);
}

Communicator Communicator::duplicate() const {
  barrier(); // ranks that are lost before they come here leave no communicator half made
  const Lasting<MPI_Comm> comm(MPI_COMM_NULL);
  Request request;
  PARTITA_MPI(MPI_Comm_idup(_comm, &*comm, request.start(everyone("communicator"))));
  request.wait();
  return Communicator(*comm);
}

Communicator::Communicator(Communicator&& other) noexcept
    : _comm(std::exchange(other._comm, MPI_COMM_NULL)), _rank(other._rank), _size(other._size),
      _world_ranks(std::move(other._world_ranks)) {}

Communicator& Communicator::operator=(Communicator&& other) noexcept {
  std::swap(_comm, other._comm);
  std::swap(_rank, other._rank);
  std::swap(_size, other._size);
  std::swap(_world_ranks, other._world_ranks);
  return *this;
}

Communicator::~Communicator() {
  if (_comm == MPI_COMM_NULL) return;
  countCommunicators(-1);
  // Operations with lost ranks, for which nobody waits any more, may still use it.
  if (std::uncaught_exceptions() == 0 || !LossWatch::anyLost()) MPI_Comm_free(&_comm);
}

Communicator Communicator::node() const {
  barrier(); // as in split
  MPI_Comm comm = MPI_COMM_NULL;
  PARTITA_MPI(MPI_Comm_split_type(_comm, MPI_COMM_TYPE_SHARED, _rank, MPI_INFO_NULL, &comm));
  return Communicator(comm);
}

Communicator Communicator::only(const std::vector<int>& ranks) const {
  MPI_Group all = MPI_GROUP_NULL, some = MPI_GROUP_NULL;
  MPI_Comm comm = MPI_COMM_NULL;
  PARTITA_MPI(MPI_Comm_group(_comm, &all));
  PARTITA_MPI(MPI_Group_incl(all, static_cast<int>(ranks.size()), ranks.data(), &some));
  PARTITA_MPI(MPI_Comm_create_group(_comm, some, 0, &comm));
  PARTITA_MPI(MPI_Group_free(&some));
  PARTITA_MPI(MPI_Group_free(&all));
  return Communicator(comm);
}

int Communicator::worldRank(int rank) const {
  int& known = _world_ranks[static_cast<std::size_t>(rank)];
  if (known < 0) translate(&rank, 1, &known);
  return known;
}

std::vector<int> Communicator::worldRanks(const std::vector<int>& ranks) const {
  std::vector<int> found(ranks.size());
  translate(ranks.data(), static_cast<int>(ranks.size()), found.data());
  return found;
}

std::vector<int> Communicator::worldRanks() const {
  std::vector<int> ranks(static_cast<std::size_t>(_size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return worldRanks(ranks);
}

void Communicator::translate(const int* ranks, int count, int* found) const {
  MPI_Group own = MPI_GROUP_NULL, world = MPI_GROUP_NULL;
  PARTITA_MPI(MPI_Comm_group(_comm, &own));
  PARTITA_MPI(MPI_Comm_group(MPI_COMM_WORLD, &world));
  PARTITA_MPI(MPI_Group_translate_ranks(own, count, ranks, world, found));
  PARTITA_MPI(MPI_Group_free(&own));
  PARTITA_MPI(MPI_Group_free(&world));
}

void Communicator::barrier() const {
  Request request;
  PARTITA_MPI(MPI_Ibarrier(_comm, request.start(everyone("barrier"))));
  request.wait();
}

void Communicator::reduce(void* values, std::int64_t count, MPI_Datatype type, MPI_Op operation) const {
  int bytes = 0;
  PARTITA_MPI(MPI_Type_size(type, &bytes));
  const auto* const begin = static_cast<const char*>(values);
  const Lasting<std::vector<char>> all(std::vector<char>(begin, begin + bytes * count));
  Request request;
  PARTITA_MPI(MPI_Iallreduce(MPI_IN_PLACE, all->data(), mpiCount(count), type, operation, _comm,
                             request.start(everyone("reduction"))));
  request.wait();
  if (count > 0) std::memcpy(values, all->data(), all->size());
  if (!linkModel().slow()) return;
  const double due = SlowLink().summed(bytes * count, _size); // counted from the arrival of the last rank
  Waiting waiting(everyone("reduction"));
  while (linkSeconds() < due) waiting.pause();
  waiting.over();
}

void Communicator::sum(std::vector<double>& values) const {
  reduce(values.data(), values.size(), MPI_DOUBLE, MPI_SUM);
}

void Communicator::exclusiveOr(std::vector<std::uint32_t>& values) const {
  reduce(values.data(), values.size(), MPI_UINT32_T, MPI_BXOR);
}

std::int64_t Communicator::maximum(std::int64_t value) const {
  reduce(&value, 1, MPI_INT64_T, MPI_MAX);
  return value;
}

double Communicator::maximum(double value) const {
  reduce(&value, 1, MPI_DOUBLE, MPI_MAX);
  return value;
}

std::int64_t Communicator::minimum(std::int64_t value) const {
  reduce(&value, 1, MPI_INT64_T, MPI_MIN);
  return value;
}

std::int64_t Communicator::total(std::int64_t value) const {
  reduce(&value, 1, MPI_INT64_T, MPI_SUM);
  return value;
}

std::vector<std::int64_t> Communicator::gather(std::int64_t value) const {
  const Lasting<std::int64_t> own(value);
  const Lasting<std::vector<std::int64_t>> values(
      std::vector<std::int64_t>(static_cast<std::size_t>(_size), 0));
  Request request;
  PARTITA_MPI(MPI_Igather(&*own, 1, MPI_INT64_T, values->data(), 1, MPI_INT64_T, 0, _comm,
                          request.start(everyone("gathering"))));
  request.wait();
  return *values;
}

int mpiCount(std::int64_t count) {
  PARTITA_REQUIRE(count >= 0 && count <= std::numeric_limits<int>::max(),
                  "message too long for one MPI call");
  return static_cast<int>(count);
}

namespace {

std::mutex mutex;
MpiObjects objects;

} // namespace

MpiObjects mpiObjects() {
  const std::lock_guard<std::mutex> lock(mutex);
  return objects;
}

void countCommunicators(int change) {
  const std::lock_guard<std::mutex> lock(mutex);
  objects.communicators += change;
}

void countLeftRequests(int change, const char* what) {
  const std::lock_guard<std::mutex> lock(mutex);
  objects.requests += change;
  objects.last_request = what;
}

std::string describeLeaks() {
  const MpiObjects now = mpiObjects();
  std::string text;
  if (now.communicators > 0) text = counted(now.communicators, "communicator") + " not freed";
  if (now.requests > 0) {
    text += (text.empty() ? "" : ", ") + counted(now.requests, "request") + " not completed (" +
            now.last_request + ")";
  }
  return text;
}

} // namespace partita
