#pragma once

#include "partita/io/new_run_file.hpp"

namespace partita {

/// Tensors in chunks of whole rows, about 4 MiB each, behind HDF5's filters shuffle and deflate.
///
/// HDF5 lets ranks write such chunks only together, in dozens of collective calls a tensor; where one of them
/// fails, the others do not come out. So each rank puts its own values through the filters, and sends the
/// chunks to rank 0, which alone has the file open and stores them as they come. A tensor that ranks have
/// parts of is gathered and compressed by rank 0.

std::int64_t rowsOfChunk(const TensorRecord& tensor);

/// Collective; `file` is what rank 0 has open, nullptr on other ranks; `divided` says for each tensor whether
/// it consists of several parts. Returns the checksum of each tensor that went through this rank's filters,
/// 0 for others. Throws UserError on rank 0 where a chunk cannot be stored, and on a rank
/// with values that are not finite; all chunks have been sent and taken by then.
std::vector<std::uint32_t> writeCompressed(const Communicator& comm, const std::string& path,
                                           const NewRunFile* file, const RunFileContent& content,
                                           const std::vector<bool>& divided, int level);

} // namespace partita
