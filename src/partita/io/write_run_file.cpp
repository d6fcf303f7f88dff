#include "partita/io/write_run_file.hpp"

#include "partita/comm/agree.hpp"
#include "partita/config/user_error.hpp"
#include "partita/data/hdf5.hpp"
#include "partita/io/compressed_tensors.hpp"
#include "partita/io/new_run_file.hpp"
#include "partita/io/output_file.hpp"

#include <algorithm>
#include <filesystem>
#include <future>
#include <memory>
#include <sys/statvfs.h>

namespace partita {

namespace {

// Far below MPI-IO's limit of 2 GB. In calls of 16 MiB Linux spends up to four times as long on the same
// bytes.
constexpr std::int64_t bytes_a_call = 1 << 20;

struct Rows {
  std::int64_t first, count;
};

void writeRows(hid_t dataset, const TensorRecord& tensor, Rows rows, const Real* values,
               const std::string& wrong) {
  std::vector<std::int64_t> block = tensor.extents;
  block[0] = rows.count;
  std::vector<hsize_t> start(block.size(), 0);
  start[0] = rows.first;
  const std::vector<hsize_t> count(block.begin(), block.end());
  const Hdf5Space memory = simpleSpace(block), file = checkedId<Hdf5Space>(H5Dget_space(dataset), wrong);
  checkHdf5(H5Sselect_hyperslab(file.get(), H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr),
            wrong);
  checkHdf5(H5Dwrite(dataset, realType(), memory.get(), file.get(), H5P_DEFAULT, values), wrong);
}

/// Rows of the first dimension, about a megabyte a call; what there is to learn of them is learnt beside it.
std::uint32_t writeTensor(const NewRunFile& file, std::size_t number, const TensorRecord& tensor,
                          const Real* values, const WriteBehind& behind) {
  const std::string wrong = notWritten(file.path(), tensor).what();
  const std::int64_t rows = tensor.extents[0], row_size = tensor.size() / rows;
  const std::int64_t rows_a_call =
      std::max<std::int64_t>(1, bytes_a_call / (row_size * static_cast<std::int64_t>(sizeof(Real))));
  ValueCheck check;
  for (std::int64_t row = 0; row < rows; row += rows_a_call) {
    const Rows block{row, std::min(rows_a_call, rows - row)};
    const Real* from = values + row * row_size;
    const std::future<void> checked =
        std::async(std::launch::async, [&] { check.add(from, block.count * row_size); });
    writeRows(file.tensor(number), tensor, block, from, wrong);
    behind.start();
    checked.wait();
  }
  if (!check.finite) throw notFinite(file.path(), tensor);
  return check.checksum;
}

} // namespace

std::vector<double> writeTensors(const NewRunFile& file, const RunFileContent& content) {
  const WriteBehind behind(file.path());
  std::vector<double> checksums(content.tensors.size(), 0.0);
  for (std::size_t t = 0; t < checksums.size(); ++t) {
    if (content.values[t] != nullptr)
      checksums[t] = writeTensor(file, t, content.tensors[t], content.values[t], behind);
  }
  return checksums;
}

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
    const Hdf5File file = checkedId<Hdf5File>(H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT),
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
