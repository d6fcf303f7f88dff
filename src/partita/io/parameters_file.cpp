#include "partita/io/parameters_file.hpp"

#include "partita/comm/wait.hpp"
#include "partita/config/user_error.hpp"
#include "partita/core/sha256.hpp"
#include "partita/data/hdf5_id.hpp"

#include <algorithm>
#include <cctype>
#include <cstdlib>

namespace partita {

namespace {

constexpr std::int64_t values_a_call = std::int64_t{1} << 26; // far below MPI-IO's limit of 2 GB
constexpr int hash_tag = 7;

hid_t realType() {
  return sizeof(Real) == 4 ? H5T_NATIVE_FLOAT : H5T_NATIVE_DOUBLE;
}

std::string datasetName(const std::string& layer, const std::string& name) {
  return "/" + layer + "/" + name;
}

Hdf5Id checked(hid_t id, Hdf5Id::Close close, const std::string& what) {
  if (id < 0) throw UserError(what);
  return {id, close};
}

void checkStatus(herr_t status, const std::string& what) {
  if (status < 0) throw UserError(what);
}

Hdf5Id parallelAccess(const Grid& grid) {
  Hdf5Id access = checked(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, "HDF5 cannot make an access list");
  checkStatus(H5Pset_fapl_mpio(access.get(), grid.world().get(), MPI_INFO_NULL), "this HDF5 cannot use MPI");
  return access;
}

Hdf5Id simpleSpace(const std::vector<std::int64_t>& extents) {
  const std::vector<hsize_t> sizes(extents.begin(), extents.end());
  return checked(H5Screate_simple(static_cast<int>(sizes.size()), sizes.data(), nullptr), H5Sclose,
                 "HDF5 cannot make a data space");
}

void writeText(hid_t file, const std::string& name, const std::string& text, const std::string& path) {
  const std::string failure = path + ": cannot write the attribute '" + name + "'";
  const Hdf5Id type = checked(H5Tcopy(H5T_C_S1), H5Tclose, failure);
  checkStatus(H5Tset_size(type.get(), text.size() + 1), failure);
  const Hdf5Id space = checked(H5Screate(H5S_SCALAR), H5Sclose, failure);
  const Hdf5Id attribute = checked(
      H5Acreate2(file, name.c_str(), type.get(), space.get(), H5P_DEFAULT, H5P_DEFAULT), H5Aclose, failure);
  checkStatus(H5Awrite(attribute.get(), type.get(), text.c_str()), failure);
}

std::string readText(hid_t file, const std::string& name, const std::string& path) {
  const std::string failure = path + ": no attribute '" + name + "'; is this a parameter file of Partita?";
  const Hdf5Id attribute = checked(H5Aopen(file, name.c_str(), H5P_DEFAULT), H5Aclose, failure);
  const Hdf5Id type = checked(H5Aget_type(attribute.get()), H5Tclose, failure);
  std::string text(H5Tget_size(type.get()), '\0');
  checkStatus(H5Aread(attribute.get(), type.get(), text.data()), failure);
  text.resize(text.find('\0'));
  return text;
}

/// Moves a tensor between a data set and host memory, as rows of the first dimension, some megabytes a call.
template <class Transfer>
void byRows(const Hdf5Id& dataset, const StageTensor& tensor, Real* values, const Transfer& transfer) {
  const Hdf5Id file_space = checked(H5Dget_space(dataset.get()), H5Sclose, "HDF5 lost a data space");
  const std::int64_t rows = tensor.extents[0], row_size = tensor.size / std::max<std::int64_t>(rows, 1);
  const std::int64_t rows_a_call =
      std::max<std::int64_t>(1, values_a_call / std::max<std::int64_t>(row_size, 1));
  for (std::int64_t row = 0; row < rows; row += rows_a_call) {
    std::vector<std::int64_t> block = tensor.extents;
    block[0] = std::min(rows_a_call, rows - row);
    std::vector<hsize_t> start(block.size(), 0);
    start[0] = static_cast<hsize_t>(row);
    const std::vector<hsize_t> count(block.begin(), block.end());
    const Hdf5Id memory_space = simpleSpace(block);
    H5Sselect_hyperslab(file_space.get(), H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr);
    checkStatus(transfer(memory_space.get(), file_space.get(), values + row * row_size),
                "HDF5 cannot move " + datasetName(tensor.layer, tensor.name));
  }
}

HostVector hostCopy(const Stage& stage) {
  HostVector host(Kokkos::view_alloc(Kokkos::WithoutInitializing, "partita::io::parameters"),
                  stage.parameters().extent(0));
  const ExecSpace space;
  Kokkos::deep_copy(space, host, stage.parameters());
  fence(space, "partita::io::hostCopy");
  return host;
}

/// All ranks make all data sets: HDF5 wants metadata to be changed by all alike.
void createDatasets(hid_t file, const Partition& partition, const std::string& path) {
  for (const StagePlan& stage : partition.stages) {
    for (const LayerPlan& plan : stage.layers) {
      const auto layer = makeLayer(plan);
      if (layer->parameters().empty()) continue;
      const std::string failure = path + ": cannot make '" + layer->name() + "'";
      const Hdf5Id group = checked(
          H5Gcreate2(file, layer->name().c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), H5Gclose, failure);
      for (const ParameterShape& shape : layer->parameters()) {
        const Hdf5Id space = simpleSpace(shape.extents);
        checked(H5Dcreate2(group.get(), shape.name.c_str(), realType(), space.get(), H5P_DEFAULT, H5P_DEFAULT,
                           H5P_DEFAULT),
                H5Dclose, failure);
      }
    }
  }
}

std::vector<std::int64_t> extentsOf(const Hdf5Id& dataset) {
  const Hdf5Id space = checked(H5Dget_space(dataset.get()), H5Sclose, "HDF5 lost a data space");
  std::vector<hsize_t> sizes(static_cast<std::size_t>(H5Sget_simple_extent_ndims(space.get())));
  H5Sget_simple_extent_dims(space.get(), sizes.data(), nullptr);
  return {sizes.begin(), sizes.end()};
}

/// 12 of "layer12.dense"; negative where it is no such name.
long placeOf(const StoredTensor& tensor) {
  constexpr std::size_t prefix = 5;
  const std::string& layer = tensor.layer;
  if (layer.compare(0, prefix, "layer") != 0 || layer.size() == prefix || std::isdigit(layer[prefix]) == 0)
    return -1;
  return std::strtol(layer.c_str() + prefix, nullptr, 10);
}

} // namespace

void writeParameters(const std::string& path, const std::string& deck, const Partition& partition,
                     const Grid& grid, const std::vector<const Stage*>& stages) {
  const Hdf5Silence silence;
  const Hdf5Id access = parallelAccess(grid);
  const Hdf5Id file = checked(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.get()), H5Fclose,
                              path + ": cannot be written");
  writeText(file.get(), "deck", deck, path);
  createDatasets(file.get(), partition, path);
  if (grid.replica() != 0) return;
  for (const Stage* stage : stages) {
    const HostVector values = hostCopy(*stage);
    for (const StageTensor& tensor : stage->tensors()) {
      const std::string name = datasetName(tensor.layer, tensor.name);
      const Hdf5Id dataset = checked(H5Dopen2(file.get(), name.c_str(), H5P_DEFAULT), H5Dclose,
                                     path + ": cannot open '" + name + "'");
      byRows(dataset, tensor, values.data() + tensor.offset, [&](hid_t memory, hid_t target, Real* from) {
        return H5Dwrite(dataset.get(), realType(), memory, target, H5P_DEFAULT, from);
      });
    }
  }
}

