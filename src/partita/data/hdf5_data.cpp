#include "partita/data/hdf5_data.hpp"

#include "partita/config/files.hpp"
#include "partita/config/text.hpp"
#include "partita/config/user_error.hpp"
#include "partita/core/available_memory.hpp"
#include "partita/core/log.hpp"
#include "partita/data/gzip_file.hpp"
#include "partita/data/hdf5.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <set>
#include <sstream>
#include <system_error>
#include <utility>

namespace partita {

namespace fs = std::filesystem;

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

[[noreturn]] void failRead(const std::string& place) {
  throw UserError(place + ": HDF5 cannot read the data");
}

[[noreturn]] void failRead(const Table& table) {
  const std::string filter = missingFilter(table.id.get());
  if (filter.empty()) failRead(table.place);
  throw UserError(table.place + ": needs the HDF5 filter '" + filter + "', which is not installed");
}

herr_t collectName(hid_t group, const char* name, const H5L_info_t* /*link*/, void* names) {
  const Hdf5Object object(H5Oopen(group, name, H5P_DEFAULT));
  if (object && H5Iget_type(object.get()) == H5I_DATASET)
    static_cast<std::vector<std::string>*>(names)->push_back(printable(name));
  return 0;
}

std::string hdf5Version() {
  unsigned int major = 0, minor = 0, release = 0;
  H5get_libversion(&major, &minor, &release);
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(release);
}

/// A name from HDF5: name_of(buffer, its size) returns the length, and writes the name if there is a buffer.
template <class NameOf>
std::string nameFrom(const NameOf& name_of) {
  const ssize_t size = name_of(nullptr, std::size_t{0});
  std::string name(size > 0 ? size : 0, '\0');
  if (size > 0) name_of(name.data(), name.size() + 1);
  return name;
}

/// Is there a group, or something else that is no data set?
bool isOther(hid_t file, const std::string& name) {
  const hid_t object = H5Oopen(file, name.c_str(), H5P_DEFAULT);
  const H5I_type_t type = object < 0 ? H5I_BADID : H5Iget_type(object);
  if (object >= 0) H5Oclose(object);
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

/// Data sets on the way to the sources of a virtual one: files and names.
struct Sources {
  std::set<std::pair<std::string, std::string>> checked, under_way;
};

/// Where HDF5 looks for the file of a source that `file` names.
std::vector<fs::path> sourcePlaces(const std::string& source, const fs::path& file) {
  if (source == ".") return {file};
  std::vector<fs::path> places;
  fs::path name = source;
  if (name.is_absolute()) {
    places.push_back(name);
    name = name.filename();
  }
  const std::string origin = "${ORIGIN}";
  const char* prefixes = std::getenv("HDF5_VDS_PREFIX");
  std::istringstream words(prefixes != nullptr ? prefixes : "");
  for (std::string prefix; std::getline(words, prefix, ':');) {
    if (prefix.rfind(origin, 0) == 0)
      prefix.replace(0, origin.size(), fs::path(file).remove_filename().string());
    places.push_back(fs::path(prefix) / name);
  }
  std::error_code ignored;
  places.push_back(fs::path(file).remove_filename() / name);
  places.push_back(name);
  places.push_back(fs::canonical(file, ignored).remove_filename() / name);
  return places;
}

/// The first of these places that HDF5 can open; empty if there is none.
std::string findSource(const std::string& source, const std::string& file) {
  std::error_code ignored;
  for (const fs::path& place : sourcePlaces(source, file))
    if (fs::is_regular_file(place, ignored) && H5Fis_hdf5(place.c_str()) > 0) return place.string();
  return {};
}

/// Once, although a rank may read labels alone before it reads everything.
void warnOfGaps(const std::string& place) {
  for (const std::string& known : Log::warnings())
    if (known.rfind(place + ": parts of it", 0) == 0) return;
  Log::warning(place + ": parts of it have never been written, and read as its fill value");
}

hssize_t elementsOf(const Hdf5Dataset& dataset) {
  const Hdf5Space space(H5Dget_space(dataset.get()));
  return space ? H5Sget_simple_extent_npoints(space.get()) : 0;
}

/// Where a raw file ends before the values that are stored in it, HDF5 reads zeros without an error.
void checkExternal(const Hdf5Dataset& dataset, const Hdf5List& properties, const std::string& place) {
  const Hdf5Type type(H5Dget_type(dataset.get()));
  hsize_t missing = static_cast<hsize_t>(elementsOf(dataset)) * H5Tget_size(type.get());
  for (int part = 0; part < H5Pget_external_count(properties.get()); ++part) {
    std::array<char, 4096> name{};
    off_t offset = 0;
    hsize_t size = 0;
    if (H5Pget_external(properties.get(), part, name.size() - 1, name.data(), &offset, &size) < 0)
      failRead(place);
    const hsize_t wanted = std::min(size, missing);
    std::error_code reason;
    const std::uintmax_t bytes = fs::file_size(name.data(), reason);
    if (!reason && bytes < static_cast<hsize_t>(offset) + wanted)
      throw UserError(place + ": its values are in the file '" + name.data() + "', which is too short");
    missing -= wanted;
  }
}

/// Have some chunks never been written? The size of what is stored says nothing where it is compressed.
bool lacksChunks(const Hdf5Dataset& dataset, const Hdf5List& properties) {
#if H5_VERSION_GE(1, 10, 5)
  const Hdf5Space space(H5Dget_space(dataset.get()));
  std::array<hsize_t, H5S_MAX_RANK> sizes{}, chunk{};
  hsize_t stored = 0, wanted = 1;
  const int rank = H5Sget_simple_extent_dims(space.get(), sizes.data(), nullptr);
  if (rank < 1 || H5Pget_chunk(properties.get(), rank, chunk.data()) != rank) return false;
  for (std::size_t axis = 0; axis < static_cast<std::size_t>(rank); ++axis)
    wanted *= (sizes[axis] + chunk[axis] - 1) / chunk[axis];
  return H5Dget_num_chunks(dataset.get(), space.get(), &stored) >= 0 && stored < wanted;
#else
  (void)dataset, (void)properties;
  return false;
#endif
}

void checkWritten(const Hdf5Dataset& dataset, const Hdf5List& properties, const std::string& place) {
  if (elementsOf(dataset) <= 0) return;
  if (H5Pget_external_count(properties.get()) > 0) return checkExternal(dataset, properties, place);
  H5D_space_status_t status = H5D_SPACE_STATUS_ALLOCATED;
  if (H5Dget_space_status(dataset.get(), &status) < 0) return;
  if (status == H5D_SPACE_STATUS_NOT_ALLOCATED) throw UserError(place + ": has never been written");
  if (H5Pget_layout(properties.get()) == H5D_CHUNKED && lacksChunks(dataset, properties)) warnOfGaps(place);
}

void checkStored(const Hdf5Dataset& dataset, const std::string& file, const std::string& place,
                 Sources& sources);

void checkSource(const std::string& source, const std::string& name, const std::string& file,
                 const std::string& place, Sources& sources) {
  if ((source + name).find('%') != std::string::npos) return; // "%b" stands for any number
  const std::string found = findSource(source, file);
  if (found.empty())
    throw UserError(place + ": is virtual, but its source file '" + source + "' is missing or not HDF5");
  const Hdf5File opened(H5Fopen(found.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
  const Hdf5Dataset dataset(opened ? H5Dopen2(opened.get(), name.c_str(), H5P_DEFAULT) : -1);
  if (!dataset)
    throw UserError(place + ": is virtual, but HDF5 cannot open its source '" + name + "' in the file '" +
                    source + "'");
  checkStored(dataset, found, place + ": source '" + name + "' in '" + source + "'", sources);
}

void checkVirtual(const Hdf5Dataset& dataset, const Hdf5List& properties, const std::string& file,
                  const std::string& place, Sources& sources) {
  std::size_t parts = 0;
  if (H5Pget_virtual_count(properties.get(), &parts) < 0) failRead(place);
  hssize_t missing = elementsOf(dataset);
  bool limited = true;
  for (std::size_t part = 0; part < parts; ++part) {
    const auto source = [&](char* to, std::size_t size) {
      return H5Pget_virtual_filename(properties.get(), part, to, size);
    };
    const auto name = [&](char* to, std::size_t size) {
      return H5Pget_virtual_dsetname(properties.get(), part, to, size);
    };
    checkSource(nameFrom(source), nameFrom(name), file, place, sources);
    const Hdf5Space mapped(H5Pget_virtual_vspace(properties.get(), part));
    const hssize_t values = mapped ? H5Sget_select_npoints(mapped.get()) : -1;
    limited = limited && values >= 0;
    missing -= std::min(missing, std::max<hssize_t>(values, 0));
  }
  if (limited && missing > 0) warnOfGaps(place);
}

/// Throws, or warns, if HDF5 would read the fill value without an error, because there are no data.
void checkStored(const Hdf5Dataset& dataset, const std::string& file, const std::string& place,
                 Sources& sources) {
  const Hdf5List properties(H5Dget_create_plist(dataset.get()));
  if (!properties) failRead(place);
  std::error_code ignored;
  const auto name = [&](char* to, std::size_t size) { return H5Iget_name(dataset.get(), to, size); };
  const std::pair key{fs::canonical(file, ignored).string(), nameFrom(name)};
  if (sources.under_way.count(key) > 0) throw UserError(place + ": is virtual and refers to itself");
  if (!sources.checked.insert(key).second) return;
  if (H5Pget_layout(properties.get()) != H5D_VIRTUAL) return checkWritten(dataset, properties, place);
  sources.under_way.insert(key);
  checkVirtual(dataset, properties, file, place, sources);
  sources.under_way.erase(key);
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
  Sources sources;
  checkStored(table.id, file_name, table.place, sources);
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
    failRead(table);
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
    if (!std::isfinite(values[i]))
      throw UserError(table.place + ": feature " + std::to_string(i % width) + " of sample " +
                      std::to_string(i / width) + " is not a finite float");
  return Samples(width, std::move(values));
}

LoadedSet readOne(const DataSection& section, const std::string& path, std::int64_t limit, Need need) {
  const Hdf5Silence silence;
  const std::string name = findFile(path);
  const Hdf5File file = openFile(name);
  const Table features = openTable(file.get(), name, section.features);
  const Table labels = openTable(file.get(), name, section.labels);
  LoadedSet set;
  set.features_source = set.labels_source = name;
  set.labels = readLabels(labels);
  checkFeatures(features, set.labels.size());
  set.shape.assign(features.sizes.begin() + 1, features.sizes.end());
  if (set.shape.size() == 2) set.shape.insert(set.shape.begin(), 1); // an image without channels
  const std::size_t width = sampleWidth(features);
  if (need == Need::everything)
    set.features = readFeatures(features, keptRows(set.labels.size(), limit), width);
  return set;
}

} // namespace

LoadedSets readHdf5(const DataSection& section, Need need) {
  LoadedSets sets;
  sets.train = readOne(section, dataPath(section, section.train_file), section.samples, need);
  if (!section.test_file.empty())
    sets.test = readOne(section, dataPath(section, section.test_file), section.test_samples, need);
  return sets;
}

} // namespace partita
