#include "partita/kernels/convolve.hpp"

#include "partita/core/loops.hpp"
#include "partita/kernels/columns.hpp"
#include "partita/kernels/cudnn_convolve.hpp"
#include "partita/kernels/depthwise.hpp"
#include "partita/kernels/narrow_convolve.hpp"
#include "partita/kernels/narrow_gradients.hpp"
#include "partita/kernels/onednn_convolve.hpp"
#include "partita/kernels/onednn_products.hpp"
#include "partita/kernels/packed_weights.hpp"
#include "partita/kernels/winograd.hpp"

#include <algorithm>

namespace partita {

namespace {

/// Products of several rows to a block of the places of their outputs.
struct PutBlock {
  const Real* from;
  Real* to;
  std::int64_t extents[3], whole[3], first; // a line has extents[2] values

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t line, std::int64_t i) const {
    const std::int64_t plane = line / extents[1], y = line - plane * extents[1], row = plane / extents[0],
                       z = plane - row * extents[0];
    to[((row * whole[0] + z) * whole[1] + y) * whole[2] + first + i] = from[line * extents[2] + i];
  }
};

/// Lines that are neighbours in both are one.
PutBlock putBlock(const ConvolutionBlock& block, const Matrix& products, Real* out) {
  const std::int64_t channels = block.plan.out_channels;
  PutBlock put{products.data(), out, {}, {}, block.first_out * channels};
  for (int a = 0; a < 3; ++a) {
    put.extents[a] = block.plan.windows.out[a] * (a == 2 ? channels : 1);
    put.whole[a] = block.whole_out[a] * (a == 2 ? channels : 1);
  }
  for (int a = 2; a > 0 && put.extents[2] == put.whole[2]; --a) {
    put.extents[2] *= put.extents[1];
    put.whole[2] *= put.whole[1];
    put.extents[1] = put.extents[0];
    put.whole[1] = put.whole[0];
    put.extents[0] = put.whole[0] = 1;
  }
  return put;
}

/// body(first, count, packs) for rows that oneDNN computes at once; with `packs` it must be given the
/// weights, whose packed form depends on the number of rows.
template <class Body>
void eachPackedRows(std::int64_t rows, std::int64_t at_once, const Body& body) {
  eachRows(rows, at_once, [&](std::int64_t first, std::int64_t count) {
    body(first, count, first == 0 || count < at_once);
  });
}

/// One row per place.
Matrix perPlace(const Matrix& values, std::int64_t channels) {
  return Matrix(values.data(), values.size() / channels, channels);
}

/// Libraries would leave the gradient of the weights as it is, and kernels would read uninitialised sums.
void backwardOfNoRows(const ExecSpace& space, const ConvolveGradients& gradients) {
  if (gradients.ofWeight() && !gradients.accumulate)
    Kokkos::deep_copy(space, gradients.weight_gradient.real(), Real(0));
  if (gradients.between) gradients.between();
}

} // namespace

Convolve::Convolve(const ConvolutionPlan& plan, Precision operands) : _c(plan), _operands(operands) {}

Convolve::Scratch Convolve::scratchIn(const Vector& work, const Matrix& weight,
                                      const Matrix& weight_gradient) const {
  const std::int64_t size = _c.copiedWeights();
  if (size == 0) return {weight, weight_gradient, work.data()};
  return {Matrix(work.data(), _c.out_channels, _c.depth()),
          Matrix(work.data() + size, _c.out_channels, _c.depth()), work.data() + 2 * size};
}

/// The weights in the order of the columns.
Matrix Convolve::packed(const ExecSpace& space, const Scratch& scratch, const Matrix& weight) const {
  if (copiesWeights()) packWeights(space, _c.windows.taps(), weight, scratch.weight);
  return scratch.weight;
}

/// The channels of a group at all places, or the columns of a group.
TypedMatrix Convolve::ofGroup(const Matrix& values, std::int64_t group) const {
  const std::int64_t width = static_cast<std::int64_t>(values.extent(1)) / _c.groups;
  return TypedMatrix(values).columnsFrom(group * width, width);
}

