#pragma once

#include "partita/comm/grid.hpp"
#include "partita/io/read_run_file.hpp"
#include "partita/nn/stage.hpp"
#include "partita/plan/partition.hpp"

#include <string>
#include <vector>

namespace partita {

/// The tensors of a stage in a buffer of one kind: its statistics, or anything shaped like its parameters.
const std::vector<StageTensor>& tensorsOf(const Stage& stage, const std::string& kind);

/// Registers in `content` where the values of one kind of a stage are; `values` is flat, like the stage's
/// buffer.
void placeValues(RunFileContent& content, const std::string& kind, const Stage& stage, const Real* values);

/// All tensors of one kind in the whole network, in layer order.
std::vector<TensorRecord> networkTensors(const Partition& partition, const std::string& kind);

/// Reads the parameters and statistics of `stages`, found by layer name; those of replica `replica` if the
/// file has separate values for it. Throws UserError if one is missing or has another shape. Collective like
/// `StoredTensors::fill`, as is the next function.
void readParameters(const StoredTensors& file, const std::vector<Stage*>& stages, int replica = 0);

/// Reads the values of one kind for every tensor of a stage into a flat buffer like its parameters. Returns
/// false, and reads nothing, if the file lacks any of them. `replica` as above.
bool readStageTensors(const StoredTensors& file, const std::string& kind, const Stage& stage,
                      const StoredVector& values, int replica = 0);

/// Throws UserError if a parameter or statistics tensor of the network, or of the heads of its
/// stages, is missing from the file or has another shape. Heads are checked only if `with_heads` is
/// set: a network that goes on learning can start new ones.
void checkParameters(const StoredTensors& file, const Partition& partition, bool with_heads);

/// SHA-256 over all parameters and statistics in layer order, independent of the grid. Collective; the result
/// is on rank 0, and empty elsewhere.
std::string hashParameters(const Grid& grid, const std::vector<const Stage*>& stages);

} // namespace partita
