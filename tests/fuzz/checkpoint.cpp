// Reads a checkpoint or parameter file as `partita info` does. The input is either the bytes of the file,
// most of which the first checksum rejects; or, after the word `build:`, a list of oddities in a file that
// HDF5 itself writes: attributes and data sets of other types, sizes, values and names, or missing ones.
#include "partita/data/hdf5.hpp"
#include "partita/io/read_run_file.hpp"

#include <zlib.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <fuzzer/FuzzedDataProvider.h>
#include <set>

#include "fuzz.hpp"

using namespace partita;

namespace {

const std::string word = "build:";

/// A file in memory, but with a name, because HDF5 opens nothing without one.
class NamedFile {
 public:
  ~NamedFile() { std::remove(_path.c_str()); }
  const std::string& path() const { return _path; }
  void assign(const std::uint8_t* data, std::size_t size) const {
    std::ofstream file(_path, std::ios::binary | std::ios::trunc);
    file.write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
    fuzz::require(file.flush().good(), _path + " cannot be written");
  }

 private:
  std::string _path = "/dev/shm/partita-fuzz-" + std::to_string(getpid());
};

/// Writes a small checkpoint with up to four oddities. Whatever HDF5 refuses to write is missing.
class Builder {
 public:
  Builder(const std::string& path, const std::uint8_t* data, std::size_t size)
      : _from(data, size), _file(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT)) {
    for (int i = _from.ConsumeIntegralInRange(0, 4); i > 0; --i)
      _odd.insert(_from.ConsumeIntegralInRange(0, 50));
  }

  void build() {
    for (const char* name : {"/provenance", "/input", "/state", "/parameters", "/parameters/layer0.dense"})
      group(name);
    attribute("/", "format", std::string("Partita"));
    attribute("/", "content", std::string("checkpoint"));
    for (const char* name : {"format_version", "complete", "classes"}) attribute("/", name, std::int64_t{1});
    attribute("/provenance", "compiler", std::string("none"));
    attribute("/state", "phase", std::string("training"));
    for (const char* name : {"stage", "step", "run_step", "training_samples", "seed", "bytes_between_stages",
                             "bytes_between_replicas", "bytes_evaluation"})
      attribute("/state", name, std::int64_t{0});
    for (const char* name : {"steps_per_epoch", "stages", "replicas", "ranks"})
      attribute("/state", name, std::int64_t{1});
    for (const char* name : {"elapsed_seconds", "training_seconds", "evaluation_seconds"})
      attribute("/state", name, 1.0);
    const Hdf5Type text{H5Tcopy(H5T_C_S1)};
    H5Tset_size(text.get(), 20);
    dataset("/deck", text.get(), {});
    dataset("/input/shape", H5T_NATIVE_INT64, {2});
    dataset("/input/shift", H5T_NATIVE_FLOAT, {1});
    dataset("/input/scale", H5T_NATIVE_FLOAT, {1});
    dataset("/state/scores", H5T_NATIVE_DOUBLE, {1, 1, 3});
    dataset("/state/updates", H5T_NATIVE_DOUBLE, {1, 3});
    dataset("/parameters/layer0.dense/weight", H5T_NATIVE_FLOAT, {2, 3});
    dataset("/parameters/layer0.dense/bias", H5T_NATIVE_FLOAT, {2});
  }

 private:
  bool odd() { return _odd.count(_item++) > 0; }

  void group(const std::string& name) {
    if (odd()) {
      H5Lcreate_hard(_file.get(), "/", _file.get(), name.c_str(), H5P_DEFAULT,
                     H5P_DEFAULT); // a cycle of links
    } else {
      const Hdf5Group made{H5Gcreate2(_file.get(), name.c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT)};
    }
  }

  template <class T>
  void attribute(const std::string& object, const std::string& name, const T& value) {
    const Hdf5Object opened{H5Oopen(_file.get(), object.c_str(), H5P_DEFAULT)};
    if (!opened) return;
    const bool is_odd = odd();
    fuzz::accepted([&] {
      if (is_odd) {
        oddAttribute(opened.get(), name);
      } else {
        writeAttribute(opened.get(), name, value, "build");
      }
    });
  }

  void oddAttribute(hid_t object, const std::string& name) {
    switch (_from.ConsumeIntegralInRange(0, 5)) {
    case 0:
      return;
    case 1:
      return writeAttribute(object, name, _from.ConsumeIntegral<std::int64_t>(), "build");
    case 2:
      return writeAttribute(object, name, std::int64_t{_from.ConsumeIntegralInRange(-1, 4)}, "build");
    case 3:
      return writeAttribute(object, name, _from.ConsumeFloatingPoint<double>(), "build");
    case 4:
      return writeAttribute(object, name + _from.ConsumeRandomLengthString(8),
                            _from.ConsumeRandomLengthString(64), "build");
    default:
      const Hdf5Type type = anyType(1000);
      const Hdf5Space space = anySpace(1);
      const Hdf5Attribute made{
          H5Acreate2(object, name.c_str(), type.get(), space.get(), H5P_DEFAULT, H5P_DEFAULT)};
    }
  }

