#pragma once

#include "partita/core/random.hpp"
#include "partita/data/batch_reader.hpp"
#include "partita/plan/share.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace partita {

/// The numbers 0 .. n-1 in random order, n < 2^32: the Fisher-Yates shuffle in Durstenfeld's form (CACM
/// algorithm 235, 1964). Depends only on the stream and n.
std::vector<std::uint32_t> permutation(std::size_t n, const RandomStream& stream);

/// The order in which an epoch visits n training samples.
std::vector<std::uint32_t> permutation(std::size_t n, std::uint64_t seed, std::uint32_t epoch);

/// The rows of each batch and its epoch, as functions of the seed and of positions only.

/// Training: batch t is the replica's share of the t-th batch of the run. Every epoch is a new permutation,
/// without its last partial batch; `first` is the position in the run of the reader's batch 0.
BatchReader::RowsOf trainingOrder(std::int64_t samples, std::uint64_t seed, std::int64_t batch, int replica,
                                  int replicas, std::int64_t first);

/// The batches of an order in parts, with the parts of a batch one after another: part i is share i % parts
/// of batch i / parts.
BatchReader::RowsOf inParts(const BatchReader::RowsOf& order, std::int64_t parts);

/// One pass over all rows in the order of epoch 0, in segments no larger than one replica's share: first the
/// shares of each batch in turn, then the rows that training leaves out of this epoch.
BatchReader::RowsOf streamingOrder(std::int64_t samples, std::uint64_t seed, std::int64_t batch,
                                   int replicas);
/// Number of segments in one pass, and number of those that belong to whole batches.
std::int64_t streamingSegments(std::int64_t samples, std::int64_t batch, int replicas);
std::int64_t wholeBatchSegments(std::int64_t samples, std::int64_t batch, int replicas);

/// Rows [first, end) in their own order, `capacity` at a time.
BatchReader::RowsOf sequentialOrder(std::int64_t first, std::int64_t end, std::int64_t capacity);

} // namespace partita
