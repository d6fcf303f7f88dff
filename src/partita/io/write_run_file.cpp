#include "partita/io/write_run_file.hpp"

#include "partita/comm/agree.hpp"
#include "partita/io/compressed_tensors.hpp"
#include "partita/io/durable.hpp"
#include "partita/io/hdf5.hpp"
#include "partita/io/write_tensors.hpp"

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
    throw SystemError(path + ": the disk is full (" + std::to_string(bytes / 1000000) + " MB is needed, " +
                      std::to_string(static_cast<std::int64_t>(available / 1e6)) + " MB is free)");
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
  const bool first = comm.rank() == 0, open_here = compression == 0 || first;
  collectively(comm, [&] {
    if (first) checkFreeSpace(path, content);
  });
  std::unique_ptr<NewRunFile> file;
  collectively(comm, [&] {
    if (!open_here) return;
    file = compression == 0 ? std::make_unique<NewRunFile>(comm, path, content)
                            : std::make_unique<NewRunFile>(path, content, compression);
  });
  std::vector<double> checksums;
  collectively(comm, [&] {
    checksums = compression == 0 ? writeTensors(*file, content)
                                 : writeCompressed(comm, path, file.get(), content, compression);
    if (first) file->writeSmall();
  });
  comm.sum(checksums); // one rank alone has each
  collectively(comm, [&] {
    if (open_here) file->close(checksums);
  });
  collectively(comm, [&] { syncFile(path); }); // each node has pages of its own
  collectively(comm, [&] {
    if (first) markComplete(path);
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
