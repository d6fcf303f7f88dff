#pragma once

#include <hdf5.h>

#include <string>
#include <utility>

namespace partita {

/// Owner of an HDF5 identifier; closes it with the function it was given. A failed open gives an id that is
/// false.
class Hdf5Id {
 public:
  using Close = herr_t (*)(hid_t);

  Hdf5Id(hid_t id, Close close) : _id(id), _close(close) {}
  Hdf5Id(Hdf5Id&& other) noexcept : _id(std::exchange(other._id, -1)), _close(other._close) {}
  Hdf5Id& operator=(Hdf5Id&& other) noexcept {
    std::swap(_id, other._id);
    std::swap(_close, other._close);
    return *this;
  }
  Hdf5Id(const Hdf5Id&) = delete;
  Hdf5Id& operator=(const Hdf5Id&) = delete;
  ~Hdf5Id() {
    if (_id >= 0) _close(_id);
  }

  explicit operator bool() const { return _id >= 0; }
  hid_t get() const { return _id; }
  /// Gives the identifier away: whoever takes it closes it, and sees whether that worked.
  hid_t release() { return std::exchange(_id, -1); }

 private:
  hid_t _id;
  Close _close;
};

/// The name of a filter that a data set is compressed with and this HDF5 has not; empty: it has all.
std::string missingFilter(hid_t dataset);

/// Keeps HDF5 from printing its error stack while our own one-line messages take its place.
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

} // namespace partita
