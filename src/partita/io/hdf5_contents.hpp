#pragma once

#include "partita/data/hdf5.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace partita {

/// What a reader asks an HDF5 file that it does not know yet: the file may be damaged or hostile, so names,
/// sizes and structure are checked before memory is allocated. `path` names the file in messages.

/// Names of all data sets, as KIND/LAYER/NAME with at most three levels. Throws UserError if groups are
/// deeper, as in a cycle, or hold anything else.
std::vector<std::string> datasetNames(hid_t file, const std::string& path);

/// True for numbers or one text, if the stored bytes can decompress to the size that the data set claims.
bool hasSensibleSize(hid_t dataset, const std::vector<std::int64_t>& extents);

/// Gets the data spaces of a block in memory and in the file, the position of its first value in the slice,
/// and its values.
using TakeBlock = std::function<void(hid_t memory, hid_t file, std::int64_t first, std::int64_t values)>;

/// Calls `take` for blocks of a slice of a data set, a few megabytes each.
void forEachBlock(hid_t dataset, const TensorSlice& slice, const TakeBlock& take);

} // namespace partita
