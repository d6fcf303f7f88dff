#pragma once

#include "partita/plan/search/architecture_search.hpp"

#include <string>
#include <vector>

namespace partita {

/// Which accelerators of the space a search evaluates. 0: any number.
struct ArchitectureChoice {
  double area = 0.0;      ///< largest, um^2; 0: that of the reference
  std::int64_t every = 1; ///< only every n-th
  std::int64_t tensor_cores = 0, vector_cores = 0, width = 0, depth = 0, buffer_mib = 0;
};

/// A specification of a search, without its models.
struct SearchSpec {
  struct Model {
    std::string file; ///< of models/, or a deck; relative to the folder of the specification
  };

  std::vector<Model> models;
  std::vector<SearchCase> cases;
  ArchitectureChoice architectures;
  LatencyOptions latency;
  ScheduleEngine engine = ScheduleEngine::built_in;
  std::int64_t schedule_width = 64; ///< of the built-in engine; 0: exact
  std::int64_t devices = 1024, batch = 4096;
  double bandwidth = 4294967296.0;
  std::int64_t node_devices = 1;
  double node_bandwidth = 0.0, host_bandwidth = 0.0; ///< 0: as `bandwidth`
  bool adam = false;

  /// A task without models.
  SearchTask task() const;
};

/// Reads a specification. Throws UserError with all mistakes and their places.
SearchSpec loadSearchSpec(const std::string& path);
SearchSpec parseSearchSpec(const std::string& text, const std::string& name);

/// The selected accelerators, in the order of the space. The reference is added if it is not among them, so
/// the best result is never worse than that of the reference.
std::vector<Accelerator> accelerators(const ArchitectureChoice& choice, bool with_reference = true);

} // namespace partita
