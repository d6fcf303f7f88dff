#include "partita/io/write_tensors.hpp"

#include "partita/config/user_error.hpp"
#include "partita/io/durable.hpp"
#include "partita/io/hdf5.hpp"
#include "partita/io/value_check.hpp"

#include <algorithm>
#include <future>

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
  start[0] = static_cast<hsize_t>(rows.first);
  const std::vector<hsize_t> count(block.begin(), block.end());
  const Hdf5Id memory = simpleSpace(block), file = checkedId(H5Dget_space(dataset), H5Sclose, wrong);
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

} // namespace partita
