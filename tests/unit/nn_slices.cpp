#include "partita/nn/dropout.hpp"
#include "partita/plan/network_plan.hpp"

#include "support/catch.hpp"
#include "support/default_space.hpp"
#include "support/divisions.hpp"
#include "support/images.hpp"

namespace partita::test::nn_slices {

namespace {

constexpr DefaultSpace space;

LayerSpec layer(const std::string& type) {
  LayerSpec spec;
  spec.type = type;
  return spec;
}

std::vector<LayerPlan> images(Initialisation initialisation) {
  LayerSpec first = layer("conv2d"), grouped = layer("conv2d"), dense;
  first.convolution.channels = 6;
  first.convolution.kernel = {{3, 2}};
  grouped.convolution.channels = 9;
  grouped.convolution.groups = 3;
  grouped.convolution.kernel = {{2}};
  dense.dense.units = 10;
  NetworkSection network;
  network.layers = {first, layer("batch-norm"), grouped, dense, LayerSpec()};
  network.initialisation = initialisation;
  return planNetwork(network, {4, 7, 6}, 5);
}

std::vector<LayerPlan> texts(Initialisation initialisation) {
  LayerSpec embedding = layer("embedding"), attention = layer("attention");
  embedding.embedding.width = 6;
  embedding.embedding.positions = true;
  attention.attention.heads = 2;
  NetworkSection network;
  network.layers = {embedding, layer("layer-norm"), attention, layer("rms-norm"), LayerSpec()};
  network.initialisation = initialisation;
  return planNetwork(network, {8}, 11);
}

std::vector<Real> startOf(const Layer& layer, const ParameterShape& tensor, const TensorSlice& slice) {
  std::vector<Real> values(slice.size(), Real(-1));
  layer.initialise(3, tensor.name, slice, values.data());
  return values;
}

/// The mask itself: the result for an input of ones, samples of this shape.
Values masked(Dropout& dropout, std::int64_t rows, const Shape& shape) {
  const std::int64_t columns = partita::valuesOf(shape);
  Pass pass;
  pass.seed = 5;
  pass.step = 7;
  pass.first_row = 2;
  const Matrix in = matrixOf(rows, columns, Values(rows * columns, 1.0)),
               out = makeMatrix("partita::test::out", rows, columns);
  dropout.forward(space, pass, in, out, Matrix());
  return asInShape(valuesOf(out), shape);
}

LayerPlan dropoutPlan(const Shape& shape) {
  LayerPlan plan;
  plan.spec.type = "dropout";
  plan.spec.dropout.rate = 0.4;
  plan.number = 3;
  plan.in = plan.out = shape;
  return plan;
}

} // namespace

TEST_CASE("Starting values of a slice are that part of the whole's", "[nn]") {
  for (const Initialisation kind :
       {Initialisation::he, Initialisation::xavier, Initialisation::lecun, Initialisation::orthogonal}) {
    for (const auto& plans : {images(kind), texts(kind)}) {
      for (const LayerPlan& plan : plans) {
        const auto made = makeLayer(plan);
        for (const ParameterShape& tensor : plan.parameterShapes()) {
          const std::vector<Real> whole = startOf(*made, tensor, wholeOf(tensor.extents));
          for (const Division& division : someDivisions()) {
            for (const TensorSlice& slice : slicesOf(division, tensor.extents)) {
              INFO(plan.name() << ", " << tensor.name << ", kind " << static_cast<int>(kind) << ", "
                               << division.text());
              CHECK(startOf(*made, tensor, slice) == partOf(whole, slice));
            }
          }
        }
      }
    }
  }
}

TEST_CASE("The dropout mask of a slice of each sample is that part of the whole's", "[nn]") {
  constexpr std::int64_t rows = 5;
  // Values; positions x width; channels, with positions that share a block with the next channel; dozens of
  // blocks.
  for (const Shape& shape : {Shape{43}, Shape{6, 13}, Shape{7, 3, 3}, Shape{9, 300}, Shape{2000}}) {
    const LayerPlan plan = dropoutPlan(shape);
    Dropout whole(plan);
    const Values all = masked(whole, rows, plan.in);
    CHECK(std::count(all.begin(), all.end(), 0.0) > static_cast<long>(all.size()) / 4);
    for (std::size_t axis = 0; axis < std::min<std::size_t>(2, shape.size()); ++axis) {
      for (const std::int64_t parts : {1, 2, 3}) {
        for (std::int64_t part = 0; part < parts; ++part) {
          TensorSlice slice = wholeOf(shape);
          slice.offset[axis] = shape[axis] * part / parts;
          slice.extents[axis] = shape[axis] * (part + 1) / parts - slice.offset[axis];
          Dropout dropout(plan, slice);
          TensorSlice of_batch = slice;
          of_batch.whole.insert(of_batch.whole.begin(), rows);
          of_batch.offset.insert(of_batch.offset.begin(), 0);
          of_batch.extents.insert(of_batch.extents.begin(), rows);
          INFO(toText(shape) << ", axis " << axis << ", part " << part << " of " << parts);
          CHECK(masked(dropout, rows, slice.extents) == partOf(all, of_batch));
        }
      }
    }
  }
}

TEST_CASE("The dropout mask of a block of places is that part of the whole's", "[nn]") {
  constexpr std::int64_t rows = 3;
  for (const TensorSlice& slice :
       {TensorSlice{{6, 5, 4}, {0, 1, 1}, {6, 3, 2}}, TensorSlice{{3, 5, 7, 11}, {0, 1, 2, 3}, {3, 2, 4, 5}},
        TensorSlice{{3, 5, 7, 11}, {0, 4, 2, 9}, {3, 1, 2, 1}},
        TensorSlice{{3, 5, 4, 6}, {0, 2, 0, 0}, {3, 2, 4, 6}}}) {
    const LayerPlan plan = dropoutPlan(slice.whole);
    Dropout whole(plan), block(plan, slice);
    TensorSlice of_batch = slice;
    of_batch.whole.insert(of_batch.whole.begin(), rows);
    of_batch.offset.insert(of_batch.offset.begin(), 0);
    of_batch.extents.insert(of_batch.extents.begin(), rows);
    INFO(toText(slice.whole));
    CHECK(masked(block, rows, slice.extents) == partOf(masked(whole, rows, plan.in), of_batch));
  }
  CHECK_THROWS_AS(
      Dropout(dropoutPlan({6, 5, 4, 3, 2}), TensorSlice{{6, 5, 4, 3, 2}, {0, 1, 1, 1, 0}, {5, 3, 2, 2, 1}}),
      InternalError);
}

} // namespace partita::test::nn_slices
