#pragma once

#include "partita/data/dataset.hpp"

namespace partita {

/// Reads or generates the data of a deck. With `trained`, classes, labels and standardisation come from that
/// network's data instead of the current training set, which is not read if the test set has a file of its
/// own. Warns once about data that look like a mistake. Throws UserError with a one-line message that names
/// the file and the problem.
DataSets loadData(const DataSection& section, std::uint64_t seed, Need need,
                  const TrainedInput* trained = nullptr);

/// All files that a deck may read as data: each with and without ".gz", whichever name the deck has, and the
/// files from which HDF5 takes the values of the named ones.
std::vector<std::string> dataFiles(const DataSection& section);

} // namespace partita
