#pragma once

#include "partita/data/hdf5.hpp"

#include <string>
#include <vector>

namespace partita {

/// Throws UserError: HDF5 cannot read what is at `place`.
[[noreturn]] void failRead(const std::string& place);

/// Throws UserError, or warns, if HDF5 would read zeros or the fill value without an error, because values of
/// the data set, of external files or of the sources of a virtual data set are missing. `file`: that of the
/// data set; `place`: both, for messages.
void checkStored(const Hdf5Dataset& dataset, const std::string& file, const std::string& place);

/// The files other than `file` that have values of a data set in it: targets of links, raw files, and sources
/// of virtual data sets. What cannot be opened adds none.
std::vector<std::string> filesBehind(const std::string& file, const std::string& dataset);

} // namespace partita