Matrix Convolve::weightsOfGroup(const Matrix& weight, std::int64_t group) const {
  const std::int64_t outputs = _c.out_channels / _c.groups;
  return rowsFrom(weight, group * outputs, outputs);
}

/// What the windows of some rows see, one row per window.
Matrix Convolve::columnsOf(const ExecSpace& space, const WindowPlan& windows, const Matrix& in,
                           Real* columns) const {
  if (_c.pointwise()) return perPlace(in, _c.in_channels);
  const Matrix found(columns, in.extent(0) * windows.outPlaces(), _c.groups * _c.depth());
  gatherColumns(space, windows, _c.groups, in, found);
  return found;
}

void Convolve::addProducts(const ExecSpace& space, const Matrix& columns, const Matrix& weight,
                           const Matrix& out, const ProductEpilogue& epilogue) const {
  for (std::int64_t g = 0; g < _c.groups; ++g) {
    ProductEpilogue own = epilogue;
    if (own.bias != nullptr) own.bias += g * (_c.out_channels / _c.groups);
    gemm(space, Op::none, Op::transpose, Real(1), ofGroup(columns, g), weightsOfGroup(weight, g), Real(0),
         ofGroup(out, g), own, _operands);
  }
}

/// The algorithm takes floats; a processor that multiplies 16-bit operands as they are is faster.
bool Convolve::usesWinograd() const {
  return winograd::convolves(_c) && (_operands == Precision::single || !onednn::multiplies(_operands));
}

bool Convolve::forwardTakesHalf(const TypedMatrix& in, const TypedMatrix& out) const {
  return onednn::convolves(_c, _operands, in.rows, nullptr, true) ||
         (cudnn::aligned({in.data, out.data}) && cudnn::forwardTakesHalf(_c, _operands, in.rows));
}

bool Convolve::backwardTakesHalf(const TypedMatrix& in, const TypedMatrix& grad,
                                 const TypedMatrix& grad_in) const {
  return onednn::convolves(_c, _operands, in.rows, nullptr, true) ||
         (cudnn::aligned({in.data, grad.data, grad_in.data}) &&
          cudnn::backwardTakesHalf(_c, _operands, in.rows, grad_in.size() > 0));
}

/// For cuDNN: weights and their gradient of 16 bits in the order of the columns, and the rest of the scratch.
struct Convolve::HalfScratch {
  cudnn::ConvolveCase convolution;
  TypedMatrix weight, weight_gradient;
  Real* rest;
};

Convolve::HalfScratch Convolve::halfScratchIn(const Vector& work, std::int64_t rows) const {
  const cudnn::ConvolveCase convolution{_c, _operands, rows, true};
  const std::int64_t each = convolution.halfWeightValues();
  Real* const first = alignedIn(work.data());
  return {convolution, TypedMatrix(_operands, first, _c.out_channels, _c.depth()),
          TypedMatrix(_operands, first + each, _c.out_channels, _c.depth()), first + 2 * each};
}

void Convolve::forwardHalf(const ExecSpace& space, const Vector& work, const TypedMatrix& in,
                           const Matrix& weight, const TypedMatrix& out,
                           const ProductEpilogue& epilogue) const {
  const HalfScratch scratch = halfScratchIn(work, in.rows);
  packWeights(space, _c.windows.taps(), weight, scratch.weight);
  PARTITA_REQUIRE(cudnn::convolveForward(space, scratch.convolution, scratch.rest, in.data,
                                         scratch.weight.data, out.data),
                  "a convolution of 16-bit values for which there is no algorithm");
  applyEpilogue(space, out.inRowsOf(_c.out_channels), epilogue);
}

