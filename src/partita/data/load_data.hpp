#pragma once

#include "partita/data/dataset.hpp"

namespace partita {

/// Reads or generates the data of a deck. With `trained`, classes, labels and standardisation are those of
/// the data of that network, and not those of the training set at hand. Throws UserError with one line that
/// names the file and what is wrong.
DataSets loadData(const DataSection& section, std::uint64_t seed, Need need,
                  const TrainedInput* trained = nullptr);

} // namespace partita
