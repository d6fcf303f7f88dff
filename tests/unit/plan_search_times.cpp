#include "partita/plan/search/latency.hpp"

#include <algorithm>
#include <random>

#include "search_models.hpp"
#include "support/catch.hpp"

namespace partita::test::plan_search_times {

TEST_CASE("Products take at least as long as their arithmetic and their values", "[plan][search]") {
  const Accelerator reference = referenceAccelerator();
  const double elements = 128.0 * 128.0;
  REQUIRE(productCycles(reference, square(4096), false) == 4096.0 * 4096.0 * 4096.0 / elements);
  REQUIRE(productCycles(reference, square(4096), true) == 4096.0 * 4096.0 * 4096.0 / elements / 8.0);
  // One row: the weights have to be read, 128 values per cycle.
  const GraphOperator thin = GraphOperator::product("thin", 1.0, 1.0, 4096.0, 4096.0);
  REQUIRE(productCycles(reference, thin, false) >= 4096.0 * 4096.0 / 128.0);
  REQUIRE(productCycles(reference, thin, false) < 1.01 * 4096.0 * 4097.0 / 64.0);

  std::mt19937_64 random(9);
  const std::vector<Accelerator> space = acceleratorSpace();
  for (int i = 0; i < 300; ++i) {
    Accelerator one = space[random() % space.size()];
    const auto extent = [&] { return static_cast<double>(1 + random() % 3000); };
    const GraphOperator op = GraphOperator::product("", 1.0 + random() % 5, extent(), extent(), extent());
    const double macs = op.batch * op.rows * op.inner * op.columns;
    const double values = op.batch * std::max((op.rows + op.columns) * op.inner, op.rows * op.columns);
    const double alone = productCycles(one, op, false), together = productCycles(one, op, true);
    INFO(one.tensor_cores << " x " << one.width << " x " << one.depth << ": " << op.rows << " " << op.inner
                          << " " << op.columns);
    REQUIRE(alone >= macs / (one.width * one.depth));
    REQUIRE(together >= macs / (one.width * one.depth) / one.tensor_cores);
    REQUIRE(std::min(alone, together) >= values / 128.0);
    if (one.buffer_mib < 128) {
      one.buffer_mib *= 2;
      REQUIRE(productCycles(one, op, false) <= alone);
      REQUIRE(productCycles(one, op, true) <= together);
    }
  }
}

TEST_CASE("Times of operators follow the options", "[plan][search]") {
  const Accelerator reference = referenceAccelerator();
  LatencyOptions options;
  options.frequency = 1.0; // cycles
  const auto seconds = [&](const GraphOperator& op, Direction pass, bool all_cores) {
    return LatencyEstimator(reference, options, 1e9, 4).seconds(op, pass, all_cores);
  };
  const GraphOperator product = square(4096);
  REQUIRE(seconds(product, Direction::backward, false) == 2.0 * seconds(product, Direction::forward, false));
  options.weight_gradients = false;
  REQUIRE(seconds(product, Direction::backward, false) == seconds(product, Direction::forward, false));

  GraphOperator softmax = GraphOperator::vector("softmax", OperatorKind::softmax, 1000.0 * 512.0);
  softmax.row = 512.0;
  REQUIRE(seconds(softmax, Direction::forward, false) == 10.0 * 4000.0 + 1000.0 * 4.0 + 10.0);
  REQUIRE(seconds(softmax, Direction::forward, true) == 10.0 * 2000.0 + 1000.0 * 2.0 + 10.0);
  REQUIRE(seconds(softmax, Direction::backward, false) == 2.0 * 4000.0);
  GraphOperator mean = GraphOperator::vector("mean", OperatorKind::mean, 1000.0);
  mean.row = 512.0;
  REQUIRE(seconds(mean, Direction::forward, false) == 1000.0 * (4.0 + 10.0));
  REQUIRE(seconds(mean, Direction::forward, true) == 1000.0 * (2.0 + 10.0));
  GraphOperator product_of_two = GraphOperator::vector("multiply", OperatorKind::multiply, 512.0 * 1280.0);
  REQUIRE(seconds(product_of_two, Direction::backward, false) == 5120.0); // by a constant
  product_of_two.second = 1280.0;                                         // once for all rows
  REQUIRE(seconds(product_of_two, Direction::forward, false) == 5120.0);
  REQUIRE(seconds(product_of_two, Direction::backward, false) == 5120.0 + 10.0);
  REQUIRE(seconds(product_of_two, Direction::backward, true) == 2560.0 + 5.0);
  product_of_two.second = product_of_two.elements;
  REQUIRE(seconds(product_of_two, Direction::backward, false) == 2.0 * 5120.0);
  const GraphOperator sine = GraphOperator::vector("sine", OperatorKind::sine, 1280.0);
  REQUIRE(seconds(sine, Direction::forward, false) == 13.0 * 10.0);
  REQUIRE(seconds(sine, Direction::backward, false) == 2.0 * 10.0);
  const GraphOperator move = GraphOperator::vector("lookup", OperatorKind::move, 1280.0);
  REQUIRE(seconds(move, Direction::forward, false) == 10.0);
  options.moves = false;
  REQUIRE(seconds(move, Direction::forward, false) == 0.0);

  GraphOperator sum;
  sum.kind = OperatorKind::all_reduce;
  sum.values = 2e9;
  REQUIRE(seconds(sum, Direction::forward, true) == 2.0 * 3.0 / 4.0 * 4.0);
  REQUIRE(seconds(sum, Direction::backward, true) == 0.0);

  GraphLayer layer;
  int last = layer.add(product, {});
  for (int i = 0; i < 2; ++i) last = layer.add(GraphOperator::vector("", OperatorKind::add, 1280.0), {last});
  const auto latency = [&] {
    const ScheduleTask task =
        LatencyEstimator(reference, options, 1e9, 1).task(layer.graph, Direction::forward);
    REQUIRE(task.operators.size() == 1);
    REQUIRE(task.operators[0].type == CoreType::both);
    return task.operators[0].latency;
  };
  const double arithmetic = seconds(product, Direction::forward, false);
  REQUIRE(latency() == arithmetic + 20.0);
  options.each_fused = false;
  REQUIRE(latency() == arithmetic + 10.0);
  options.fuse = false;
  const ScheduleTask task =
      LatencyEstimator(reference, options, 1e9, 1).task(layer.graph, Direction::backward);
  REQUIRE(task.operators.size() == 3);
  REQUIRE(task.edges == std::vector<std::pair<int, int>>{{1, 0}, {2, 1}});
  options.peak = true;
  REQUIRE(seconds(product, Direction::forward, true) == 4096.0 * 4096.0 * 4096.0 / (128.0 * 128.0) / 8.0);
}

TEST_CASE("Operators without duration keep the order of those around them", "[plan][search]") {
  LatencyOptions options;
  options.fuse = false;
  GraphLayer layer;
  const int first = layer.add(square(8), {});
  GraphOperator copy;
  copy.kind = OperatorKind::all_reduce; // of the backward pass
  copy.backward_only = true;
  const int middle = layer.add(copy, {first});
  layer.add(square(16), {middle});
  const ScheduleTask task =
      LatencyEstimator(referenceAccelerator(), options, 1e9, 1).task(layer.graph, Direction::forward);
  REQUIRE(task.operators.size() == 2);
  REQUIRE(task.edges == std::vector<std::pair<int, int>>{{0, 1}});
}

} // namespace partita::test::plan_search_times