/// The gradient of the weights is rounded, as it is where it is stored.
void Convolve::backwardHalf(const ExecSpace& space, const Vector& work,
                            const ConvolveGradients& gradients) const {
  const HalfScratch scratch = halfScratchIn(work, gradients.in.rows);
  const std::int64_t taps = _c.windows.taps();
  if (gradients.ofInput()) packWeights(space, taps, gradients.weight.real(), scratch.weight);
  ConvolveGradients halves = gradients;
  halves.weight = scratch.weight;
  if (gradients.ofWeight()) halves.weight_gradient = scratch.weight_gradient;
  halves.accumulate = false;
  PARTITA_REQUIRE(cudnn::convolveBackward(space, scratch.convolution, scratch.rest, halves),
                  "gradients of a convolution of 16-bit values for which there is no algorithm");
  if (gradients.ofWeight())
    unpackWeights(space, taps, scratch.weight_gradient, gradients.weight_gradient.real(),
                  gradients.accumulate);
  if (gradients.between) gradients.between();
}

void Convolve::forward(const ExecSpace& space, const Vector& work, const TypedMatrix& in,
                       const Matrix& weight, const TypedMatrix& out, const ProductEpilogue& epilogue) const {
  const std::int64_t rows = in.rows;
  if (usesWinograd())
    return winograd::forward(space, _c, nullptr, work, in.real(), weight, out.real(), epilogue);
  if (!onednn::convolves(_c, _operands, rows, nullptr, in.half()))
    return in.half() ? forwardHalf(space, work, in, weight, out, epilogue)
                     : forwardPortable(space, work, in.real(), weight, out.real(), epilogue);
  eachPackedRows(rows, _c.packedRows(rows), [&](std::int64_t first, std::int64_t count, bool packs) {
    onednn::convolveForward(space, {_c, _operands, count, nullptr, epilogue, in.half()}, work.data(),
                            in.rowsFrom(first, count).data, packs ? weight.data() : nullptr,
                            out.rowsFrom(first, count).data);
  });
}

void Convolve::forwardPortable(const ExecSpace& space, const Vector& work, const Matrix& in,
                               const Matrix& weight, const Matrix& out,
                               const ProductEpilogue& epilogue) const {
  const std::int64_t rows = in.extent(0);
  if (narrow::convolves(_c)) return narrow::forward(space, _c, work, in, weight, out, epilogue);
  if (depthwise::convolves(_c)) return depthwise::forward(space, _c, work, in, weight, out, epilogue);
  const Scratch scratch = scratchIn(work, weight, {});
  const Matrix own = packed(space, scratch, weight);
  if (!isOneProduct() && cudnn::convolveForward(space, {_c, _operands, rows}, scratch.columns, in.data(),
                                                own.data(), out.data()))
    return applyEpilogue(space, perPlace(out, _c.out_channels), epilogue);
  eachRows(rows, _c.rowsAtOnce(rows), [&](std::int64_t first, std::int64_t count) {
    addProducts(space, columnsOf(space, _c.windows, rowsFrom(in, first, count), scratch.columns), own,
                perPlace(rowsFrom(out, first, count), _c.out_channels), epilogue);
  });
}

void Convolve::forwardBlock(const ExecSpace& space, const Vector& work, const Matrix& in,
                            const Matrix& weight, const Matrix& out, const Block& outputs,
                            const Between& between) const {
  const ConvolutionBlock block(_c, outputs);
  const std::int64_t rows = in.extent(0);
  if (usesWinograd()) return winograd::forward(space, _c, &block, work, in, weight, out, {}, between);
  if (!onednn::convolves(_c, _operands, rows, &block))
    return blockInScratch(space, work, in, weight, out, block, between);
  eachPackedRows(rows, _c.packedRows(rows), [&](std::int64_t first, std::int64_t count, bool packs) {
    onednn::convolveForward(space, {block.plan, _operands, count, &block, {}}, work.data(),
                            rowsFrom(in, first, count).data(), packs ? weight.data() : nullptr,
                            rowsFrom(out, first, count).data());
    if (between) between();
  });
}

