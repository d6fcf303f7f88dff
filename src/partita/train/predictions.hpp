#pragma once

#include "partita/comm/grid.hpp"
#include "partita/core/types.hpp"
#include "partita/data/dataset.hpp"
#include "partita/io/npz.hpp"

#include <memory>

namespace partita {

/// What the joined network says of each sample of a set, as NumPy's .npz: `features` [samples, width] as the
/// data files have them, `labels` [samples], `logits` [samples, classes]; of tokens `labels` [samples,
/// positions], `logits` [samples, positions, classes].
class Predictions {
 public:
  /// `path` empty: nothing is kept. Collective; throws UserError on every rank where the file cannot be
  /// written.
  Predictions(const Communicator& world, const std::string& path);

  bool wanted() const { return _wanted; }
  /// The outputs for the next rows of this replica's part, on the ranks of the last stage.
  void add(const ExecSpace& space, const Matrix& logits);
  /// Collects the outputs on rank 0, which has the features, and writes the file. Collective.
  void write(const Grid& grid, const DataSets& sets, const Dataset& set);

 private:
  void writeFeatures(const Samples& features);

  bool _wanted;
  std::unique_ptr<NpzWriter> _file; ///< on rank 0
  std::vector<float> _logits;       ///< of this rank
};

} // namespace partita
