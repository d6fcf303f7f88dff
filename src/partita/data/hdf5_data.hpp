#pragma once

#include "partita/data/dataset.hpp"

namespace partita {

/// The two files of a deck of kind `hdf5`: features [n, ...] of a numeric type (unsigned bytes stay bytes,
/// all else becomes float) and integer labels [n], in the data sets that the deck names. The shape of a
/// sample is what follows n. Errors are UserError with the file, the data set and the sample.
LoadedSets readHdf5(const DataSection& section, Need need);

} // namespace partita
