#include "partita/io/new_run_file.hpp"

#include "partita/comm/agree.hpp"
#include "partita/config/files.hpp"
#include "partita/config/user_error.hpp"
#include "partita/data/hdf5.hpp"
#include "partita/io/compressed_tensors.hpp"

#include <zlib.h>

#include <algorithm>
#include <fcntl.h>
#include <filesystem>
#include <system_error>
#include <unistd.h>

namespace partita {

namespace {

// At exit HDF5 would close open files through MPI, which is finalised by then.
[[maybe_unused]] const herr_t not_at_exit = H5dont_atexit();

/// Keeps names of members and attributes in the object's header, which has a checksum, however many there
/// are.
Hdf5List compactList(hid_t kind) {
  Hdf5List list = checkedId<Hdf5List>(H5Pcreate(kind), "HDF5 cannot create a list");
  checkHdf5(H5Pset_link_phase_change(list.get(), 65535, 65534), "HDF5 cannot set how links are stored");
  checkHdf5(H5Pset_attr_phase_change(list.get(), 65535, 65534), "HDF5 cannot set how attributes are stored");
  return list;
}

Hdf5Type textType(const std::string& text) {
  Hdf5Type type = checkedId<Hdf5Type>(H5Tcopy(H5T_C_S1), "HDF5 cannot create a type");
  checkHdf5(H5Tset_size(type.get(), std::max<std::size_t>(1, text.size())), "HDF5 cannot create a type");
  checkHdf5(H5Tset_cset(type.get(), H5T_CSET_UTF8), "HDF5 cannot create a type");
  return type;
}

} // namespace

UserError notFinite(const std::string& path, const TensorRecord& tensor) {
  return UserError(path + ": '" + tensor.path() + "' contains values that are not finite");
}

UserError notWritten(const std::string& path, const TensorRecord& tensor) {
  return UserError(path + ": cannot write '" + tensor.path() + "' (is the disk full?)");
}

CreatedFile::~CreatedFile() {
  if (_file >= 0) ::close(_file);
}

void CreatedFile::exists() {
  _file = ::open(_path.c_str(), O_WRONLY | O_CLOEXEC);
}

void CreatedFile::requireHere() const {
  if (!leadsTo(_path, _file)) throw SystemError(_path + ": was moved or replaced while it was written");
}

void CreatedFile::remove() const {
  std::error_code ignored;
  if (_file < 0 || !leadsTo(_path, _file)) return;
  // Not by name, which may lead to another file at any time.
  [[maybe_unused]] const int truncated = ::ftruncate(_file, 0);
  std::filesystem::remove(_path, ignored);
}

NewRunFile::NewRunFile(const Communicator& comm, std::string path, const RunFileContent& content,
                       CreatedFile& created)
    : NewRunFile(&comm, std::move(path), content, 0, created) {
  fill();
}

NewRunFile::NewRunFile(std::string path, const RunFileContent& content, int compression, CreatedFile& created)
    : NewRunFile(nullptr, std::move(path), content, compression, created) {
  fill();
}

NewRunFile::NewRunFile(const Communicator* comm, std::string path, const RunFileContent& content,
                       int compression, CreatedFile& created)
    : _comm(comm), _path(std::move(path)), _content(content), _compression(compression),
      _deck_type(textType(content.facts.deck)), _file(create(created)) {}

void NewRunFile::together(const std::function<void()>& work) const {
  try {
    work();
  } catch (const UserError& error) {
    if (_comm != nullptr && _comm->size() > 1)
      endJob(_comm->worldRank(_comm->rank()), error.what(), exit_failure);
    throw;
  }
}

void NewRunFile::fill() {
  together([&] {
    listSmallDatasets();
    writeFacts();
    if (_content.progress) writeProgress(*_content.progress);
    for (const SmallDataset& small : _small) createSmall(small);
    for (const TensorRecord& tensor : _content.tensors) createTensor(tensor);
  });
}

Hdf5Unclosed NewRunFile::create(CreatedFile& created) const {
  const Hdf5List access =
      checkedId<Hdf5List>(H5Pcreate(H5P_FILE_ACCESS), "HDF5 cannot create an access list");
  if (_comm != nullptr)
    checkHdf5(H5Pset_fapl_mpio(access.get(), _comm->get(), MPI_INFO_NULL), "this HDF5 cannot use MPI");
  // This format has checksums for everything except values; HDF5 1.10 and later read it.
  checkHdf5(H5Pset_libver_bounds(access.get(), H5F_LIBVER_V110, H5F_LIBVER_V110),
            "HDF5 cannot set the file format");
  const Hdf5List list = compactList(H5P_FILE_CREATE);
  auto file = checkedId<Hdf5Unclosed>(H5Fcreate(_path.c_str(), H5F_ACC_TRUNC, list.get(), access.get()),
                                      failure("cannot be written"));
  if (_comm == nullptr || _comm->rank() == 0) created.exists();
  return file;
}

void NewRunFile::listSmallDatasets() {
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
  if (!facts.label_values.empty())
    list("/input/labels", H5T_NATIVE_INT64, facts.label_values, count(facts.label_values));
  if (!facts.exit_weights.empty())
    list("/exit_weights", H5T_NATIVE_DOUBLE, facts.exit_weights, count(facts.exit_weights));
  if (!_content.progress) return;
  const RunProgress& progress = *_content.progress;
  list("/state/scores", H5T_NATIVE_DOUBLE, progress.scores, {progress.stages, progress.replicas, 3});
  list("/state/updates", H5T_NATIVE_DOUBLE, progress.updates, {progress.stages, 3});
  if (!progress.numbers.empty())
    list("/state/workers", H5T_NATIVE_DOUBLE, progress.numbers, count(progress.numbers));
}

void NewRunFile::writeFacts() {
  const hid_t root = _file.get();
  writeAttribute(root, "format", std::string("Partita"), _path);
  writeAttribute(root, "format_version", run_file_version, _path);
  writeAttribute(root, "content", std::string(_content.progress ? "checkpoint" : "parameters"), _path);
  writeAttribute(root, "complete", std::int64_t{0}, _path);
  writeAttribute(root, "classes", _content.facts.classes, _path);
  const Hdf5Group provenance = group("/provenance");
  for (const auto& [name, value] : _content.facts.provenance)
    writeAttribute(provenance.get(), name, value, _path);
}

void NewRunFile::writeProgress(const RunProgress& progress) {
  const Hdf5Group state = group("/state");
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
  for (const TrafficCounter& counter : traffic_counters) put(counter.name, progress.traffic.*counter.value);
  put("stages", progress.stages);
  put("replicas", progress.replicas);
  put("ranks", progress.ranks);
}

/// Opens the group, or creates it with all its parents.
Hdf5Group NewRunFile::group(const std::string& name) const {
  if (name.empty()) return checkedId<Hdf5Group>(H5Gopen2(_file.get(), "/", H5P_DEFAULT), failure("no root"));
  const std::size_t slash = name.rfind('/');
  const Hdf5Group parent = group(name.substr(0, slash));
  const std::string own = name.substr(slash + 1), wrong = failure("cannot create '" + name + "'");
  if (H5Lexists(parent.get(), own.c_str(), H5P_DEFAULT) > 0)
    return checkedId<Hdf5Group>(H5Gopen2(parent.get(), own.c_str(), H5P_DEFAULT), wrong);
  const Hdf5List list = compactList(H5P_GROUP_CREATE);
  return checkedId<Hdf5Group>(H5Gcreate2(parent.get(), own.c_str(), H5P_DEFAULT, list.get(), H5P_DEFAULT),
                              wrong);
}

Hdf5List NewRunFile::creationList(const TensorRecord* tensor) const {
  Hdf5List list = checkedId<Hdf5List>(H5Pcreate(H5P_DATASET_CREATE), "HDF5 cannot create a list");
  checkHdf5(H5Pset_fill_time(list.get(), H5D_FILL_TIME_NEVER), "HDF5 cannot turn off fill values");
  if (tensor == nullptr || _compression == 0) {
    checkHdf5(H5Pset_alloc_time(list.get(), H5D_ALLOC_TIME_EARLY), "HDF5 cannot allocate data sets early");
    return list;
  }
  std::vector<hsize_t> chunk(tensor->extents.begin(), tensor->extents.end());
  chunk[0] = rowsOfChunk(*tensor);
  checkHdf5(H5Pset_chunk(list.get(), static_cast<int>(chunk.size()), chunk.data()),
            "HDF5 cannot divide a data set into chunks");
  checkHdf5(H5Pset_shuffle(list.get()), "this HDF5 has no shuffle filter");
  checkHdf5(H5Pset_deflate(list.get(), static_cast<unsigned>(_compression)), "this HDF5 cannot compress");
  return list;
}

void NewRunFile::keepDataset(hid_t id, const std::string& name) {
  _datasets.push_back(checkedId<Hdf5Unclosed>(id, failure("cannot create '" + name + "'")));
  writeAttribute(_datasets.back().get(), "crc32", std::int64_t{0}, _path);
}

void NewRunFile::createSmall(const SmallDataset& small) {
  const std::size_t slash = small.path.rfind('/');
  const Hdf5Group parent = group(small.path.substr(0, slash));
  const Hdf5List list = creationList(nullptr);
  const Hdf5Space space = small.extents.empty()
                              ? checkedId<Hdf5Space>(H5Screate(H5S_SCALAR), "HDF5 cannot create a data space")
                              : simpleSpace(small.extents);
  keepDataset(H5Dcreate2(parent.get(), small.path.c_str() + slash + 1, small.type, space.get(), H5P_DEFAULT,
                         list.get(), H5P_DEFAULT),
              small.path);
}

void NewRunFile::createTensor(const TensorRecord& tensor) {
  const Hdf5Group parent = group("/" + tensor.kind + "/" + tensor.layer);
  const Hdf5List list = creationList(&tensor);
  const Hdf5Space space = simpleSpace(tensor.extents);
  keepDataset(H5Dcreate2(parent.get(), tensor.name.c_str(), realType(), space.get(), H5P_DEFAULT, list.get(),
                         H5P_DEFAULT),
              tensor.path());
  const hid_t dataset = _datasets.back().get();
  writeAttribute(dataset, "axes", tensor.axes, _path);
  writeAttribute(dataset, "units", std::string("1"), _path);
}

void NewRunFile::writeSmall() {
  for (std::size_t i = 0; i < _small.size(); ++i) {
    const SmallDataset& small = _small[i];
    checkHdf5(H5Dwrite(_datasets[i].get(), small.type, H5S_ALL, H5S_ALL, H5P_DEFAULT, small.data),
              failure("cannot write '" + small.path + "' (is the disk full?)"));
  }
}

void NewRunFile::setChecksums(const std::vector<std::uint32_t>& tensors) {
  const auto set = [&](std::size_t i, std::int64_t sum) {
    changeAttribute(_datasets[i].get(), "crc32", sum, _path);
  };
  for (std::size_t i = 0; i < _small.size(); ++i)
    set(i, crc32_z(0, static_cast<const unsigned char*>(_small[i].data), _small[i].bytes));
  for (std::size_t t = 0; t < tensors.size(); ++t) set(_small.size() + t, tensors[t]);
}

void NewRunFile::close(const std::vector<std::uint32_t>& tensors) {
  together([&] {
    setChecksums(tensors);
    const std::string wrong = failure("cannot be completed (is the disk full?)");
    for (Hdf5Unclosed& dataset : _datasets) checkHdf5(H5Dclose(dataset.release()), wrong);
    checkHdf5(H5Fclose(_file.release()), wrong);
  });
}

} // namespace partita
