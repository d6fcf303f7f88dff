#include "partita/io/hdf5_contents.hpp"

#include "partita/config/user_error.hpp"

#include <algorithm>

namespace partita {

namespace {

constexpr std::int64_t values_per_call = 1 << 22;

std::vector<std::string> linksOf(hid_t group, const std::string& path) {
  std::vector<std::string> names;
  const auto visit = [](hid_t, const char* name, const auto* info, void* data) -> herr_t {
    return calledByHdf5([&] {
      static_cast<std::vector<std::string>*>(data)->emplace_back(name);
      return info->type == H5L_TYPE_HARD ? 0 : -1; // files of Partita have no others
    });
  };
  checkHdf5(H5Literate(group, H5_INDEX_NAME, H5_ITER_INC, nullptr, visit, &names),
            path + ": its contents cannot be listed; the file is damaged");
  return names;
}

/// Names of all data sets. The depth of groups is limited here, since HDF5 allows cycles.
void listDatasets(hid_t group, const std::string& path, const std::string& prefix, int levels,
                  std::vector<std::string>& names) {
  for (const std::string& link : linksOf(group, path)) {
    const std::string name = prefix + link;
    const Hdf5Object object =
        checkedId<Hdf5Object>(H5Oopen(group, link.c_str(), H5P_DEFAULT),
                              path + ": '/" + name + "' cannot be opened; the file is damaged");
    const H5I_type_t type = H5Iget_type(object.get());
    const bool plain = asLine(link) == link; // our names have no control characters
    if (plain && type == H5I_DATASET) {
      names.push_back(name);
    } else if (plain && type == H5I_GROUP && levels > 1) {
      listDatasets(object.get(), path, name + "/", levels - 1, names);
    } else {
      throw UserError(path + ": '/" + name + "' does not belong in a file of Partita");
    }
  }
}

} // namespace

std::vector<std::string> datasetNames(hid_t file, const std::string& path) {
  constexpr int kind_layer_name = 3;
  std::vector<std::string> names;
  listDatasets(file, path, "", kind_layer_name, names);
  return names;
}

bool hasSensibleSize(hid_t dataset, const std::vector<std::int64_t>& extents) {
  constexpr double most_by_deflate = 1100.0;
  const Hdf5Type type = checkedId<Hdf5Type>(H5Dget_type(dataset), "HDF5 cannot read a type");
  const H5T_class_t kind = H5Tget_class(type.get());
  const bool text = kind == H5T_STRING && H5Tis_variable_str(type.get()) == 0 && extents.empty();
  if (!text && kind != H5T_INTEGER && kind != H5T_FLOAT) return false;
  auto bytes = static_cast<double>(H5Tget_size(type.get()));
  for (const std::int64_t extent : extents) {
    if (extent < 1) return false;
    bytes *= static_cast<double>(extent);
  }
  return bytes > 0.0 && bytes <= most_by_deflate * static_cast<double>(H5Dget_storage_size(dataset));
}

void forEachBlock(hid_t dataset, const TensorSlice& slice, const TakeBlock& take) {
  if (slice.size() == 0) return;
  const std::int64_t rows = slice.extents[0], row_size = slice.size() / rows,
                     rows_per_call = std::max<std::int64_t>(1, values_per_call / row_size);
  for (std::int64_t row = 0; row < rows; row += rows_per_call) {
    const TensorSlice block = slice.rows(row, std::min(rows_per_call, rows - row));
    const Hdf5Space memory = simpleSpace(block.extents), file = sliceSpace(dataset, block);
    take(memory.get(), file.get(), row * row_size, block.size());
  }
}

} // namespace partita
