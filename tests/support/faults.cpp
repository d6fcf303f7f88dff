// Loaded with LD_PRELOAD: makes one call of a real run fail. PARTITA_FAULT=KIND:RANK:NUMBER. KIND is `lose`
// (a message is never sent, and MPI reports success) or `fail` (MPI reports an error), where NUMBER counts
// the matrices that the rank sends, from 1; `halt` (the rank stops itself by SIGSTOP before it enters barrier
// NUMBER, counted from 1); `dup` (the same before it duplicates a communicator for the NUMBERth time); `sync`
// (the first file of arrays that the rank synchronises with the disk takes NUMBER seconds, or until the file
// of PARTITA_FAULT_OVER exists); `disk` (files whose names begin with "step-" cannot be read); `table` (nor
// can tables after their first block); `count` (no call fails; at its end the rank prints how many sums over
// ranks, duplicates of communicators and barriers it has started); `order` (no call fails; the process prints
// each file that is renamed, and whether its contents were synchronised before); `quota` (the system gives up
// rows of tables, and says so once, when they are synchronised); `space` (NUMBER bytes are free in folders
// named "checkpoints"); `window` (the rank gets no memory to share with others); or `create` (the rank cannot
// create its data set NUMBER, counted from 1).

#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <dlfcn.h>
#include <mutex>
#include <string>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace {

struct Fault {
  char kind[8] = "";
  int rank = -1, number = 0;
};

Fault readFault() {
  Fault fault;
  const char* text = std::getenv("PARTITA_FAULT");
  if (text != nullptr) std::sscanf(text, "%7[a-z]:%d:%d", fault.kind, &fault.rank, &fault.number);
  return fault;
}

/// Prints the time, so that a test can measure how long detection took.
void announce() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  std::fprintf(stderr, "faults: %.3f\n",
               static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec));
}

const Fault& fault() {
  static const Fault read = readFault();
  return read;
}

void waitForTheEnd() {
  constexpr int looks_per_second = 100;
  const char* over = std::getenv("PARTITA_FAULT_OVER");
  for (int look = 0; look < looks_per_second * fault().number; ++look) {
    if (over != nullptr && access(over, F_OK) == 0) return;
    usleep(1000000 / looks_per_second);
  }
}

bool isOfRank(int wanted) {
  int rank = 0;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank == wanted;
}

std::string pathOf(int file) {
  std::array<char, 64> link{};
  std::array<char, 4096> path{};
  std::snprintf(link.data(), link.size(), "/proc/self/fd/%d", file);
  return readlink(link.data(), path.data(), path.size() - 1) > 0 ? path.data() : "";
}

/// Returns whether the file is a checkpoint or a table on a broken disk.
bool isUnreadable(int file) {
  if (std::strcmp(fault().kind, "disk") == 0) return pathOf(file).find("/step-") != std::string::npos;
  return std::strcmp(fault().kind, "table") == 0 && pathOf(file).find(".csv") != std::string::npos &&
         lseek(file, 0, SEEK_CUR) > 0;
}

/// Returns whether the file is a checkpoint, parameters or predictions, rather than a deck or a table.
bool hasArrays(int file) {
  const std::string path = pathOf(file);
  return path.find(".h5") != std::string::npos || path.find(".npz") != std::string::npos;
}

/// Returns true once, for a `.csv` that is not `.partial`.
bool exceedsQuota(int file) {
  static bool told = false;
  const std::string path = std::strcmp(fault().kind, "quota") == 0 ? pathOf(file) : "", end = ".csv";
  const bool table = path.size() > end.size() && path.compare(path.size() - end.size(), end.size(), end) == 0;
  return table && !std::exchange(told, true);
}

/// A file as it was when it was synchronised: what is written later changes its time.
struct Synchronised {
  ino_t file;
  timespec changed;
};
std::mutex mutex; // checkpoints are written by a thread of their own
std::vector<Synchronised> synchronised;

bool wasSynchronised(const char* path) {
  struct stat now {};
  if (stat(path, &now) != 0) return false;
  const std::lock_guard<std::mutex> lock(mutex);
  for (const Synchronised& then : synchronised)
    if (then.file == now.st_ino && then.changed.tv_sec == now.st_mtim.tv_sec &&
        then.changed.tv_nsec == now.st_mtim.tv_nsec)
      return true;
  return false;
}

template <class Function>
Function original(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

ssize_t ioError() {
  errno = EIO;
  return -1;
}

} // namespace

extern "C" ssize_t read(int file, void* to, size_t count) {
  static const auto real = original<ssize_t (*)(int, void*, size_t)>("read");
  return isUnreadable(file) ? ioError() : real(file, to, count);
}

extern "C" ssize_t pread(int file, void* to, size_t count, off_t at) {
  static const auto real = original<ssize_t (*)(int, void*, size_t, off_t)>("pread");
  return isUnreadable(file) ? ioError() : real(file, to, count, at);
}

