#pragma once

#include "partita/config/user_error.hpp"
#include "partita/plan/tensor_slice.hpp"

#include <hdf5.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace partita {

/// Owner of an HDF5 identifier, which is closed by `Close`. The owner converts to false after a failed open.
template <herr_t (*Close)(hid_t)>
class Hdf5Handle {
 public:
  explicit Hdf5Handle(hid_t id) : _id(id) {}
  Hdf5Handle(Hdf5Handle&& other) noexcept : _id(other.release()) {}
  Hdf5Handle& operator=(Hdf5Handle&& other) noexcept {
    std::swap(_id, other._id);
    return *this;
  }
  ~Hdf5Handle() {
    if (_id >= 0) Close(_id);
  }

  explicit operator bool() const { return _id >= 0; }
  hid_t get() const { return _id; }
  /// Releases ownership: the caller closes the identifier and checks whether that worked.
  hid_t release() { return std::exchange(_id, -1); }

 private:
  hid_t _id;
};

/// For identifiers that must be closed by hand: after a failure, ranks would hang in the collective close of
/// a file.
inline herr_t leaveOpen(hid_t) {
  return 0;
}

using Hdf5File = Hdf5Handle<H5Fclose>;
using Hdf5Group = Hdf5Handle<H5Gclose>;
using Hdf5Dataset = Hdf5Handle<H5Dclose>;
using Hdf5Attribute = Hdf5Handle<H5Aclose>;
using Hdf5Object = Hdf5Handle<H5Oclose>; ///< any of those above except the file
using Hdf5Space = Hdf5Handle<H5Sclose>;
using Hdf5Type = Hdf5Handle<H5Tclose>;
using Hdf5List = Hdf5Handle<H5Pclose>; ///< property list
using Hdf5Unclosed = Hdf5Handle<leaveOpen>;

/// Version of the library that runs, "1.10.8".
std::string hdf5Version();

/// The name of a filter that compresses a data set but is missing from this HDF5 library; empty if none is
/// missing.
std::string missingFilter(hid_t dataset);

/// Suppresses HDF5's error stack, which is replaced by Partita's one-line messages.
class Hdf5Silence {
 public:
  Hdf5Silence() {
    H5Eget_auto2(H5E_DEFAULT, &_print, &_data);
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  }
  Hdf5Silence(const Hdf5Silence&) = delete;
  Hdf5Silence& operator=(const Hdf5Silence&) = delete;
  ~Hdf5Silence() { H5Eset_auto2(H5E_DEFAULT, _print, _data); }

 private:
  H5E_auto2_t _print = nullptr;
  void* _data = nullptr;
};

/// Every HDF5 call that writes or reads a run goes through these two functions: a failure becomes a one-line
/// UserError, since its cause is a file or a disk.
void checkHdf5(herr_t status, const std::string& failure);
template <class Handle>
Handle checkedId(hid_t id, const std::string& failure) {
  if (id < 0) throw UserError(failure);
  return Handle(id);
}

/// What a function that HDF5 calls returns to it. No exception may pass through C: HDF5 then fails instead.
template <class Work>
herr_t calledByHdf5(const Work& work) noexcept {
  try {
    return work();
  } catch (...) {
    return -1;
  }
}

hid_t realType(); ///< of a Real in memory and in files
Hdf5Space simpleSpace(const std::vector<std::int64_t>& extents);
std::vector<std::int64_t> extentsOf(hid_t dataset);
Hdf5Space sliceSpace(hid_t dataset, const TensorSlice& slice); ///< of a data set, with a slice selected

/// Attributes of an object. Reading throws if the attribute is missing or of another type; `where` names the
/// file and the object in messages.
void writeAttribute(hid_t object, const std::string& name, const std::string& text, const std::string& where);
void writeAttribute(hid_t object, const std::string& name, std::int64_t value, const std::string& where);
void writeAttribute(hid_t object, const std::string& name, double value, const std::string& where);
void changeAttribute(hid_t object, const std::string& name, std::int64_t value, const std::string& where);

std::string readText(hid_t object, const std::string& name, const std::string& where);
std::int64_t readInteger(hid_t object, const std::string& name, const std::string& where);
double readNumber(hid_t object, const std::string& name, const std::string& where);

} // namespace partita
