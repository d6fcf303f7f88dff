#pragma once

#include "partita/core/sha256.hpp"
#include "partita/io/joined_network.hpp"
#include "partita/io/read_run_file.hpp"

namespace partita {

/// Converts layers to the operations of other programs, with values from a file.
class LayerOperations {
 public:
  explicit LayerOperations(const RunFile& file, Shape input) : _file(file), _shape(std::move(input)) {}

  void add(const LayerPlan& layer);
  /// Adds an operation that takes and returns rows of `width` values: samples, or positions of sequences.
  void addRows(Operation operation, std::int64_t width);
  /// Gives each sample the output shape of the network.
  void finish(const Shape& shape) { reshape(shape, "output"); }

  std::vector<Operation> take() { return std::move(_operations); }
  std::string hash() const { return _hash.hex(); } ///< over all values so far, as in `hashParameters`

 private:
  void addGroup(const LayerPlan& layer);
  void addStep(const LayerPlan& layer, const LayerStep& step);
  void addActivation(const LayerPlan& layer);
  void readTensors(const char* kind, const std::vector<ParameterShape>& shapes, Operation& operation);
  void reshape(const Shape& shape, const std::string& name);

  const RunFile& _file;
  Shape _shape;       ///< current shape of a sample, or of a position
  std::string _table; ///< tensor of the embedding
  std::vector<Operation> _operations;
  Sha256 _hash;
};

} // namespace partita