void readParameters(const std::string& path, const Grid& grid, const std::vector<Stage*>& stages) {
  const Hdf5Silence silence;
  const Hdf5Id access = parallelAccess(grid);
  const Hdf5Id file = checked(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get()), H5Fclose,
                              path + ": cannot be read as HDF5");
  for (Stage* stage : stages) {
    const HostVector values = hostCopy(*stage);
    for (const StageTensor& tensor : stage->tensors()) {
      const std::string name = datasetName(tensor.layer, tensor.name);
      const Hdf5Id dataset = checked(H5Dopen2(file.get(), name.c_str(), H5P_DEFAULT), H5Dclose,
                                     path + ": has no '" + name + "'");
      if (extentsOf(dataset) != tensor.extents)
        throw UserError(path + ": '" + name + "' has another shape than the deck");
      byRows(dataset, tensor, values.data() + tensor.offset, [&](hid_t memory, hid_t source, Real* to) {
        return H5Dread(dataset.get(), realType(), memory, source, H5P_DEFAULT, to);
      });
    }
    const ExecSpace space;
    Kokkos::deep_copy(space, stage->parameters(), values);
    fence(space, "partita::io::readParameters");
  }
}

StoredParameters inspectParameters(const std::string& path) {
  const Hdf5Silence silence;
  const Hdf5Id file = checked(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose,
                              path + ": cannot be read as HDF5");
  StoredParameters stored;
  stored.deck = readText(file.get(), "deck", path);
  const auto visit = [](hid_t object, const char* name, const H5O_info_t* info, void* data) -> herr_t {
    if (info->type != H5O_TYPE_DATASET) return 0;
    const Hdf5Id dataset(H5Dopen2(object, name, H5P_DEFAULT), H5Dclose);
    const std::string full = name;
    const std::size_t slash = full.find('/');
    static_cast<StoredParameters*>(data)->tensors.push_back(
        {full.substr(0, slash), full.substr(slash + 1), extentsOf(dataset)});
    return 0;
  };
  H5Ovisit2(file.get(), H5_INDEX_NAME, H5_ITER_NATIVE, visit, &stored, H5O_INFO_BASIC);
  for (const StoredTensor& tensor : stored.tensors) {
    if (placeOf(tensor) < 0)
      throw UserError(path + ": '" + tensor.layer + "' is no layer; is this a parameter file of Partita?");
  }
  std::sort(stored.tensors.begin(), stored.tensors.end(), [](const StoredTensor& a, const StoredTensor& b) {
    return placeOf(a) != placeOf(b) ? placeOf(a) < placeOf(b) : a.extents.size() > b.extents.size();
  });
  return stored;
}

