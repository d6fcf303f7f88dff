#include "partita/io/parallel_file.hpp"

#include "partita/comm/end_job.hpp"
#include "partita/config/user_error.hpp"
#include "partita/io/hdf5.hpp"

#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <future>

namespace partita {

namespace {

constexpr std::int64_t bytes_a_call = 16 << 20; // far below MPI-IO's limit of 2 GB
constexpr std::int64_t bytes_a_chunk = 4 << 20; // of a compressed data set

// HDF5 closes at the end of the program what is open, with MPI, which then has ended.
[[maybe_unused]] const herr_t not_at_exit = H5dont_atexit();

/// For what is closed by `close` alone: where something has failed, ranks would not come out of a file that
/// they close together.
herr_t leaveOpen(hid_t) {
  return 0;
}

std::uint32_t checksum(std::uint32_t start, const void* data, std::size_t bytes) {
  return static_cast<std::uint32_t>(crc32_z(start, static_cast<const unsigned char*>(data), bytes));
}

/// What is learnt of a block of values while it is being written.
struct BlockCheck {
  std::uint32_t checksum;
  bool finite;
};

BlockCheck checkBlock(std::uint32_t start, const Real* values, std::size_t count) {
  const bool finite = std::all_of(values, values + count, [](Real value) { return std::isfinite(value); });
  return {checksum(start, values, count * sizeof(Real)), finite};
}

/// Names of members and attributes stay in the object's header, which has a checksum, however many they are.
Hdf5Id compactList(hid_t kind) {
  Hdf5Id list = checkedId(H5Pcreate(kind), H5Pclose, "HDF5 cannot make a list");
  checkHdf5(H5Pset_link_phase_change(list.get(), 65535, 65534), "HDF5 cannot keep links together");
  checkHdf5(H5Pset_attr_phase_change(list.get(), 65535, 65534), "HDF5 cannot keep attributes together");
  return list;
}

Hdf5Id textType(const std::string& text) {
  Hdf5Id type = checkedId(H5Tcopy(H5T_C_S1), H5Tclose, "HDF5 cannot make a type");
  checkHdf5(H5Tset_size(type.get(), std::max<std::size_t>(1, text.size())), "HDF5 cannot make a type");
  checkHdf5(H5Tset_cset(type.get(), H5T_CSET_UTF8), "HDF5 cannot make a type");
  return type;
}

/// What the extents of a tensor are, slowest first.
std::string axesOf(const TensorRecord& tensor) {
  switch (tensor.extents.size()) {
  case 1:
    return "outputs";
  case 2:
    return "outputs, inputs";
  case 4:
    return "outputs, inputs, rows, columns";
  default:
    return "outputs, inputs, depth, rows, columns";
  }
}

} // namespace

ParallelFile::ParallelFile(const Communicator& comm, std::string path, const RunFileContent& content,
                           int compression)
    : _comm(comm), _path(std::move(path)), _content(content), _compression(compression), _file(create()),
      _deck_type(textType(content.facts.deck)) {
  listSmallDatasets();
  writeFacts();
  if (content.progress) writeProgress(*content.progress);
  for (const SmallDataset& small : _small) createSmall(small);
  for (const TensorRecord& tensor : content.tensors) createTensor(tensor);
}

Hdf5Id ParallelFile::create() const {
  const Hdf5Id access = checkedId(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, "HDF5 cannot make an access list");
  checkHdf5(H5Pset_fapl_mpio(access.get(), _comm.get(), MPI_INFO_NULL), "this HDF5 cannot use MPI");
  // This format keeps checksums of all that is not values; HDF5 1.10 and later read it.
  checkHdf5(H5Pset_libver_bounds(access.get(), H5F_LIBVER_V110, H5F_LIBVER_V110),
            "HDF5 cannot choose a file format");
  const Hdf5Id list = compactList(H5P_FILE_CREATE);
  return checkedId(H5Fcreate(_path.c_str(), H5F_ACC_TRUNC, list.get(), access.get()), leaveOpen,
                   failure("cannot be written"));
}

void ParallelFile::listSmallDatasets() {
  const RunFacts& facts = _content.facts;
  const auto list = [&](const char* path, hid_t type, const auto& values, std::vector<std::int64_t> extents) {
    _small.push_back({path, type, std::move(extents), values.data(), values.size() * sizeof(values[0])});
  };
  const auto count = [](const auto& values) {
    return std::vector<std::int64_t>{static_cast<std::int64_t>(values.size())};
  };
  list("/deck", _deck_type.get(), facts.deck, {});
  list("/input/shape", H5T_NATIVE_INT64, facts.shape, count(facts.shape));
  list("/input/shift", H5T_NATIVE_FLOAT, facts.shift, count(facts.shift));
  list("/input/scale", H5T_NATIVE_FLOAT, facts.scale, count(facts.scale));
  if (!_content.progress) return;
  const RunProgress& progress = *_content.progress;
  list("/state/scores", H5T_NATIVE_DOUBLE, progress.scores, {progress.stages, progress.replicas, 3});
  list("/state/updates", H5T_NATIVE_DOUBLE, progress.updates, {progress.stages, 3});
}

void ParallelFile::writeFacts() {
  const hid_t root = _file.get();
  writeAttribute(root, "format", std::string("Partita"), _path);
  writeAttribute(root, "format_version", run_file_version, _path);
  writeAttribute(root, "content", std::string(_content.progress ? "checkpoint" : "parameters"), _path);
  writeAttribute(root, "complete", std::int64_t{0}, _path);
  writeAttribute(root, "classes", _content.facts.classes, _path);
  const Hdf5Id provenance = group("/provenance");
  for (const auto& [name, value] : _content.facts.provenance)
    writeAttribute(provenance.get(), name, value, _path);
}

void ParallelFile::writeProgress(const RunProgress& progress) {
  const Hdf5Id state = group("/state");
  const auto put = [&](const char* name, auto value) { writeAttribute(state.get(), name, value, _path); };
  put("phase", std::string(progress.position.phase == RunPhase::recovery ? "recovery" : "training"));
  put("stage", std::int64_t{progress.position.stage});
  put("step", progress.position.step);
  put("run_step", progress.run_step);
  put("epoch", progress.position.step / progress.per_epoch);
  put("batch_in_epoch", progress.position.step % progress.per_epoch);
  put("training_samples", progress.samples);
  put("steps_per_epoch", progress.per_epoch);
  put("seed", progress.seed);
  put("random_numbers", std::string("Philox 4x32-10, a function of seed, stream, epoch and index"));
  put("elapsed_seconds", progress.elapsed_seconds);
  put("training_seconds", progress.training_seconds);
  put("evaluation_seconds", progress.evaluation_seconds);
  put("bytes_between_stages", progress.traffic.between_stages);
  put("bytes_between_replicas", progress.traffic.between_replicas);
  put("bytes_evaluation", progress.traffic.evaluation);
  put("stages", progress.stages);
  put("replicas", progress.replicas);
  put("ranks", progress.ranks);
}

/// Opened, or made with all that is above it.
Hdf5Id ParallelFile::group(const std::string& name) const {
  if (name.empty()) return checkedId(H5Gopen2(_file.get(), "/", H5P_DEFAULT), H5Gclose, failure("no root"));
  const std::size_t slash = name.rfind('/');
  const Hdf5Id parent = group(name.substr(0, slash));
  const std::string own = name.substr(slash + 1), wrong = failure("cannot make '" + name + "'");
  if (H5Lexists(parent.get(), own.c_str(), H5P_DEFAULT) > 0)
    return checkedId(H5Gopen2(parent.get(), own.c_str(), H5P_DEFAULT), H5Gclose, wrong);
  const Hdf5Id list = compactList(H5P_GROUP_CREATE);
  return checkedId(H5Gcreate2(parent.get(), own.c_str(), H5P_DEFAULT, list.get(), H5P_DEFAULT), H5Gclose,
                   wrong);
}

Hdf5Id ParallelFile::creationList(const TensorRecord* tensor) const {
  Hdf5Id list = checkedId(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, "HDF5 cannot make a list");
  checkHdf5(H5Pset_fill_time(list.get(), H5D_FILL_TIME_NEVER), "HDF5 cannot leave data sets unfilled");
  checkHdf5(H5Pset_alloc_time(list.get(), H5D_ALLOC_TIME_EARLY), "HDF5 cannot make data sets early");
  if (tensor == nullptr || _compression == 0) return list;
  std::vector<hsize_t> chunk(tensor->extents.begin(), tensor->extents.end());
  const std::int64_t row = tensor->size() / tensor->extents[0] * static_cast<std::int64_t>(sizeof(Real));
  chunk[0] = static_cast<hsize_t>(
      std::clamp<std::int64_t>(bytes_a_chunk / std::max<std::int64_t>(row, 1), 1, tensor->extents[0]));
  checkHdf5(H5Pset_chunk(list.get(), static_cast<int>(chunk.size()), chunk.data()),
            "HDF5 cannot divide a data set into chunks");
  checkHdf5(H5Pset_shuffle(list.get()), "this HDF5 has no shuffle filter");
  checkHdf5(H5Pset_deflate(list.get(), static_cast<unsigned>(_compression)), "this HDF5 cannot compress");
  return list;
}

void ParallelFile::keepDataset(hid_t id, const std::string& name) {
  _datasets.push_back(checkedId(id, leaveOpen, failure("cannot make '" + name + "'")));
  writeAttribute(_datasets.back().get(), "crc32", std::int64_t{0}, _path);
}

void ParallelFile::createSmall(const SmallDataset& small) {
  const std::size_t slash = small.path.rfind('/');
  const Hdf5Id parent = group(small.path.substr(0, slash)), list = creationList(nullptr);
  const Hdf5Id space = small.extents.empty()
                           ? checkedId(H5Screate(H5S_SCALAR), H5Sclose, "HDF5 cannot make a data space")
                           : simpleSpace(small.extents);
  keepDataset(H5Dcreate2(parent.get(), small.path.c_str() + slash + 1, small.type, space.get(), H5P_DEFAULT,
                         list.get(), H5P_DEFAULT),
              small.path);
}

void ParallelFile::createTensor(const TensorRecord& tensor) {
  const Hdf5Id parent = group("/" + tensor.kind + "/" + tensor.layer), list = creationList(&tensor),
               space = simpleSpace(tensor.extents);
  keepDataset(H5Dcreate2(parent.get(), tensor.name.c_str(), realType(), space.get(), H5P_DEFAULT, list.get(),
                         H5P_DEFAULT),
              tensor.path());
  const hid_t dataset = _datasets.back().get();
  writeAttribute(dataset, "axes", axesOf(tensor), _path);
  writeAttribute(dataset, "units", std::string("1"), _path);
}

/// Rows of the first dimension, some megabytes a call; the checksum is made beside the writing.
std::uint32_t ParallelFile::writeTensor(const Hdf5Id& dataset, const TensorRecord& tensor,
                                        const Real* values) const {
  const std::string wrong = failure("cannot write '" + tensor.path() + "' (is the disk full?)");
  const Hdf5Id file_space = checkedId(H5Dget_space(dataset.get()), H5Sclose, wrong),
               transfer = checkedId(H5Pcreate(H5P_DATASET_XFER), H5Pclose, wrong);
  // Only compressed chunks need all ranks at once: where each writes what is its own, nobody waits.
  checkHdf5(H5Pset_dxpl_mpio(transfer.get(), _compression > 0 ? H5FD_MPIO_COLLECTIVE : H5FD_MPIO_INDEPENDENT),
            wrong);
  const std::int64_t rows = tensor.extents[0], row_size = tensor.size() / rows;
  const std::int64_t rows_a_call =
      std::max<std::int64_t>(1, bytes_a_call / (row_size * static_cast<std::int64_t>(sizeof(Real))));
  std::uint32_t sum = 0;
  herr_t worst = 0;
  bool finite = true;
  for (std::int64_t row = 0; row < rows; row += rows_a_call) {
    std::vector<std::int64_t> block = tensor.extents;
    block[0] = std::min(rows_a_call, rows - row);
    std::vector<hsize_t> start(block.size(), 0);
    start[0] = static_cast<hsize_t>(row);
    const std::vector<hsize_t> count(block.begin(), block.end());
    const Hdf5Id memory_space = simpleSpace(block);
    H5Sselect_hyperslab(file_space.get(), H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr);
    std::future<BlockCheck> check;
    const Real* from = values == nullptr ? nullptr : values + row * row_size;
    if (values == nullptr) {
      H5Sselect_none(file_space.get());
      H5Sselect_none(memory_space.get());
    } else {
      check = std::async(std::launch::async, checkBlock, sum, from,
                         static_cast<std::size_t>(block[0] * row_size));
    }
    worst = std::min(worst, H5Dwrite(dataset.get(), realType(), memory_space.get(), file_space.get(),
                                     transfer.get(), from));
    _behind->start();
    if (check.valid()) {
      const BlockCheck found = check.get();
      sum = found.checksum;
      finite = finite && found.finite;
    }
    if (worst < 0 && _compression == 0) break; // together, all must go on to the end
  }
  if (worst < 0) fail(wrong, _compression > 0);
  if (!finite) throw UserError(failure("'" + tensor.path() + "' has values that are not finite"));
  return sum;
}

void ParallelFile::writeValues() {
  _behind = std::make_unique<WriteBehind>(_path);
  _checksums.assign(_datasets.size(), 0.0);
  for (std::size_t i = 0; i < _small.size(); ++i) {
    const SmallDataset& small = _small[i];
    if (_comm.rank() != 0) continue;
    _checksums[i] = checksum(0, small.data, small.bytes);
    checkHdf5(H5Dwrite(_datasets[i].get(), small.type, H5S_ALL, H5S_ALL, H5P_DEFAULT, small.data),
              failure("cannot write '" + small.path + "' (is the disk full?)"));
  }
  std::string failed; // told at the end: compressed tensors are written by all ranks together, to the last
  for (std::size_t t = 0; t < _content.tensors.size(); ++t) {
    if (_content.values[t] == nullptr && _compression == 0) continue;
    const std::size_t i = _small.size() + t;
    try {
      _checksums[i] = writeTensor(_datasets[i], _content.tensors[t], _content.values[t]);
    } catch (const UserError& error) {
      if (failed.empty()) failed = error.what();
    }
  }
  if (!failed.empty()) throw UserError(failed);
}

void ParallelFile::writeChecksums() {
  _comm.sum(_checksums); // one rank alone has each
  for (std::size_t i = 0; i < _datasets.size(); ++i)
    changeAttribute(_datasets[i].get(), "crc32", static_cast<std::int64_t>(_checksums[i]), _path);
}

void ParallelFile::close() {
  const std::string wrong = failure("cannot be written to the end (is the disk full?)");
  for (Hdf5Id& dataset : _datasets) checkHdf5(H5Dclose(dataset.release()), wrong);
  if (H5Fclose(_file.release()) < 0) fail(wrong, true);
}

/// In a call that ranks make together, the others may wait for this one for ever.
void ParallelFile::fail(const std::string& message, bool together) const {
  if (together && _comm.size() > 1) endJob(_comm.rank(), message, 1);
  throw UserError(message);
}

} // namespace partita
