#pragma once

#include "partita/data/dataset.hpp"

namespace partita {

/// The two files of a deck of kind `hdf5`: features [n, ...] of a numeric type (unsigned bytes stay bytes,
/// all other types become float) and integer labels [n], in the data sets named by the deck. The dimensions
/// after n are the shape of a sample. Data sets that were never written, and virtual ones without their
/// sources, are refused, since HDF5 would read their fill value. Errors are UserError with the file, the data
/// set and the sample. For a `trained` network only the test file is read, if there is one; it may lack the
/// labels if `trained` says so.
LoadedSets readHdf5(const DataSection& section, Need need, const TrainedInput* trained = nullptr);

} // namespace partita
