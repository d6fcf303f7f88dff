#include "partita/data/hdf5_storage.hpp"

#include "partita/config/files.hpp"
#include "partita/config/text.hpp"
#include "partita/config/user_error.hpp"
#include "partita/core/log.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <regex>
#include <set>
#include <sstream>
#include <system_error>
#include <utility>
#include <vector>

namespace partita {

namespace fs = std::filesystem;

void failRead(const std::string& place) {
  throw UserError(place + ": HDF5 cannot read the data");
}

namespace {

/// A name from HDF5: name_of(buffer, its size) returns the length, and writes the name if there is a buffer.
template <class NameOf>
std::string nameFrom(const NameOf& name_of) {
  const ssize_t size = name_of(nullptr, std::size_t{0});
  std::string name(size > 0 ? size : 0, '\0');
  if (size > 0) name_of(name.data(), name.size() + 1);
  return name;
}

/// The file and the data set from which a part of a virtual one takes its values.
std::pair<std::string, std::string> sourceOf(const Hdf5List& properties, std::size_t part) {
  return {nameFrom([&](char* to, std::size_t size) {
            return H5Pget_virtual_filename(properties.get(), part, to, size);
          }),
          nameFrom([&](char* to, std::size_t size) {
            return H5Pget_virtual_dsetname(properties.get(), part, to, size);
          })};
}

/// Data sets on the way to the sources of a virtual one: files and names.
struct Sources {
  std::set<std::pair<std::string, std::string>> checked, under_way;
};

/// A prefix of an environment variable, in which "${ORIGIN}" is the folder of `file`.
fs::path prefixFor(std::string prefix, const fs::path& file) {
  const std::string origin = "${ORIGIN}";
  std::error_code ignored;
  if (prefix.rfind(origin, 0) == 0)
    prefix.replace(0, origin.size(), fs::absolute(file, ignored).remove_filename().string());
  return prefix;
}

/// Where HDF5 looks for the file of a source that `file` names.
std::vector<fs::path> sourcePlaces(const std::string& source, const fs::path& file) {
  if (source == ".") return {file};
  std::vector<fs::path> places;
  fs::path name = source;
  if (name.is_absolute()) {
    places.push_back(name);
    name = name.filename();
  }
  const char* prefixes = std::getenv("HDF5_VDS_PREFIX");
  std::istringstream words(prefixes != nullptr ? prefixes : "");
  for (std::string prefix; std::getline(words, prefix, ':');)
    places.push_back(prefixFor(prefix, file) / name);
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

/// The raw file of an external part that `file` names.
std::string externalPlace(const std::string& name, const std::string& file) {
  const char* prefix = std::getenv("HDF5_EXTFILE_PREFIX");
  return prefix == nullptr ? name : (prefixFor(prefix, file) / name).lexically_normal().string();
}

/// Does a name fit the name of a source, in which "%b" stands for any number and "%%" for a percent sign?
bool fits(const std::string& name, const std::string& source) {
  std::string pattern;
  for (std::size_t i = 0; i < source.size(); ++i) {
    const bool special = source[i] == '%' && i + 1 < source.size();
    if (special && source[i + 1] == 'b') {
      pattern += "[0-9]+";
    } else {
      pattern += std::isalnum(static_cast<unsigned char>(source[i])) != 0 ? "" : "\\";
      pattern += source[i];
    }
    if (special) ++i;
  }
  return std::regex_match(name, std::regex(pattern));
}

/// The files that a source stands for. A pattern in the name of a folder is not resolved.
std::vector<std::string> filesOfSource(const std::string& source, const std::string& file) {
  std::vector<std::string> files;
  if (source.find('%') == std::string::npos) {
    files.push_back(findSource(source, file));
    if (files.back().empty()) files.clear();
    return files;
  }
  std::error_code ignored;
  for (const fs::path& place : sourcePlaces(source, file)) {
    const fs::path folder = fs::absolute(place, ignored).parent_path();
    for (const fs::path& entry : entriesOf(folder.string(), ignored))
      if (fits(entry.filename().string(), place.filename().string())) files.push_back(entry.string());
  }
  return files;
}

/// Once, although a rank may read labels alone before it reads everything.
void warnOfGaps(const std::string& place) {
  Log::warnOnce(place + ": parts of it have never been written, and read as its fill value");
}

hssize_t elementsOf(const Hdf5Dataset& dataset) {
  const Hdf5Space space(H5Dget_space(dataset.get()));
  return space ? H5Sget_simple_extent_npoints(space.get()) : 0;
}

/// Where a raw file ends before the values that are stored in it, HDF5 reads zeros without an error.
void checkExternal(const Hdf5Dataset& dataset, const Hdf5List& properties, const std::string& file,
                   const std::string& place) {
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
    const std::string raw = externalPlace(name.data(), file);
    const std::uintmax_t bytes = fs::file_size(raw, reason);
    if (!reason && bytes < static_cast<hsize_t>(offset) + wanted)
      throw UserError(place + ": its values are in the file '" + raw + "', which is too short");
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

void checkWritten(const Hdf5Dataset& dataset, const Hdf5List& properties, const std::string& file,
                  const std::string& place) {
  if (elementsOf(dataset) <= 0) return;
  if (H5Pget_external_count(properties.get()) > 0) return checkExternal(dataset, properties, file, place);
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
    const auto [source, name] = sourceOf(properties, part);
    checkSource(source, name, file, place, sources);
    const Hdf5Space mapped(H5Pget_virtual_vspace(properties.get(), part));
    const hssize_t values = mapped ? H5Sget_select_npoints(mapped.get()) : -1;
    limited = limited && values >= 0;
    missing -= std::min(missing, std::max<hssize_t>(values, 0));
  }
  if (limited && missing > 0) warnOfGaps(place);
}

void checkStored(const Hdf5Dataset& dataset, const std::string& file, const std::string& place,
                 Sources& sources) {
  const Hdf5List properties(H5Dget_create_plist(dataset.get()));
  if (!properties) failRead(place);
  std::error_code ignored;
  const auto name = [&](char* to, std::size_t size) { return H5Iget_name(dataset.get(), to, size); };
  const std::pair key{fs::canonical(file, ignored).string(), nameFrom(name)};
  if (sources.under_way.count(key) > 0) throw UserError(place + ": is virtual and refers to itself");
  if (!sources.checked.insert(key).second) return;
  if (H5Pget_layout(properties.get()) != H5D_VIRTUAL) return checkWritten(dataset, properties, file, place);
  sources.under_way.insert(key);
  checkVirtual(dataset, properties, file, place, sources);
  sources.under_way.erase(key);
}

/// Notes the file that an external link is in; HDF5 calls it for each link that it follows.
herr_t noteLink(const char* file, const char*, const char*, const char*, unsigned*, hid_t, void* found) {
  return calledByHdf5([&] {
    static_cast<std::vector<std::string>*>(found)->emplace_back(file);
    return 0;
  });
}

void addFilesBehind(const std::string& file, const std::string& name, std::set<std::string>& visited,
                    std::vector<std::string>& found) {
  const Hdf5File opened(H5Fis_hdf5(file.c_str()) > 0 ? H5Fopen(file.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT)
                                                     : -1);
  const Hdf5List access(H5Pcreate(H5P_DATASET_ACCESS));
  H5Pset_elink_cb(access.get(), noteLink, &found);
  const Hdf5Dataset dataset(opened ? H5Dopen2(opened.get(), name.c_str(), access.get()) : -1);
  const Hdf5List properties(dataset ? H5Dget_create_plist(dataset.get()) : -1);
  if (!properties || !visited.insert(file + '\0' + name).second) return;
  // HDF5 follows links, so the data set may be in another file.
  const std::string home =
      nameFrom([&](char* to, std::size_t size) { return H5Fget_name(dataset.get(), to, size); });
  if (home != file) found.push_back(home);
  for (int part = 0; part < H5Pget_external_count(properties.get()); ++part) {
    std::array<char, 4096> raw{};
    if (H5Pget_external(properties.get(), part, raw.size() - 1, raw.data(), nullptr, nullptr) >= 0)
      found.push_back(externalPlace(raw.data(), home));
  }
  std::size_t parts = 0;
  if (H5Pget_layout(properties.get()) != H5D_VIRTUAL || H5Pget_virtual_count(properties.get(), &parts) < 0)
    return;
  for (std::size_t part = 0; part < parts; ++part) {
    const auto [source, name_in_source] = sourceOf(properties, part);
    for (const std::string& place : filesOfSource(source, home)) {
      found.push_back(place);
      addFilesBehind(place, name_in_source, visited, found);
    }
  }
}

} // namespace

std::vector<std::string> filesBehind(const std::string& file, const std::string& dataset) {
  const Hdf5Silence silence;
  std::set<std::string> visited;
  std::vector<std::string> found;
  addFilesBehind(file, dataset, visited, found);
  return found;
}

void checkStored(const Hdf5Dataset& dataset, const std::string& file, const std::string& place) {
  Sources sources;
  checkStored(dataset, file, place, sources);
}

} // namespace partita
