#pragma once

#include "partita/comm/grid.hpp"
#include "partita/io/read_run_file.hpp"
#include "partita/nn/stage.hpp"
#include "partita/plan/partition.hpp"

#include <string>
#include <vector>

namespace partita {

/// The tensors of a stage in a buffer of some kind: its statistics, or what is shaped as its parameters.
const std::vector<StageTensor>& tensorsOf(const Stage& stage, const std::string& kind);

/// Says where the values of one kind of a stage lie: `values` is flat, as its buffer is.
void placeValues(RunFileContent& content, const std::string& kind, const Stage& stage, const Real* values);

/// The tensors of one kind of the whole network, in layer order.
std::vector<TensorRecord> networkTensors(const Partition& partition, const std::string& kind);

/// The parameters and statistics of `stages`, from the layers of those names, of replica `replica` where the
/// file has values of its own for it. Throws UserError where one is missing or of another shape.
void readParameters(const RunFile& file, const std::vector<Stage*>& stages, int replica = 0);

/// Values of one kind for every tensor of a stage, into a flat buffer like its parameters. Returns false,
/// with nothing read, where the file has not all of them. `replica` as above.
bool readStageTensors(const RunFile& file, const std::string& kind, const Stage& stage,
                      const StoredVector& values, int replica = 0);

/// Throws UserError where the file lacks a parameter or statistics of the network or has one of another
/// shape.
void checkParameters(const RunFile& file, const Partition& partition);

/// SHA-256 over all parameters and statistics in layer order, the same whatever the grid. Collective; on rank
/// 0, elsewhere empty.
std::string hashParameters(const Grid& grid, const std::vector<const Stage*>& stages);

} // namespace partita