extern "C" ssize_t pread64(int file, void* to, size_t count, off64_t at) {
  static const auto real = original<ssize_t (*)(int, void*, size_t, off64_t)>("pread64");
  return isUnreadable(file) ? ioError() : real(file, to, count, at);
}

extern "C" int fsync(int file) {
  static bool over = false;
  if (!over && std::strcmp(fault().kind, "sync") == 0 && hasArrays(file) && isOfRank(fault().rank)) {
    over = true;
    announce();
    waitForTheEnd();
  }
  if (exceedsQuota(file)) {
    errno = EDQUOT;
    return -1;
  }
  const int result = fdatasync(file);
  struct stat now {};
  if (std::strcmp(fault().kind, "order") == 0 && fstat(file, &now) == 0) {
    const std::lock_guard<std::mutex> lock(mutex);
    synchronised.push_back({now.st_ino, now.st_mtim});
  }
  return result;
}

extern "C" int rename(const char* from, const char* to) noexcept {
  static const auto real = original<int (*)(const char*, const char*)>("rename");
  if (std::strcmp(fault().kind, "order") == 0)
    std::fprintf(stderr, "faults: %s %s\n", wasSynchronised(from) ? "synchronised" : "NOT synchronised", to);
  return real(from, to);
}

extern "C" int statvfs(const char* path, struct statvfs* found) noexcept {
  static const auto real = original<int (*)(const char*, struct statvfs*)>("statvfs");
  const int result = real(path, found);
  if (result == 0 && std::strcmp(fault().kind, "space") == 0 && std::strstr(path, "checkpoints") != nullptr)
    found->f_bavail = static_cast<fsblkcnt_t>(fault().number), found->f_frsize = 1;
  return result;
}

extern "C" int MPI_Win_allocate_shared(MPI_Aint bytes, int unit, MPI_Info info, MPI_Comm comm, void* begin,
                                       MPI_Win* window) {
  if (std::strcmp(fault().kind, "window") == 0 && isOfRank(fault().rank)) return MPI_ERR_OTHER;
  return PMPI_Win_allocate_shared(bytes, unit, info, comm, begin, window);
}

using Hdf5Id = std::int64_t; // as in HDF5, whose header this library does without

extern "C" Hdf5Id H5Dcreate2(Hdf5Id place, const char* name, Hdf5Id type, Hdf5Id space, Hdf5Id links,
                             Hdf5Id creation, Hdf5Id access) {
  using Create = Hdf5Id (*)(Hdf5Id, const char*, Hdf5Id, Hdf5Id, Hdf5Id, Hdf5Id, Hdf5Id);
  static const auto real = original<Create>("H5Dcreate2");
  static int created = 0;
  if (std::strcmp(fault().kind, "create") == 0 && isOfRank(fault().rank) && ++created == fault().number)
    return -1;
  return real(place, name, type, space, links, creation, access);
}

extern "C" int MPI_Issend(const void* buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
                          MPI_Request* request) {
  static int sent = 0;
  const bool of_messages = std::strcmp(fault().kind, "lose") == 0 || std::strcmp(fault().kind, "fail") == 0;
  if (!of_messages || !isOfRank(fault().rank) || type == MPI_BYTE || ++sent != fault().number)
    return PMPI_Issend(buffer, count, type, to, tag, comm, request);
  announce();
  *request = MPI_REQUEST_NULL;
  return std::strcmp(fault().kind, "fail") == 0 ? MPI_ERR_OTHER : MPI_SUCCESS;
}

namespace {

int sums = 0, duplicates = 0, barriers = 0;

/// Stops this process before the call that the fault names.
void haltBefore(const char* kind, int call) {
  if (std::strcmp(fault().kind, kind) != 0 || !isOfRank(fault().rank) || call != fault().number) return;
  announce();
  raise(SIGSTOP);
}

} // namespace

extern "C" int MPI_Ibarrier(MPI_Comm comm, MPI_Request* request) {
  haltBefore("halt", ++barriers);
  return PMPI_Ibarrier(comm, request);
}

extern "C" int MPI_Comm_idup(MPI_Comm comm, MPI_Comm* duplicate, MPI_Request* request) {
  haltBefore("dup", ++duplicates);
  return PMPI_Comm_idup(comm, duplicate, request);
}

extern "C" int MPI_Iallreduce(const void* from, void* to, int count, MPI_Datatype type, MPI_Op operation,
                              MPI_Comm comm, MPI_Request* request) {
  ++sums;
  return PMPI_Iallreduce(from, to, count, type, operation, comm, request);
}

extern "C" int MPI_Finalize() {
  if (std::strcmp(fault().kind, "count") == 0 && isOfRank(fault().rank))
    std::fprintf(stderr, "faults: %d sums, %d duplicates, %d barriers\n", sums, duplicates, barriers);
  return PMPI_Finalize();
}
