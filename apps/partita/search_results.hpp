#pragma once

#include "partita/io/json.hpp"
#include "partita/plan/search/architecture_search.hpp"

#include <string>
#include <vector>

namespace partita {

/// The results of a search, row by row in the order of its accelerators.
struct SearchResults {
  SearchResults(const SearchTask& searched, std::vector<SearchRow> found);

  const SearchTask& task;
  std::vector<SearchRow> rows;
  std::size_t reference = 0; ///< the row of the reference accelerator
  /// By case and model, seconds of the fastest plan on the reference in all cases with the same memory; if
  /// none fits there, of the fastest plan on any accelerator.
  std::vector<double> yardsticks;

  const SearchAnswer& answer(std::size_t row, std::size_t one_case, std::size_t model) const {
    return rows[row][one_case * task.models.size() + model];
  }
  /// Throughput relative to the yardstick, averaged over the models; a model that does not fit counts 0.
  double score(std::size_t row, std::size_t one_case) const;
};

/// Prints the best results of all cases, each with its certificate.
void showBest(const SearchResults& results, ArchitectureSearch& search, std::size_t count);

/// All results, case by case, as the authors' program writes them: by number `acc_config` and, under the name
/// of each model, the plan, its throughput in samples/s and its certificate; and the best in full.
JsonObject jsonOf(const SearchResults& results, ArchitectureSearch& search);

} // namespace partita
