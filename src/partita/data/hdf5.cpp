#include "partita/data/hdf5.hpp"

#include "partita/config/user_error.hpp"
#include "partita/core/error.hpp"
#include "partita/core/types.hpp"

#include <array>

namespace partita {

std::string hdf5Version() {
  unsigned int major = 0, minor = 0, release = 0;
  H5get_libversion(&major, &minor, &release);
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(release);
}

std::string missingFilter(hid_t dataset) {
  const Hdf5List properties(H5Dget_create_plist(dataset));
  if (!properties || H5Pget_layout(properties.get()) != H5D_CHUNKED) return {};
  const int filters = H5Pget_nfilters(properties.get());
  for (int i = 0; i < filters; ++i) {
    std::array<char, 64> name{};
    std::size_t no_values = 0;
    unsigned flags = 0;
    const H5Z_filter_t filter = H5Pget_filter2(properties.get(), static_cast<unsigned>(i), &flags, &no_values,
                                               nullptr, name.size() - 1, name.data(), nullptr);
    if (filter >= 0 && H5Zfilter_avail(filter) <= 0)
      return name[0] != '\0' ? name.data() : "number " + std::to_string(filter);
  }
  return {};
}

namespace {

constexpr std::size_t longest_text = 1 << 16; // HDF5 stores longer attributes elsewhere, without a checksum

Hdf5Space scalarSpace(const std::string& failure) {
  return checkedId<Hdf5Space>(H5Screate(H5S_SCALAR), failure);
}

void writeScalar(hid_t object, const std::string& name, hid_t type, const void* value,
                 const std::string& where) {
  const std::string failure = where + ": cannot write the attribute '" + name + "'";
  const Hdf5Space space = scalarSpace(failure);
  const Hdf5Attribute attribute = checkedId<Hdf5Attribute>(
      H5Acreate2(object, name.c_str(), type, space.get(), H5P_DEFAULT, H5P_DEFAULT), failure);
  checkHdf5(H5Awrite(attribute.get(), type, value), failure);
}

Hdf5Attribute openAttribute(hid_t object, const std::string& name, H5T_class_t kind,
                            const std::string& where) {
  const std::string failure = where + ": has no attribute '" + name + "'; was it written by Partita?";
  Hdf5Attribute attribute = checkedId<Hdf5Attribute>(H5Aopen(object, name.c_str(), H5P_DEFAULT), failure);
  const Hdf5Type type = checkedId<Hdf5Type>(H5Aget_type(attribute.get()), failure);
  const Hdf5Space space = checkedId<Hdf5Space>(H5Aget_space(attribute.get()), failure);
  if (H5Tget_class(type.get()) != kind || H5Sget_simple_extent_npoints(space.get()) != 1)
    throw UserError(where + ": the attribute '" + name + "' has the wrong type");
  return attribute;
}

template <class T>
T readScalar(hid_t object, const std::string& name, H5T_class_t kind, hid_t type, const std::string& where) {
  const Hdf5Attribute attribute = openAttribute(object, name, kind, where);
  T value{};
  checkHdf5(H5Aread(attribute.get(), type, &value), where + ": cannot read the attribute '" + name + "'");
  return value;
}

} // namespace

void checkHdf5(herr_t status, const std::string& failure) {
  if (status < 0) throw UserError(failure);
}

hid_t realType() {
  return sizeof(Real) == 4 ? H5T_NATIVE_FLOAT : H5T_NATIVE_DOUBLE;
}

Hdf5Space simpleSpace(const std::vector<std::int64_t>& extents) {
  const std::vector<hsize_t> sizes(extents.begin(), extents.end());
  return checkedId<Hdf5Space>(H5Screate_simple(static_cast<int>(sizes.size()), sizes.data(), nullptr),
                              "HDF5 cannot create a data space");
}

Hdf5Space sliceSpace(hid_t dataset, const TensorSlice& slice) {
  Hdf5Space space = checkedId<Hdf5Space>(H5Dget_space(dataset), "HDF5 cannot read a data space");
  const std::vector<hsize_t> start(slice.offset.begin(), slice.offset.end()),
      count(slice.extents.begin(), slice.extents.end());
  checkHdf5(H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr),
            "HDF5 cannot select rows");
  return space;
}

std::vector<std::int64_t> extentsOf(hid_t dataset) {
  const Hdf5Space space = checkedId<Hdf5Space>(H5Dget_space(dataset), "HDF5 cannot read a data space");
  const int rank = H5Sget_simple_extent_ndims(space.get());
  std::vector<hsize_t> sizes(rank > 0 ? rank : 0);
  if (rank > 0) H5Sget_simple_extent_dims(space.get(), sizes.data(), nullptr);
  return {sizes.begin(), sizes.end()};
}

void writeAttribute(hid_t object, const std::string& name, const std::string& text,
                    const std::string& where) {
  PARTITA_REQUIRE(text.size() < longest_text, "the attribute '" + name + "' is too long to be read again");
  const Hdf5Type type = checkedId<Hdf5Type>(H5Tcopy(H5T_C_S1), where + ": HDF5 cannot create a type");
  checkHdf5(H5Tset_size(type.get(), text.size() + 1), where + ": HDF5 cannot create a type");
  checkHdf5(H5Tset_cset(type.get(), H5T_CSET_UTF8), where + ": HDF5 cannot create a type");
  writeScalar(object, name, type.get(), text.c_str(), where);
}

void writeAttribute(hid_t object, const std::string& name, std::int64_t value, const std::string& where) {
  writeScalar(object, name, H5T_NATIVE_INT64, &value, where);
}

void writeAttribute(hid_t object, const std::string& name, double value, const std::string& where) {
  writeScalar(object, name, H5T_NATIVE_DOUBLE, &value, where);
}

void changeAttribute(hid_t object, const std::string& name, std::int64_t value, const std::string& where) {
  const Hdf5Attribute attribute = openAttribute(object, name, H5T_INTEGER, where);
  checkHdf5(H5Awrite(attribute.get(), H5T_NATIVE_INT64, &value),
            where + ": cannot write the attribute '" + name + "'");
}

std::string readText(hid_t object, const std::string& name, const std::string& where) {
  const Hdf5Attribute attribute = openAttribute(object, name, H5T_STRING, where);
  const Hdf5Type type =
      checkedId<Hdf5Type>(H5Aget_type(attribute.get()), where + ": HDF5 cannot read a type");
  const std::size_t size = H5Tget_size(type.get());
  if (H5Tis_variable_str(type.get()) != 0 || size > longest_text)
    throw UserError(where + ": the attribute '" + name + "' has the wrong type");
  std::string text(size, '\0');
  checkHdf5(H5Aread(attribute.get(), type.get(), text.data()),
            where + ": cannot read the attribute '" + name + "'");
  text.resize(std::min(text.find('\0'), text.size()));
  return text;
}

std::int64_t readInteger(hid_t object, const std::string& name, const std::string& where) {
  return readScalar<std::int64_t>(object, name, H5T_INTEGER, H5T_NATIVE_INT64, where);
}

double readNumber(hid_t object, const std::string& name, const std::string& where) {
  return readScalar<double>(object, name, H5T_FLOAT, H5T_NATIVE_DOUBLE, where);
}

} // namespace partita
