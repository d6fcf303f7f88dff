#pragma once

#include "partita/comm/traffic.hpp"
#include "partita/core/provenance.hpp"
#include "partita/core/types.hpp"
#include "partita/io/tensor_parts.hpp"
#include "partita/plan/run_length.hpp"
#include "partita/plan/tensor_slice.hpp"

#include <functional>
#include <numeric>
#include <optional>

namespace partita {

/// The layout of `parameters.h5` and of checkpoints (docs/checkpoint-format.md). Both are HDF5 with one data
/// set per tensor, `/KIND/LAYER/NAME`; a checkpoint has more kinds and the group `/state`. Every data set has
/// an attribute `crc32` over its values, and HDF5 itself keeps checksums of everything else, so that damage
/// is detected anywhere in the file.

constexpr std::int64_t run_file_version = 1;
constexpr const char* parameters_kind = "parameters";
constexpr const char* statistics_kind = "statistics"; ///< running means and the like

/// The kind of a replica's own values when replicas differ; those of the first replica have the plain name.
inline std::string kindOfReplica(const std::string& kind, int replica) {
  return replica == 0 ? kind : kind + ".replica" + std::to_string(replica + 1);
}

/// One data set of the network: `/first_moment/layer3.dense/weight`.
struct TensorRecord {
  std::string kind, layer, name;
  std::vector<std::int64_t> extents;
  std::string axes = {}; ///< see ParameterShape; empty in a record read from a file

  std::string path() const { return "/" + kind + "/" + layer + "/" + name; }
  std::int64_t size() const {
    return std::accumulate(extents.begin(), extents.end(), std::int64_t{1}, std::multiplies<>{});
  }
};

/// Null if there is none of that name.
inline const TensorRecord* findRecord(const std::vector<TensorRecord>& tensors, const std::string& kind,
                                      const std::string& layer, const std::string& name) {
  for (const TensorRecord& tensor : tensors)
    if (tensor.kind == kind && tensor.layer == layer && tensor.name == name) return &tensor;
  return nullptr;
}

/// Facts about the run, stored in the file.
struct RunFacts {
  std::string deck;                ///< the effective deck
  std::int64_t classes = 0;        ///< of the data
  std::vector<std::int64_t> shape; ///< of one sample
  std::vector<float> shift, scale; ///< how features are standardised: (x - shift) * scale
  std::vector<std::int64_t>
      label_values; ///< labels of classes 0, 1, ... in the data files; empty: equal to the classes
  Provenance provenance;
  std::vector<double> exit_weights =
      {}; ///< of each stage's prediction in the joined network; empty: all are equal
};

/// Sums of a stage and replica since the last row of the history.
struct LossSums {
  double loss = 0.0, correct = 0.0, rows = 0.0;
};

/// The state of a stage's updates.
struct UpdateState {
  double steps = 0.0;       ///< taken by the optimiser
  double loss_scale = 0.0;  ///< factor on the loss; 1: no scaling
  double clean_steps = 0.0; ///< steps since `loss_scale` changed
};
static_assert(sizeof(LossSums) == 3 * sizeof(double) && sizeof(UpdateState) == 3 * sizeof(double),
              "files have rows of three numbers");

/// What a checkpoint adds: how far the run was. Random numbers are functions of seed, stream, epoch and
/// index, so they have no state besides positions.
struct RunProgress {
  Position position;
  std::int64_t run_step = 0;               ///< RunLength::runStep
  std::int64_t samples = 0, per_epoch = 0; ///< samples of the training set, batches per epoch
  std::int64_t seed = 0;
  double elapsed_seconds = 0.0, training_seconds = 0.0, evaluation_seconds = 0.0;
  Traffic traffic; ///< of all ranks together
  std::int64_t stages = 1, replicas = 1, ranks = 1;
  std::vector<LossSums> scores;     ///< [stages, replicas]
  std::vector<UpdateState> updates; ///< by stage; zeros for a stage that is not being trained
  std::vector<double> numbers = {}; ///< that the strategy keeps in addition; most keep none

  /// Index of a stage and replica in `scores`.
  std::size_t scoreIndex(std::int64_t stage, std::int64_t replica) const {
    return stage * replicas + replica;
  }
};

/// Everything that goes into a file, as one rank knows it: the same on every rank except for `parts`.
struct RunFileContent {
  RunFacts facts;
  std::optional<RunProgress> progress; ///< none: parameters only
  std::vector<TensorRecord> tensors;
  /// The parts of each tensor on this rank. All ranks together have every value exactly once.
  std::vector<std::vector<TensorPart>> parts;

  /// Declares that this rank has these slices of a tensor, one after another in `values`.
  void place(std::size_t tensor, const std::vector<TensorSlice>& slices, const Real* values) {
    parts[tensor].clear();
    for (const TensorSlice& slice : slices) {
      parts[tensor].push_back({slice, values});
      values += slice.size();
    }
  }
  /// Declares that it has the whole tensor.
  void place(std::size_t tensor, const Real* values) {
    place(tensor, {wholeOf(tensors[tensor].extents)}, values);
  }
};

} // namespace partita
