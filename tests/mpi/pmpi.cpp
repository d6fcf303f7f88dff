#include "pmpi.hpp"

#include <chrono>
#include <map>
#include <random>
#include <thread>
#include <unistd.h>

namespace partita::test {

namespace {

bool recording = false, delaying = false;
std::vector<MpiRecord> kept;
std::mt19937_64 random_bits;
const pid_t own_process = getpid();
std::map<MPI_Comm, MPI_Comm> parents; // of communicators with all ranks of another

/// A duplicate under way.
struct Duplicate {
  MPI_Comm of = MPI_COMM_NULL, *created = nullptr;
};
std::map<MPI_Request, Duplicate> duplicates;

void endDuplicate(MPI_Request request) {
  const auto found = duplicates.find(request);
  if (found == duplicates.end()) return;
  parents[*found->second.created] = found->second.of;
  duplicates.erase(found);
}

MPI_Comm parentOf(MPI_Comm comm) {
  const auto found = parents.find(comm);
  return found == parents.end() ? MPI_COMM_NULL : found->second;
}

void keep(MpiCall call, MPI_Comm comm, int peer, int count, MPI_Datatype type, const void* buffer) {
  if (!recording) return;
  int size = 0;
  MPI_Type_size(type, &size);
  kept.push_back({call, comm, peer, std::int64_t{count} * size, parentOf(comm), buffer});
}

/// Makes one call in `one_in` sleep for up to `longest` microseconds.
void delay(unsigned one_in, unsigned longest) {
  if (!delaying || random_bits() % one_in != 0) return;
  std::this_thread::sleep_for(std::chrono::microseconds(random_bits() % longest));
}

/// The message to be lost, or already lost.
struct Loss {
  int left = 0; ///< messages left until then; 0: none is lost
  std::vector<char> bytes;
  int to = 0, tag = 0;
  MPI_Comm comm = MPI_COMM_NULL;
} loss;

bool loses(const void* buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm) {
  if (loss.left == 0 || type == MPI_BYTE || --loss.left > 0) return false;
  int size = 0;
  MPI_Type_size(type, &size);
  const auto* begin = static_cast<const char*>(buffer);
  loss.bytes.assign(begin, begin + std::int64_t{count} * size);
  loss.to = to;
  loss.tag = tag;
  loss.comm = comm;
  return true;
}

} // namespace

MpiRecording::MpiRecording() {
  kept.clear();
  recording = true;
}

MpiRecording::~MpiRecording() {
  recording = false;
}

std::vector<MpiRecord> MpiRecording::all() const {
  return kept;
}

std::vector<MpiRecord> MpiRecording::on(const Communicator& comm, MpiCall call) const {
  std::vector<MpiRecord> found;
  for (const MpiRecord& record : kept) {
    if (record.comm == comm.get() && record.call == call) found.push_back(record);
  }
  return found;
}

std::vector<MpiRecord> MpiRecording::onDuplicates(const Communicator& comm, MpiCall call) const {
  std::vector<MpiRecord> found;
  for (const MpiRecord& record : kept) {
    if ((record.comm == comm.get() || record.parent == comm.get()) && record.call == call)
      found.push_back(record);
  }
  return found;
}

std::int64_t totalBytes(const std::vector<MpiRecord>& records) {
  std::int64_t sum = 0;
  for (const MpiRecord& record : records) sum += record.bytes;
  return sum;
}

std::int64_t summedBytes(const MpiRecording& recording, const Communicator& comm) {
  const std::int64_t summed = totalBytes(recording.onDuplicates(comm, MpiCall::all_reduce)),
                     sent = totalBytes(recording.onDuplicates(comm, MpiCall::send));
  return comm.size() == 1 ? summed : summed + comm.total(sent) / (2 * (comm.size() - 1));
}

MpiDelays::MpiDelays(std::uint64_t seed) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  random_bits.seed(1000 * seed + static_cast<std::uint64_t>(rank));
  delaying = true;
}

MpiDelays::~MpiDelays() {
  delaying = false;
}

MpiLoss::MpiLoss(int rank, int number) {
  int own = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &own);
  if (own == rank) loss.left = number;
}

