#pragma once

#include "partita/comm/grid.hpp"
#include "partita/nn/stage.hpp"

#include <string>
#include <vector>

namespace partita {

/// `parameters.h5`: the parameters of the joined network, one data set a tensor, `/layer3.dense/weight`
/// [outputs, inputs], and the effective deck as the attribute `deck` of the root. Written and read by all
/// ranks through parallel HDF5, each the stages it owns, so that the grid of the writer does not matter to
/// the reader.

/// Collective. Throws UserError where the file cannot be written.
void writeParameters(const std::string& path, const std::string& deck, const Partition& partition,
                     const Grid& grid, const std::vector<const Stage*>& stages);

/// Collective. Throws UserError naming the file and the tensor that is missing or of another shape.
void readParameters(const std::string& path, const Grid& grid, const std::vector<Stage*>& stages);

/// A tensor as the file has it.
struct StoredTensor {
  std::string layer, name;
  std::vector<std::int64_t> extents;
};
struct StoredParameters {
  std::string deck;
  std::vector<StoredTensor> tensors; ///< in layer order
};
/// What is inside, without the values; on one rank. Throws UserError where it is no such file.
StoredParameters inspectParameters(const std::string& path);

/// Throws UserError where the file lacks a tensor of the network or has one of another shape; on one rank.
void checkParameters(const std::string& path, const Partition& partition);

/// SHA-256 over all parameters in layer order, the same whatever the grid. Collective; on rank 0, elsewhere
/// empty.
std::string hashParameters(const Grid& grid, const std::vector<const Stage*>& stages);

} // namespace partita
