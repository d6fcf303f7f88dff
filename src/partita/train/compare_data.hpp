#pragma once

#include "partita/config/run_config.hpp"
#include "partita/data/dataset.hpp"
#include "partita/io/run_file.hpp"

#include <string>

namespace partita {

/// Labels with other values would be different classes with the same numbers as those that were learned:
/// throws UserError if the training of `file` goes on (`keeps_state`), and warns if it begins anew.
void compareLabels(const RunFacts& facts, const DataSets& sets, const std::string& file, bool keeps_state);

/// Warns if features are no longer standardised as for the network of `file`, which then computes something
/// else.
void compareStandardisation(const RunFacts& facts, const DataSets& sets, const std::string& file);

/// Warns if the features of the test set must be in other units than those that the network of `file` has
/// learned from. Says nothing on a rank without features.
void compareTestFeatures(const RunFacts& facts, const DataSets& sets, const std::string& file);

/// Warns if both decks read the same training file, and `now` holds out other samples of it than `before`,
/// which may have trained on them: as the test set, or if it `trains`, as the validation set. `same_seed`:
/// are the samples drawn by the same random numbers?
void compareHeldOut(const DataSection& before, const DataSection& now, bool same_seed, bool trains);

} // namespace partita