void Convolve::blockInScratch(const ExecSpace& space, const Vector& work, const Matrix& in,
                              const Matrix& weight, const Matrix& out, const ConvolutionBlock& block,
                              const Between& between) const {
  const bool narrow = narrow::convolves(_c);
  const std::int64_t rows = in.extent(0), at_once = narrow
                                                        ? std::min(_c.rowsAtOnce(rows), _c.narrowRows(rows))
                                                        : _c.rowsAtOnce(rows);
  ConvolutionPlan plan = block.plan; // of the block of outputs on the whole input
  std::copy_n(block.whole_in, 3, plan.windows.in);
  std::copy_n(block.before, 3, plan.windows.before);
  const std::int64_t places = plan.windows.outPlaces();
  const Scratch scratch = scratchIn(work, weight, {});
  const Matrix own = narrow ? weight : packed(space, scratch, weight);
  eachRows(rows, at_once, [&](std::int64_t first, std::int64_t count) {
    const Matrix from = rowsFrom(in, first, count),
                 products(work.data() + _c.workValues(rows), count * places, _c.out_channels);
    if (narrow) {
      narrow::forward(space, plan, work, from, weight,
                      Matrix(products.data(), count, places * _c.out_channels), {});
    } else {
      const Matrix columns(scratch.columns, count * places, _c.groups * _c.depth());
      gatherColumns(space, plan.windows, _c.groups, from, columns);
      addProducts(space, columns, own, products, {});
    }
    const PutBlock put = putBlock(block, products, rowsFrom(out, first, count).data());
    forEachElement(space, "partita::Convolve::put_block", count * put.extents[0] * put.extents[1],
                   put.extents[2], put);
    if (between) between();
  });
}

void Convolve::backward(const ExecSpace& space, const Vector& work,
                        const ConvolveGradients& gradients) const {
  const std::int64_t rows = gradients.in.rows;
  const bool half = gradients.in.half();
  if (rows == 0) return backwardOfNoRows(space, gradients);
  if (usesWinograd()) return backwardByWinograd(space, work, gradients);
  if (!onednn::convolves(_c, _operands, rows, nullptr, half))
    return half ? backwardHalf(space, work, gradients) : backwardPortable(space, work, gradients);
  eachPackedRows(rows, _c.packedRows(rows), [&](std::int64_t first, std::int64_t count, bool packs) {
    ConvolveGradients some = gradients.rows(first, count);
    if (!packs) some.weight = {};
    onednn::convolveBackward(space, {_c, _operands, count, nullptr, {}, half}, work.data(), some);
    if (some.between) some.between();
  });
}

void Convolve::backwardPortable(const ExecSpace& space, const Vector& work,
                                ConvolveGradients gradients) const {
  if (depthwise::convolves(_c)) return depthwise::backward(space, _c, work, gradients);
  if (gradients.ofWeight() && narrow::convolves(_c)) {
    weightGradientInReal(space, work, gradients);
    gradients.weight_gradient = {};
  }
  if (gradients.ofInput() && narrow::givesInputGradient(_c)) {
    narrow::inputGradient(space, _c, work, gradients);
    gradients.grad_in = {};
  }
  backwardByColumns(space, work, gradients);
}

/// Gradients that are mostly zeros need few products, and only `narrow` leaves out the others.
void Convolve::backwardByWinograd(const ExecSpace& space, const Vector& work,
                                  const ConvolveGradients& gradients) const {
  const bool sparse = narrow::convolves(_c) && narrow::mostlyZeros(space, _c, gradients.grad.real());
  if (gradients.ofWeight()) {
    if (sparse)
      weightGradientInReal(space, work, gradients);
    else
      winograd::weightGradient(space, _c, work, gradients);
  }
  if (!gradients.ofInput()) return;
  if (sparse && narrow::givesInputGradient(_c))
    narrow::inputGradient(space, _c, work, gradients);
  else
    winograd::inputGradient(space, _c, work, gradients);
}

