#pragma once

#include "partita/io/new_run_file.hpp"

namespace partita {

/// Tensors in chunks of whole rows, about 4 MiB each, compressed with HDF5's filters shuffle and deflate.
///
/// HDF5 writes such chunks from several ranks only collectively, in dozens of calls per tensor; if one rank
/// fails, the others hang. Therefore each rank filters its own values and sends the chunks to rank 0, which
/// alone has the file open and stores them as they arrive. Rank 0 gathers and compresses a tensor that is
/// distributed over ranks.

std::int64_t rowsOfChunk(const TensorRecord& tensor);

/// Collective. `file` is the file open on rank 0, nullptr on other ranks; `divided` says for each tensor
/// whether it consists of several parts. Returns the checksum of each tensor that this rank filtered, 0 for
/// the others. Throws UserError on rank 0 if a chunk cannot be stored, and on a rank that has values that are
/// not finite, in both cases after all chunks have been sent and received.
std::vector<std::uint32_t> writeCompressed(const Communicator& comm, const std::string& path,
                                           const NewRunFile* file, const RunFileContent& content,
                                           const std::vector<bool>& divided, int level);

} // namespace partita
