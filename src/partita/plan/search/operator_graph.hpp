#pragma once

#include <string>
#include <utility>
#include <vector>

namespace partita {

/// Kinds of operators, as far as they differ in time.
enum class OperatorKind {
  product, ///< matrix product, on a tensor core; all others use vector cores
  move,    ///< copies values: embeddings
  add,     ///< also subtractions, masks and scaling by a constant
  multiply,
  divide,
  power,       ///< also square roots
  gelu,        ///< by its error function
  exponential, ///< sigmoid, SiLU
  tanh,
  sine,
  relu,
  dropout,
  norm,
  mean,      ///< over rows
  softmax,   ///< over rows
  all_reduce ///< sum over the devices that share a layer
};

/// An operator of a layer. The shapes are those of one device.
struct GraphOperator {
  std::string name;
  OperatorKind kind = OperatorKind::add;
  double elements = 0.0; ///< values of the output
  double second = 0.0;   ///< values of the second operand; 0: there is none, or it is a constant
  double taps = 1.0;     ///< pooling: places of a window
  double row = 1.0;      ///< mean and softmax: values of a row of the input
  double batch = 1.0, rows = 0.0, inner = 0.0, columns = 0.0; ///< product: batch x (rows x inner x columns)
  double values = 0.0;                                        ///< all_reduce: in the vector
  /// An all-reduce of the backward pass only: in the forward pass it is a copy without cost.
  bool backward_only = false;

  static GraphOperator product(const std::string& name, double batch, double rows, double inner,
                               double columns);
  static GraphOperator vector(const std::string& name, OperatorKind kind, double elements);
};

/// Operators, and edges as pairs of positions: the second operator needs the output of the first. Operators
/// follow their predecessors.
struct OperatorGraph {
  std::vector<GraphOperator> operators;
  std::vector<std::pair<int, int>> edges;
};

/// A layer of a network on each of the devices that share it, for one microbatch.
struct GraphLayer {
  std::string name;
  OperatorGraph graph;
  double parameters = 0.0;  ///< numbers
  double activations = 0.0; ///< numbers: outputs of all operators
  double output = 0.0;      ///< numbers that the next layer gets
  bool tensor_parallel = false;

  /// Appends an operator; its output is kept for the backward pass. -1 as an input stands for the input of
  /// the layer. Returns its position.
  int add(GraphOperator op, const std::vector<int>& inputs);
  double macs() const; ///< multiply-adds of a forward pass
};

/// A chain of layers, some of which are equal. `chain` has their positions in `layers`.
struct ModelChain {
  int tensor_degree = 1;
  std::vector<GraphLayer> layers;
  std::vector<int> chain;
};

/// Sets of operators that run as one, and the edges between them, in the order of their first members. An
/// operator joins the set of its only predecessor if that has no other successor and the kinds match: sets
/// that begin with a product absorb element-wise operators, dropout, activations and norms; sets that begin
/// with an element-wise operator absorb element-wise operators, dropout and means. Sets are chains, so no
/// operator waits for more than before. Without `fuse` each set has one operator.
struct FusedGraph {
  std::vector<std::vector<int>> members;
  std::vector<std::pair<int, int>> edges;
};
FusedGraph fusedGraph(const OperatorGraph& graph, bool fuse);

} // namespace partita