bool Convolve::sumsWeightsInReal() const {
  return narrow::convolves(_c) && !_c.fillsVectors();
}

void Convolve::weightGradientInReal(const ExecSpace& space, const Vector& work,
                                    const ConvolveGradients& gradients) const {
  narrow::weightGradient(space, _c, work, gradients);
}

/// The gradient of the weights is added up in the order of the columns.
void Convolve::backwardByColumns(const ExecSpace& space, const Vector& work,
                                 const ConvolveGradients& gradients) const {
  const std::int64_t rows = gradients.in.rows;
  const Matrix weight = gradients.weight.real(), weight_gradient = gradients.weight_gradient.real();
  const Between& between = gradients.between;
  if (!gradients.ofWeight() && !gradients.ofInput()) return between ? between() : void();
  const Scratch scratch = scratchIn(work, weight, weight_gradient);
  ConvolveGradients of_weight = gradients, of_input = gradients;
  if (gradients.ofWeight()) of_weight.weight_gradient = scratch.weight_gradient;
  of_weight.accumulate = gradients.accumulate && !copiesWeights();
  of_weight.grad_in = of_input.weight_gradient = {};
  if (gradients.ofInput()) of_input.weight = packed(space, scratch, weight);
  const auto left = [&](const ConvolveGradients& wanted, bool any) {
    return any && (isOneProduct() ||
                   !cudnn::convolveBackward(space, {_c, _operands, rows}, scratch.columns, wanted));
  };
  const bool weight_left = left(of_weight, gradients.ofWeight()),
             input_left = left(of_input, gradients.ofInput());
  if (weight_left || input_left)
    eachRows(rows, _c.rowsAtOnce(rows), [&](std::int64_t first, std::int64_t count) {
      if (weight_left) addWeightGradient(space, scratch.columns, of_weight.rows(first, count));
      if (input_left) inputGradient(space, scratch.columns, of_input.rows(first, count));
      if (between && first + count < rows) between();
    });
  if (gradients.ofWeight() && copiesWeights())
    unpackWeights(space, _c.windows.taps(), scratch.weight_gradient, weight_gradient, gradients.accumulate);
  if (between) between();
}

void Convolve::addWeightGradient(const ExecSpace& space, Real* room,
                                 const ConvolveGradients& gradients) const {
  const Matrix grad = perPlace(gradients.grad.real(), _c.out_channels),
               columns = columnsOf(space, _c.windows, gradients.in.real(), room),
               sums = gradients.weight_gradient.real();
  for (std::int64_t g = 0; g < _c.groups; ++g)
    gemm(space, Op::transpose, Op::none, Real(1), ofGroup(grad, g), ofGroup(columns, g),
         gradients.accumulate ? Real(1) : Real(0), weightsOfGroup(sums, g), {}, _operands);
}

/// Overwrites the columns of the input, which are no longer needed.
void Convolve::inputGradient(const ExecSpace& space, Real* room, const ConvolveGradients& gradients) const {
  const Matrix grad = perPlace(gradients.grad.real(), _c.out_channels), grad_in = gradients.grad_in.real(),
               columns = _c.pointwise() ? perPlace(grad_in, _c.in_channels)
                                        : Matrix(room, grad.extent(0), _c.groups * _c.depth());
  for (std::int64_t g = 0; g < _c.groups; ++g)
    gemm(space, Op::none, Op::none, Real(1), ofGroup(grad, g), weightsOfGroup(gradients.weight.real(), g),
         Real(0), ofGroup(columns, g), {}, _operands);
  if (!_c.pointwise()) scatterColumns(space, _c.windows, _c.groups, columns, grad_in);
}

std::string convolutionPath() {
  if (const std::string version = cudnn::version(); !version.empty()) return "cuDNN " + version;
  return onednn::convolvesFloats() ? "oneDNN " + onednn::version() : "Kokkos kernels";
}

} // namespace partita
