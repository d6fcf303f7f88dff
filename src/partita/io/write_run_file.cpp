#include "partita/io/write_run_file.hpp"

#include "partita/comm/agree.hpp"
#include "partita/io/durable.hpp"
#include "partita/io/hdf5.hpp"
#include "partita/io/parallel_file.hpp"
#include "partita/io/read_run_file.hpp"

#include <filesystem>
#include <memory>
#include <sys/statvfs.h>

namespace partita {

namespace {

namespace fs = std::filesystem;

/// A disk that is full is better noticed before HDF5 is half through.
void checkFreeSpace(const std::string& path, const RunFileContent& content) {
  constexpr std::int64_t besides = 1 << 20;
  std::int64_t bytes = besides;
  for (const TensorRecord& tensor : content.tensors)
    bytes += tensor.size() * static_cast<std::int64_t>(sizeof(Real));
  struct statvfs disk {};
  if (statvfs(fs::path(path).parent_path().string().c_str(), &disk) != 0) return; // creating it will tell
  const auto available = static_cast<double>(disk.f_bavail) * static_cast<double>(disk.f_frsize);
  if (available < static_cast<double>(bytes))
    throw UserError(path + ": the disk is full (" + std::to_string(bytes / 1000000) + " MB are needed, " +
                    std::to_string(static_cast<std::int64_t>(available / 1e6)) + " MB are free)");
}

/// A file that somebody may still have open: what it took of the disk is free at once.
void removeOpenFile(const std::string& path) {
  std::error_code ignored;
  fs::resize_file(path, 0, ignored);
  fs::remove(path, ignored);
}

void markComplete(const std::string& path) {
  {
    const Hdf5Id file = checkedId(H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), H5Fclose,
                                  path + ": cannot be opened again");
    changeAttribute(file.get(), "complete", 1, path);
  }
  syncFile(path);
}

void writeSteps(const Communicator& comm, const std::string& path, const RunFileContent& content,
                int compression) {
  collectively(comm, [&] {
    if (comm.rank() == 0) checkFreeSpace(path, content);
  });
  std::unique_ptr<ParallelFile> file;
  collectively(comm, [&] { file = std::make_unique<ParallelFile>(comm, path, content, compression); });
  collectively(comm, [&] { file->writeValues(); });
  file->writeChecksums();
  collectively(comm, [&] { file->close(); });
  collectively(comm, [&] { syncFile(path); }); // each node has pages of its own
  collectively(comm, [&] {
    if (comm.rank() == 0) markComplete(path);
  });
  if (compression == 0) return;
  // Not every MPI tells when a write of ranks together has failed.
  collectively(comm, [&] {
    RunFile(path).verify(static_cast<std::size_t>(comm.rank()), static_cast<std::size_t>(comm.size()));
  });
}

} // namespace

void writeRunFile(const Communicator& comm, const std::string& path, const RunFileContent& content,
                  int compression) {
  const Hdf5Silence silence;
  try {
    writeSteps(comm, path, content, compression);
  } catch (const UserError&) {
    if (comm.rank() == 0) removeOpenFile(path);
    throw;
  }
}

} // namespace partita