MpiLoss::~MpiLoss() {
  loss = {};
}

void MpiLoss::deliver() {
  PMPI_Send(loss.bytes.data(), static_cast<int>(loss.bytes.size()), MPI_BYTE, loss.to, loss.tag, loss.comm);
}

} // namespace partita::test

using partita::test::MpiCall;

// MPI's profiling interface: these definitions take precedence over the library's, which are called PMPI_*.
extern "C" {

int MPI_Comm_split(MPI_Comm comm, int colour, int key, MPI_Comm* created) {
  const int code = PMPI_Comm_split(comm, colour, key, created);
  if (code != MPI_SUCCESS || *created == MPI_COMM_NULL) return code;
  int all = 0, own = 0;
  PMPI_Comm_size(comm, &all);
  PMPI_Comm_size(*created, &own);
  partita::test::parents[*created] = all == own ? comm : MPI_COMM_NULL; // handles are used again
  return code;
}

int MPI_Comm_idup(MPI_Comm comm, MPI_Comm* created, MPI_Request* request) {
  const int code = PMPI_Comm_idup(comm, created, request);
  partita::test::duplicates[*request] = {comm, created};
  return code;
}

int MPI_Send(const void* buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm) {
  partita::test::keep(MpiCall::send, comm, to, count, type, buffer);
  partita::test::delay(4, 500);
  return PMPI_Send(buffer, count, type, to, tag, comm);
}

int MPI_Isend(const void* buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
              MPI_Request* request) {
  partita::test::keep(MpiCall::send, comm, to, count, type, buffer);
  partita::test::delay(4, 500);
  return PMPI_Isend(buffer, count, type, to, tag, comm, request);
}

int MPI_Issend(const void* buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
               MPI_Request* request) {
  partita::test::keep(MpiCall::send, comm, to, count, type, buffer);
  partita::test::delay(4, 500);
  if (!partita::test::loses(buffer, count, type, to, tag, comm))
    return PMPI_Issend(buffer, count, type, to, tag, comm, request);
  *request = MPI_REQUEST_NULL;
  return MPI_SUCCESS;
}

int MPI_Irecv(void* buffer, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
              MPI_Request* request) {
  partita::test::keep(MpiCall::receive, comm, from, count, type, buffer);
  partita::test::delay(4, 500);
  return PMPI_Irecv(buffer, count, type, from, tag, comm, request);
}

int MPI_Recv(void* buffer, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
             MPI_Status* status) {
  partita::test::keep(MpiCall::receive, comm, from, count, type, buffer);
  return PMPI_Recv(buffer, count, type, from, tag, comm, status);
}

int MPI_Test(MPI_Request* request, int* done, MPI_Status* status) {
  partita::test::delay(16, 300);
  const MPI_Request tested = *request;
  const int code = PMPI_Test(request, done, status);
  if (*done != 0) partita::test::endDuplicate(tested);
  return code;
}

int MPI_Iallreduce(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                   MPI_Request* request) {
  partita::test::keep(MpiCall::all_reduce, comm, -1, count, type, out);
  partita::test::delay(4, 500);
  return PMPI_Iallreduce(in, out, count, type, op, comm, request);
}

/// A child of this process has no part in the job.
int MPI_Abort(MPI_Comm comm, int code) {
  if (getpid() != partita::test::own_process) _exit(code);
  return PMPI_Abort(comm, code);
}

// Functions that HDF5 calls.
int MPI_File_write_at(MPI_File file, MPI_Offset offset, const void* buffer, int count, MPI_Datatype type,
                      MPI_Status* status) {
  partita::test::keep(MpiCall::file_write, MPI_COMM_NULL, -1, count, type, buffer);
  return PMPI_File_write_at(file, offset, buffer, count, type, status);
}

int MPI_File_write_at_all(MPI_File file, MPI_Offset offset, const void* buffer, int count, MPI_Datatype type,
                          MPI_Status* status) {
  partita::test::keep(MpiCall::file_write, MPI_COMM_NULL, -1, count, type, buffer);
  return PMPI_File_write_at_all(file, offset, buffer, count, type, status);
}
}
