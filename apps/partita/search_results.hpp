#pragma once

#include "partita/io/json.hpp"
#include "partita/plan/search/architecture_search.hpp"

#include <string>
#include <vector>

namespace partita {

/// The results of a search, row by row in the order of its accelerators.
struct SearchResults {
  const SearchTask& task;
  std::vector<SearchRow> rows;

  const SearchAnswer& answer(std::size_t row, std::size_t one_case, std::size_t model) const {
    return rows[row][one_case * task.models.size() + model];
  }
  /// Throughput relative to the reference accelerator in the same case, averaged over the models; a model
  /// that does not fit counts 0, and one that does not fit on the reference counts 1.
  double score(std::size_t row, std::size_t one_case) const;
  std::size_t reference() const; ///< its row
};

/// Prints the best results of all cases, each with its certificate.
void showBest(const SearchResults& results, ArchitectureSearch& search, std::size_t count);

/// All results, case by case, as the authors' program writes them: by number `acc_config` and, under the name
/// of each model, the plan, its throughput in samples/s and its certificate; and the best in full.
JsonObject jsonOf(const SearchResults& results, ArchitectureSearch& search);

} // namespace partita
