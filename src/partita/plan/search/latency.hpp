#pragma once

#include "partita/plan/schedule/operator_schedule.hpp"
#include "partita/plan/search/accelerator.hpp"
#include "partita/plan/search/operator_graph.hpp"

#include <map>
#include <tuple>

namespace partita {

/// How times of operators are estimated. Where PHAZE's release is wrong, the default is right.
struct LatencyOptions {
  double frequency = 1.05e9;    ///< cycles/s
  double bytes_per_value = 2.0; ///< of parameters and activations
  bool fuse = true;             ///< operators run as one if possible
  bool peak = false;            ///< products: all processing elements busy, memory accesses free
  bool weight_gradients = true; ///< the release omits their products in backward passes
  bool each_fused = true;       ///< the release counts only the first operator that a product absorbs
  bool moves = true;            ///< in the release, embeddings take no time
};

enum class Direction { forward, backward };

/// Cycles of the product batch x (rows x inner x columns) on one core or on all: the largest of the time of
/// the processing elements and those of reading and writing at three levels of memory (64, 256 and 128 values
/// per cycle), with the best power-of-two tiles at each level. `value_bytes`: bytes of a value in memory.
double productCycles(const Accelerator& accelerator, const GraphOperator& product, bool all_cores,
                     double value_bytes = 2.0);

/// Times of operators on one accelerator. Times of repeated products are computed once.
class LatencyEstimator {
 public:
  LatencyEstimator(const Accelerator& accelerator, const LatencyOptions& options, double bandwidth,
                   int tensor_degree)
      : _accelerator(accelerator), _options(options), _bandwidth(bandwidth), _degree(tensor_degree) {}

  double seconds(const GraphOperator& op, Direction pass, bool all_cores);
  /// The operators of a layer as a task for the scheduler, in seconds. In a backward pass, edges are
  /// reversed. Operators that take no time are left out; their predecessors are connected to their
  /// successors. The task may be empty.
  ScheduleTask task(const OperatorGraph& graph, Direction pass);

 private:
  using Shape = std::tuple<double, double, double, double, bool>;

  double cyclesOf(const GraphOperator& product, bool all_cores);
  double vectorCycles(const GraphOperator& op, Direction pass, bool all_cores) const;
  Operator fusedOperator(const OperatorGraph& graph, const std::vector<int>& members, Direction pass);

  const Accelerator& _accelerator;
  const LatencyOptions& _options;
  double _bandwidth; ///< bytes/s between devices
  int _degree;
  std::map<Shape, double> _products;
};

} // namespace partita
