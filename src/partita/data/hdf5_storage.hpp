#pragma once

#include "partita/data/hdf5.hpp"

#include <string>

namespace partita {

/// Throws UserError: HDF5 cannot read what is at `place`.
[[noreturn]] void failRead(const std::string& place);

/// Throws UserError, or warns, if HDF5 would read zeros or the fill value without an error, because values of
/// the data set, of external files or of the sources of a virtual data set are missing. `file`: that of the
/// data set; `place`: both, for messages.
void checkStored(const Hdf5Dataset& dataset, const std::string& file, const std::string& place);

} // namespace partita
