#pragma once

#include "partita/plan/search/architecture_search.hpp"

#include <string>
#include <vector>

namespace partita {

/// A specification of a search.
struct SearchSpec {
  struct Model {
    std::string file; ///< of models/, or a deck; relative to the folder of the specification
  };

  std::vector<Model> models;
  /// Without models. The reference is among its accelerators, so the best result is never worse than that of
  /// the reference.
  SearchTask task;
};

/// Reads a specification. Throws UserError with all mistakes and their places.
SearchSpec loadSearchSpec(const std::string& path);
SearchSpec parseSearchSpec(const std::string& text, const std::string& name);

} // namespace partita
