#include "partita/data/hdf5_data.hpp"

#include "partita/config/files.hpp"
#include "partita/config/text.hpp"
#include "partita/config/user_error.hpp"
#include "partita/core/available_memory.hpp"
#include "partita/core/log.hpp"
#include "partita/data/gzip_file.hpp"
#include "partita/data/hdf5.hpp"
#include "partita/data/hdf5_storage.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>

namespace partita {

namespace {

constexpr std::size_t most_names = 8; ///< of data sets listed in a message

/// An open data set with the information that messages and reads need.
struct Table {
  std::string place; ///< file and name, for messages
  Hdf5Dataset id;
  std::vector<hsize_t> sizes{};
  H5T_class_t type_class = H5T_NO_CLASS;
  bool bytes = false; ///< unsigned integers of 8 bits
};

[[noreturn]] void failReading(const Table& table) {
  const std::string filter = missingFilter(table.id.get());
  if (filter.empty()) failRead(table.place);
  throw UserError(table.place + ": needs the HDF5 filter '" + filter + "', which is not installed");
}

herr_t collectName(hid_t group, const char* name, const H5L_info_t* /*link*/, void* names) {
  return calledByHdf5([&] {
    const Hdf5Object object(H5Oopen(group, name, H5P_DEFAULT));
    if (object && H5Iget_type(object.get()) == H5I_DATASET)
      static_cast<std::vector<std::string>*>(names)->emplace_back(name);
    return 0;
  });
}

/// Is there a group, or something else that is no data set?
bool isOther(hid_t file, const std::string& name) {
  const Hdf5Object object(H5Oopen(file, name.c_str(), H5P_DEFAULT));
  const H5I_type_t type = object ? H5Iget_type(object.get()) : H5I_BADID;
  return type == H5I_GROUP || type == H5I_DATATYPE;
}

[[noreturn]] void failMissing(hid_t file, const std::string& file_name, const std::string& name) {
  if (H5Lexists(file, name.c_str(), H5P_DEFAULT) > 0 && !isOther(file, name))
    throw UserError(file_name + ": data set '" + name + "' cannot be opened by HDF5 " + hdf5Version() +
                    " (damaged, a dangling link, or written by a newer version)");
  std::vector<std::string> names;
  H5Lvisit(file, H5_INDEX_NAME, H5_ITER_INC, collectName, &names);
  if (names.empty()) throw UserError(file_name + ": no data set '" + name + "'; the file contains none");
  const auto nearest = std::find(names.begin(), names.end(), nearestName(name, names));
  if (nearest != names.end()) std::rotate(names.begin(), nearest, nearest + 1);
  names.resize(std::min(names.size(), most_names));
  throw UserError(file_name + ": no data set '" + name + "'; it contains " + quotedList(names));
}

Hdf5File openFile(const std::string& name) {
  const htri_t is_hdf5 = H5Fis_hdf5(name.c_str());
  if (is_hdf5 == 0 && readFailure(name) == 0) throw UserError(name + ": not an HDF5 file");
  Hdf5File file(H5Fopen(name.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
  if (const int reason = file ? 0 : readFailure(name); reason != 0) failFile(name, "cannot be read", reason);
  if (!file) throw UserError(name + ": HDF5 cannot open it (truncated, locked or not readable)");
  return file;
}

Table openTable(hid_t file, const std::string& file_name, const std::string& name) {
  Table table{file_name + ": data set '" + name + "'",
              Hdf5Dataset(H5Dopen2(file, name.c_str(), H5P_DEFAULT))};
  if (!table.id) failMissing(file, file_name, name);
  const Hdf5Type type(H5Dget_type(table.id.get()));
  const Hdf5Space space(H5Dget_space(table.id.get()));
  if (!type || !space) failRead(table.place);
  table.type_class = H5Tget_class(type.get());
  table.bytes = table.type_class == H5T_INTEGER && H5Tget_size(type.get()) == 1 &&
                H5Tget_sign(type.get()) == H5T_SGN_NONE;
  const int rank = H5Sget_simple_extent_ndims(space.get());
  if (rank < 0) failRead(table.place);
  table.sizes.resize(rank);
  if (rank > 0 && H5Sget_simple_extent_dims(space.get(), table.sizes.data(), nullptr) < 0)
    failRead(table.place);
  checkStored(table.id, file_name, table.place);
  return table;
}

/// Values per sample; throws if the product of the sizes is not meaningful.
std::size_t sampleWidth(const Table& table) {
  hsize_t width = 1;
  for (std::size_t d = 1; d < table.sizes.size(); ++d) {
    if (table.sizes[d] == 0) throw UserError(table.place + ": samples have no values");
    if (table.sizes[d] > (hsize_t{1} << 31) / width)
      throw UserError(table.place + ": a sample has more than 2^31 values");
    width *= table.sizes[d];
  }
  return width;
}

/// Reads the first `rows` rows; HDF5 converts them to `Value`.
template <class Value>
std::vector<Value> readRows(const Table& table, std::size_t rows, std::size_t width, hid_t memory_type) {
  std::vector<hsize_t> count = table.sizes;
  const std::vector<hsize_t> start(count.size(), 0);
  count[0] = rows;
  const Hdf5Space file_space(H5Dget_space(table.id.get()));
  const Hdf5Space memory_space(H5Screate_simple(static_cast<int>(count.size()), count.data(), nullptr));
  if (!file_space || !memory_space) failRead(table.place);
  if (H5Sselect_hyperslab(file_space.get(), H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr) < 0)
    failRead(table.place);
  requireMemory(static_cast<double>(rows) * static_cast<double>(width) * sizeof(Value), table.place);
  std::vector<Value> values(rows * width);
  if (H5Dread(table.id.get(), memory_type, memory_space.get(), file_space.get(), H5P_DEFAULT, values.data()) <
      0)
    failReading(table);
  return values;
}

std::vector<std::int32_t> readLabels(const Table& table) {
  if (table.sizes.size() != 1)
    throw UserError(table.place + ": labels must have 1 dimension, not " +
                    std::to_string(table.sizes.size()));
  if (table.type_class != H5T_INTEGER) throw UserError(table.place + ": labels must be integers");
  if (table.sizes[0] == 0) throw UserError(table.place + ": contains no samples");
  const auto wide = readRows<std::int64_t>(table, table.sizes[0], 1, H5T_NATIVE_INT64);
  std::vector<std::int32_t> labels;
  labels.reserve(wide.size());
  for (const std::int64_t label : wide) {
    if (label < 0 || label >= std::numeric_limits<std::int32_t>::max())
      throw UserError(table.place + ": label " + std::to_string(label) + " of sample " +
                      std::to_string(labels.size()) + " is not a class 0, 1, 2, ...");
    labels.push_back(static_cast<std::int32_t>(label));
  }
  return labels;
}

void checkFeatures(const Table& table, std::size_t labels) {
  if (table.sizes.size() < 2)
    throw UserError(table.place + ": features must have 2 or more dimensions (samples first), not " +
                    std::to_string(table.sizes.size()));
  if (table.type_class != H5T_INTEGER && table.type_class != H5T_FLOAT)
    throw UserError(table.place + ": features must be integers or real numbers");
  if (table.sizes[0] != labels)
    throw UserError(table.place + ": " + counted(static_cast<std::int64_t>(table.sizes[0]), "sample") +
                    ", but " + counted(static_cast<std::int64_t>(labels), "label"));
}

Samples readFeatures(const Table& table, std::size_t rows, std::size_t width) {
  if (table.bytes) return Samples(width, readRows<std::uint8_t>(table, rows, width, H5T_NATIVE_UINT8));
  std::vector<float> values = readRows<float>(table, rows, width, H5T_NATIVE_FLOAT);
  for (std::size_t i = 0; i < values.size(); ++i)
    if (!isFeatureValue(values[i]))
      throw UserError(table.place + ": feature " + std::to_string(i % width) + " of sample " +
                      std::to_string(i / width) + " is not a number from -1.7e38 to 1.7e38");
  return Samples(width, std::move(values));
}

/// The labels of samples that have none: a class that every network has.
std::vector<std::int32_t> placeholders(const Table& features) {
  const std::size_t samples = features.sizes.empty() ? 0 : features.sizes[0];
  if (samples == 0) throw UserError(features.place + ": contains no samples");
  requireMemory(static_cast<double>(samples) * sizeof(std::int32_t), features.place);
  return std::vector<std::int32_t>(samples, 0);
}

LoadedSet readOne(const DataSection& section, const std::string& path, std::int64_t limit, Need need,
                  bool labels_optional) {
  const Hdf5Silence silence;
  const std::string name = findFile(path);
  const Hdf5File file = openFile(name);
  const Table features = openTable(file.get(), name, section.features);
  LoadedSet set;
  set.labelled = !labels_optional || H5Lexists(file.get(), section.labels.c_str(), H5P_DEFAULT) > 0;
  set.features_source = set.labels_source = name;
  set.labels =
      set.labelled ? readLabels(openTable(file.get(), name, section.labels)) : placeholders(features);
  checkFeatures(features, set.labels.size());
  set.shape.assign(features.sizes.begin() + 1, features.sizes.end());
  if (set.shape.size() == 2) set.shape.insert(set.shape.begin(), 1); // an image without channels
  const std::size_t width = sampleWidth(features);
  if (need == Need::everything)
    set.features = readFeatures(features, keptRows(set.labels.size(), limit), width);
  return set;
}

} // namespace

LoadedSets readHdf5(const DataSection& section, Need need, const TrainedInput* trained) {
  const bool tested = !section.test_file.empty();
  LoadedSets sets;
  if (trained == nullptr || !tested)
    sets.train = readOne(section, dataPath(section, section.train_file), section.samples, need, false);
  if (tested)
    sets.test = readOne(section, dataPath(section, section.test_file), section.test_samples, need,
                        trained != nullptr && trained->labels_optional);
  return sets;
}

} // namespace partita