  void dataset(const std::string& name, hid_t type, const std::vector<std::int64_t>& extents) {
    if (odd()) return oddDataset(name);
    const Hdf5Space space = extents.empty() ? Hdf5Space(H5Screate(H5S_SCALAR)) : simpleSpace(extents);
    const Hdf5Dataset made{
        H5Dcreate2(_file.get(), name.c_str(), type, space.get(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT)};
    if (!made) return;
    std::vector<unsigned char> values(static_cast<std::size_t>(H5Dget_storage_size(made.get())) + 64);
    if (H5Tequal(type, H5T_NATIVE_INT64) > 0) // ones: no extent is 0
      for (std::size_t i = 0; i + 8 <= values.size(); i += 8) values[i] = 1;
    H5Dwrite(made.get(), type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data());
    const auto bytes =
        static_cast<std::size_t>(H5Sget_simple_extent_npoints(space.get())) * H5Tget_size(type);
    fuzz::accepted([&] {
      writeAttribute(made.get(), "crc32", static_cast<std::int64_t>(crc32_z(0, values.data(), bytes)),
                     "build");
    });
  }

  void oddDataset(const std::string& name) {
    const std::string other = _from.ConsumeBool() ? name : name + _from.ConsumeRandomLengthString(24);
    const Hdf5Type type = anyType(std::size_t{1} << 33);
    const Hdf5Space space = anySpace(4);
    const Hdf5List list{H5Pcreate(H5P_DATASET_CREATE)};
    const hsize_t chunk[] = {4, 4, 4, 4};
    const int rank = H5Sget_simple_extent_ndims(space.get());
    if (rank > 0 && _from.ConsumeBool()) H5Pset_chunk(list.get(), rank, chunk);
    if (_from.ConsumeBool()) H5Pset_deflate(list.get(), 1);
    const Hdf5Dataset made{H5Dcreate2(_file.get(), other.c_str(), type.get(), space.get(), H5P_DEFAULT,
                                      list.get(), H5P_DEFAULT)};
    if (made) fuzz::accepted([&] { writeAttribute(made.get(), "crc32", std::int64_t{0}, "build"); });
  }

  Hdf5Type anyType(std::size_t longest_text) {
    const hid_t plain[] = {H5T_NATIVE_INT64, H5T_NATIVE_FLOAT, H5T_NATIVE_DOUBLE, H5T_STD_U8BE,
                           H5T_NATIVE_LDOUBLE};
    const auto choice = _from.ConsumeIntegralInRange<std::size_t>(0, 7);
    if (choice < std::size(plain)) return Hdf5Type(H5Tcopy(plain[choice]));
    if (choice == 5) return Hdf5Type(H5Tvlen_create(H5T_NATIVE_FLOAT));
    Hdf5Type text{H5Tcopy(H5T_C_S1)};
    H5Tset_size(text.get(),
                choice == 6 ? H5T_VARIABLE : _from.ConsumeIntegralInRange<std::size_t>(1, longest_text));
    return text;
  }

  Hdf5Space anySpace(std::size_t most_axes) {
    std::vector<hsize_t> sizes(_from.ConsumeIntegralInRange<std::size_t>(0, most_axes));
    for (hsize_t& size : sizes)
      size = most_axes == 1 || _from.ConsumeBool() ? _from.ConsumeIntegralInRange<hsize_t>(0, 40)
                                                   : _from.ConsumeIntegral<hsize_t>();
    if (sizes.empty()) return Hdf5Space(H5Screate(_from.ConsumeBool() ? H5S_SCALAR : H5S_NULL));
    return Hdf5Space(H5Screate_simple(static_cast<int>(sizes.size()), sizes.data(), nullptr));
  }

  FuzzedDataProvider _from;
  Hdf5File _file;
  std::set<int> _odd;
  int _item = 0;
};

void readTensors(const RunFile& file) {
  for (const TensorRecord& tensor : file.tensors()) {
    std::size_t size = 1;
    for (const std::int64_t extent : tensor.extents) size *= static_cast<std::size_t>(extent);
    std::vector<Real> values(size);
    fuzz::accepted([&] { file.read(tensor, values.data()); });
    fuzz::require(file.find(tensor.kind, tensor.layer, tensor.name) != nullptr, "a tensor that is not found");
  }
}

/// Is the whole file accepted?
bool readFile(const std::string& path) {
  bool whole = true;
  const bool opened = fuzz::accepted([&] {
    const RunFile file(path);
    whole = fuzz::accepted([&] { file.facts(); }) && whole;
    whole = (!file.isCheckpoint() || fuzz::accepted([&] { file.progress(); })) && whole;
    whole = fuzz::accepted([&] { file.verify(); }) && whole;
    if (whole) readTensors(file);
  });
  return opened && whole;
}

} // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const NamedFile file;
  const Hdf5Silence silence;
  if (size < word.size() || std::memcmp(data, word.data(), word.size()) != 0) {
    file.assign(data, size);
    readFile(file.path());
    return 0;
  }
  const std::size_t odd = size - word.size();
  Builder(file.path(), data + word.size(), odd).build();
  const bool whole = readFile(file.path());
  fuzz::require(whole || odd > 0, "a file in which nothing is odd is refused");
  return 0;
}
