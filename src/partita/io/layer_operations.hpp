#pragma once

#include "partita/core/sha256.hpp"
#include "partita/io/joined_network.hpp"
#include "partita/io/read_run_file.hpp"

#include <functional>

namespace partita {

/// Converts layers to the operations of other programs, with values from a file.
class LayerOperations {
 public:
  explicit LayerOperations(const RunFile& file, Shape input) : _file(file), _shape(std::move(input)) {}

  void add(const LayerPlan& layer);
  /// Reads the tensors of a layer that is not exported, because the hash covers them.
  void skip(const LayerPlan& layer);
  /// Adds what stage `number` predicts, times `weight`, to the sum of exits: the log-probabilities of
  /// `classes` classes that `predict` adds. The output of the stage remains the current value.
  void addExit(int number, double weight, std::int64_t classes, const std::function<void()>& predict);
  /// The sum of exits becomes the current value.
  void addSum(std::int64_t classes);
  /// Adds an operation on rows of `width` values, samples or positions of sequences, that returns rows of
  /// `outputs` values; 0: of as many.
  void addRows(Operation operation, std::int64_t width, std::int64_t outputs = 0);
  /// Gives each sample the output shape of the network.
  void finish(const Shape& shape) { reshape(shape, "output"); }

  std::int64_t parameters() const { return _parameters; } ///< of the layers added so far
  std::vector<Operation> take() { return std::move(_operations); }
  std::string hash() const { return _hash.hex(); } ///< over all values so far, as in `hashParameters`

 private:
  void addGroup(const LayerPlan& layer);
  void mark(Operation::Kind kind, const std::string& name, double weight = 1.0);
  void addStep(const LayerPlan& layer, const LayerStep& step);
  void addActivation(const LayerPlan& layer);
  void readTensors(const char* kind, const std::vector<ParameterShape>& shapes, Operation& operation);
  void reshape(const Shape& shape, const std::string& name);

  const RunFile& _file;
  Shape _shape;       ///< current shape of a sample, or of a position
  std::string _table; ///< tensor of the embedding
  std::int64_t _parameters = 0;
  std::vector<Operation> _operations;
  Sha256 _hash;
};

} // namespace partita