void checkParameters(const std::string& path, const Partition& partition) {
  const StoredParameters stored = inspectParameters(path);
  for (const StagePlan& stage : partition.stages) {
    for (const LayerPlan& plan : stage.layers) {
      const auto layer = makeLayer(plan);
      for (const ParameterShape& shape : layer->parameters()) {
        const auto found =
            std::find_if(stored.tensors.begin(), stored.tensors.end(), [&](const StoredTensor& tensor) {
              return tensor.layer == layer->name() && tensor.name == shape.name;
            });
        const std::string name = "'" + datasetName(layer->name(), shape.name) + "'";
        if (found == stored.tensors.end()) throw UserError(path + ": has no " + name);
        if (found->extents != shape.extents)
          throw UserError(path + ": " + name + " has another shape than the deck");
      }
    }
  }
}

namespace {

void sendHash(const Communicator& chain, int to, const Sha256& hash) {
  Request request;
  PARTITA_MPI(MPI_Isend(&hash, sizeof(hash), MPI_BYTE, to, hash_tag, chain.get(),
                        request.start({WaitedFor::Kind::taker, "hash", chain.worldRank(to), 0})));
  request.wait();
}

void receiveHash(const Communicator& chain, int from, Sha256& hash) {
  Request request;
  PARTITA_MPI(MPI_Irecv(&hash, sizeof(hash), MPI_BYTE, from, hash_tag, chain.get(),
                        request.start({WaitedFor::Kind::message, "hash", chain.worldRank(from), 0})));
  request.wait();
}

} // namespace

std::string hashParameters(const Grid& grid, const std::vector<const Stage*>& stages) {
  if (grid.replica() != 0) return "";
  const Communicator& chain = grid.chain();
  Sha256 hash; // plain data: the next group goes on where this one stops, and the last tells rank 0
  if (chain.rank() > 0) receiveHash(chain, chain.rank() - 1, hash);
  for (const Stage* stage : stages) {
    const HostVector values = hostCopy(*stage);
    hash.update(values.data(), values.size() * sizeof(Real));
  }
  const int last = chain.size() - 1;
  if (last > 0) sendHash(chain, chain.rank() < last ? chain.rank() + 1 : 0, hash);
  if (chain.rank() == 0 && last > 0) receiveHash(chain, last, hash);
  return chain.rank() == 0 ? hash.hex() : "";
}

} // namespace partita
