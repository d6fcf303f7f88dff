#include "partita/io/write_run_file.hpp"

#include "partita/comm/agree.hpp"
#include "partita/config/user_error.hpp"
#include "partita/core/error.hpp"
#include "partita/core/log.hpp"
#include "partita/data/hdf5.hpp"
#include "partita/io/compressed_tensors.hpp"
#include "partita/io/new_run_file.hpp"
#include "partita/io/output_file.hpp"
#include "partita/io/value_check.hpp"
#include "partita/io/write_progress.hpp"

#include <algorithm>
#include <filesystem>
#include <future>
#include <memory>
#include <sys/statvfs.h>

namespace partita {

namespace {

// Far below MPI-IO's limit of 2 GB. With calls of 16 MiB Linux takes up to four times as long for the same
// bytes.
constexpr std::int64_t bytes_per_call = 1 << 20;

constexpr std::launch in_thread_if_possible = std::launch::async | std::launch::deferred;

/// Writes blocks of rows of the first dimension, about a megabyte per call, and checks the values
/// concurrently, or afterwards where the system gives no more threads.
ValueCheck writePart(hid_t dataset, const TensorPart& part, const WriteBehind& writing,
                     const std::string& wrong) {
  const std::int64_t rows = part.slice.extents[0], row_size = part.slice.size() / rows;
  const std::int64_t rows_per_call = std::max<std::int64_t>(1, bytes_per_call / (row_size * sizeof(Real)));
  ValueCheck check(part.slice);
  for (std::int64_t row = 0; row < rows; row += rows_per_call) {
    const TensorSlice block = part.slice.rows(row, std::min(rows_per_call, rows - row));
    const Real* from = part.values + row * row_size;
    const std::future<void> checked =
        std::async(in_thread_if_possible, [&] { check.add(from, block.size()); });
    const Hdf5Space memory = simpleSpace(block.extents), file = sliceSpace(dataset, block);
    checkHdf5(H5Dwrite(dataset, realType(), memory.get(), file.get(), H5P_DEFAULT, from), wrong);
    bytes_written += block.size() * static_cast<std::int64_t>(sizeof(Real));
    writing.start();
    checked.wait();
  }
  return check;
}

/// Each rank writes independently; nobody waits. Returns for each tensor the XOR of the checksums of its
/// parts on this rank.
std::vector<std::uint32_t> writeTensors(const NewRunFile& file, const RunFileContent& content) {
  const WriteBehind writing(file.path());
  std::vector<std::uint32_t> checksums(content.tensors.size(), 0);
  for (std::size_t t = 0; t < checksums.size(); ++t) {
    const std::string wrong = notWritten(file.path(), content.tensors[t]).what();
    for (const TensorPart& part : content.parts[t]) {
      if (part.slice.size() == 0) continue;
      const ValueCheck check = writePart(file.tensor(t), part, writing, wrong);
      if (!check.finite()) throw notFinite(file.path(), content.tensors[t]);
      checksums[t] ^= check.checksum();
    }
  }
  return checksums;
}

namespace fs = std::filesystem;

/// Detects a full disk before HDF5 is halfway through the file.
void checkFreeSpace(const std::string& path, const RunFileContent& content) {
  constexpr std::int64_t besides = 1 << 20;
  std::int64_t bytes = besides;
  for (const TensorRecord& tensor : content.tensors) bytes += tensor.size() * sizeof(Real);
  struct statvfs disk {};
  if (statvfs(fs::path(path).parent_path().string().c_str(), &disk) != 0) return; // creating it will fail
  const auto available = static_cast<double>(disk.f_bavail) * static_cast<double>(disk.f_frsize);
  if (available < static_cast<double>(bytes))
    throw SystemError(path + ": the disk is full (" + formatBytes(static_cast<double>(bytes)) +
                      " is needed, " + formatBytes(available) + " is free)");
}

void markComplete(const std::string& path) {
  {
    const Hdf5File file =
        checkedId<Hdf5File>(H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), path + ": cannot be reopened");
    changeAttribute(file.get(), "complete", 1, path);
  }
  syncFile(path);
}

/// Finds the tensors that consist of several parts. Collective.
std::vector<bool> findDivided(const Communicator& comm, const RunFileContent& content) {
  const std::size_t tensors = content.tensors.size();
  std::vector<double> sums(2 * tensors, 0.0);
  for (std::size_t t = 0; t < tensors; ++t) {
    for (const TensorPart& part : content.parts[t]) {
      sums[t] += static_cast<double>(part.slice.size());
      if (!part.slice.all()) sums[tensors + t] = 1.0;
    }
  }
  comm.sum(sums);
  std::vector<bool> divided(tensors);
  for (std::size_t t = 0; t < tensors; ++t) {
    PARTITA_REQUIRE(sums[t] == static_cast<double>(content.tensors[t].size()),
                    "ranks do not hold each value of '" + content.tensors[t].path() + "' exactly once");
    divided[t] = sums[tensors + t] > 0.0;
  }
  return divided;
}

void writeSteps(const Communicator& comm, const std::string& path, const RunFileContent& content,
                int compression, CreatedFile& created) {
  const bool first = comm.rank() == 0, open_here = compression == 0 || first;
  const std::vector<bool> divided = findDivided(comm, content);
  collectively(comm, [&] {
    if (first) checkFreeSpace(path, content);
  });
  std::unique_ptr<NewRunFile> file;
  collectively(comm, [&] {
    if (!open_here) return;
    file = compression == 0 ? std::make_unique<NewRunFile>(comm, path, content, created)
                            : std::make_unique<NewRunFile>(path, content, compression, created);
  });
  std::vector<std::uint32_t> checksums;
  collectively(comm, [&] {
    checksums = compression == 0 ? writeTensors(*file, content)
                                 : writeCompressed(comm, path, file.get(), content, divided, compression);
    if (first) file->writeSmall();
  });
  comm.exclusiveOr(checksums);
  collectively(comm, [&] {
    if (open_here) file->close(checksums);
  });
  collectively(comm, [&] { syncFile(path); }); // each node has its own page cache
  collectively(comm, [&] {
    if (!first) return;
    created.requireHere();
    markComplete(path);
  });
}

} // namespace

void writeRunFile(const Communicator& comm, const std::string& path, const RunFileContent& content,
                  int compression) {
  const Hdf5Silence silence;
  CreatedFile created(path);
  try {
    writeSteps(comm, path, content, compression, created);
  } catch (const UserError&) {
    created.remove();
    throw;
  }
}

} // namespace partita
