#include "partita/kernels/convolve.hpp"

#include "partita/core/loops.hpp"
#include "partita/core/region.hpp"
#include "partita/kernels/columns.hpp"
#include "partita/kernels/cudnn_convolve.hpp"
#include "partita/kernels/onednn_convolve.hpp"
#include "partita/kernels/products.hpp"

#include <algorithm>

namespace partita {

namespace {

/// Products of several rows are stored in the order that a single matrix product needs.
struct Interleave {
  const Real* from;
  Real* to;
  std::int64_t rows, channels, places;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t item, std::int64_t begin, std::int64_t end) const {
    const std::int64_t row = item / channels, channel = item % channels;
    const Real* source = from + item * places;
    Real* target = to + (channel * rows + row) * places;
    PARTITA_INDEPENDENT
    for (std::int64_t i = begin; i < end; ++i) target[i] = source[i];
  }
};

/// Products of several rows to a block of the places of their outputs.
struct PutBlock {
  const Real* from;
  Real* to;
  std::int64_t rows, channels, extents[3], whole[3], first;

  /// An item is a line of places; lines that are neighbours in both are one.
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t line, std::int64_t i) const {
    const std::int64_t y = line % extents[1], plane = line / extents[1], z = plane % extents[0],
                       item = plane / extents[0], row = item % rows, channel = item / rows;
    to[((row * channels + channel) * whole[0] * whole[1] + z * whole[1] + y) * whole[2] + first + i] =
        from[line * extents[2] + i];
  }
};

PutBlock putBlock(const ConvolutionBlock& block, const Matrix& products, Real* out, std::int64_t rows) {
  PutBlock put{products.data(), out, rows, block.plan.out_channels, {}, {}, block.first_out};
  for (int a = 0; a < 3; ++a) {
    put.extents[a] = block.plan.windows.out[a];
    put.whole[a] = block.whole_out[a];
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

} // namespace

Convolve::Convolve(const ConvolutionPlan& plan, Precision operands) : _c(plan), _operands(operands) {}

void Convolve::forward(const ExecSpace& space, const Vector& work, const Matrix& in, const Matrix& weight,
                       const Matrix& out, const std::function<void(const ConvolveSums&)>& finish) const {
  const std::int64_t rows = in.extent(0), at_once = _c.packedRows(rows), in_width = in.extent(1),
                     out_width = out.extent(1);
  if (cudnn::convolveForward(space, {_c, _operands, rows}, work.data(), in.data(), weight.data(), out.data()))
    return finish({out.data(), 0, rows, out_width, _c.windows.outPlaces()});
  if (!onednn::convolves(_c, _operands, rows)) return forwardByColumns(space, work, in, weight, out, finish);
  for (std::int64_t first = 0; first < rows; first += at_once) {
    const std::int64_t count = std::min(at_once, rows - first);
    onednn::convolveForward(space, {_c, _operands, count}, work.data(), in.data() + first * in_width,
                            first == 0 || count < at_once ? weight.data() : nullptr,
                            out.data() + first * out_width);
    finish({out.data() + first * out_width, first, count, out_width, _c.windows.outPlaces()});
  }
}

void Convolve::forwardBlock(const ExecSpace& space, const Vector& work, const Matrix& in,
                            const Matrix& weight, const Matrix& out, const Block& outputs,
                            const std::function<void()>& between) const {
  const ConvolutionBlock block(_c, outputs);
  const std::int64_t rows = in.extent(0), at_once = _c.packedRows(rows);
  if (!onednn::convolves(_c, _operands, rows, &block))
    return blockByColumns(space, work, in, weight, out, block, between);
  for (std::int64_t first = 0; first < rows; first += at_once) {
    const std::int64_t count = std::min(at_once, rows - first);
    onednn::convolveForward(
        space, {block.plan, _operands, count, &block}, work.data(), in.data() + first * in.extent(1),
        first == 0 || count < at_once ? weight.data() : nullptr, out.data() + first * out.extent(1));
    if (between) between();
  }
}

void Convolve::blockByColumns(const ExecSpace& space, const Vector& work, const Matrix& in,
                              const Matrix& weight, const Matrix& out, const ConvolutionBlock& block,
                              const std::function<void()>& between) const {
  const std::int64_t rows = in.extent(0), at_once = _c.rowsAtOnce(rows);
  WindowPlan windows = block.plan.windows; // of the block of outputs on the whole input
  std::copy_n(block.whole_in, 3, windows.in);
  std::copy_n(block.before, 3, windows.before);
  for (std::int64_t first = 0; first < rows; first += at_once) {
    const std::int64_t count = std::min(at_once, rows - first), places = count * windows.outPlaces();
    const Matrix columns(work.data(), _c.groups * _c.depth(), places),
        products(work.data() + _c.columnValues(rows), _c.out_channels, places);
    gatherColumns(space, windows, rowsFrom(in, first, count), columns);
    for (std::int64_t g = 0; g < _c.groups; ++g)
      gemm(space, Op::none, Op::none, Real(1), groupRows(weight, g), groupRows(columns, g), Real(0),
           groupRows(products, g), {}, _operands);
    const PutBlock put = putBlock(block, products, rowsFrom(out, first, 1).data(), count);
    forEachElement(space, "partita::Convolve::put_block",
                   _c.out_channels * count * put.extents[0] * put.extents[1], put.extents[2], put);
    if (between) between();
  }
}

void Convolve::backward(const ExecSpace& space, const Vector& work, bool accumulate, const Matrix& in,
                        const Matrix& weight, const Matrix& grad, const Matrix& weight_gradient,
                        const Matrix& grad_in, const std::function<void()>& between) const {
  const std::int64_t rows = in.extent(0), at_once = _c.packedRows(rows);
  if (cudnn::convolveBackward(space, {_c, _operands, rows}, work.data(), accumulate, in.data(), weight.data(),
                              grad.data(), weight_gradient.data(), grad_in.data())) {
    if (between) between();
    return;
  }
  if (!onednn::convolves(_c, _operands, rows))
    return backwardByColumns(space, work, accumulate, in, weight, grad, weight_gradient, grad_in, between);
  for (std::int64_t first = 0; first < rows; first += at_once) {
    const std::int64_t count = std::min(at_once, rows - first);
    Real* const input_gradient = grad_in.size() > 0 ? grad_in.data() + first * grad_in.extent(1) : nullptr;
    onednn::convolveBackward(space, {_c, _operands, count}, work.data(), accumulate || first > 0,
                             in.data() + first * in.extent(1),
                             first == 0 || count < at_once ? weight.data() : nullptr,
                             grad.data() + first * grad.extent(1), weight_gradient.data(), input_gradient);
    if (between) between();
  }
}

/// Columns, then products of several rows. A single row needs no scratch for products: they lie in the
/// output, or in its gradient.
Convolve::Part Convolve::partOf(const Vector& work, std::int64_t first, std::int64_t rows, const Matrix& in,
                                const Matrix& out) const {
  const std::int64_t places = _c.windows.outPlaces(), at_once = _c.rowsAtOnce(rows);
  Part part{first, std::min(at_once, rows - first), {}, {}};
  Real* columns = _c.pointwise() ? rowsFrom(in, first, 1).data() : work.data();
  Real* products = at_once == 1 ? rowsFrom(out, first, 1).data() : work.data() + _c.columnValues(rows);
  part.columns = Matrix(columns, _c.groups * _c.depth(), part.rows * places);
  part.products = Matrix(products, _c.out_channels, part.rows * places);
  return part;
}

/// The rows of a matrix that belong to a group of channels.
Matrix Convolve::groupRows(const Matrix& matrix, std::int64_t group) const {
  const std::int64_t rows = matrix.extent(0) / _c.groups;
  return rowsFrom(matrix, group * rows, rows);
}

void Convolve::forwardByColumns(const ExecSpace& space, const Vector& work, const Matrix& in,
                                const Matrix& weight, const Matrix& out,
                                const std::function<void(const ConvolveSums&)>& finish) const {
  const std::int64_t rows = in.extent(0), places = _c.windows.outPlaces();
  for (std::int64_t first = 0; first < rows; first += _c.rowsAtOnce(rows)) {
    const Part part = partOf(work, first, rows, in, out);
    if (!_c.pointwise()) gatherColumns(space, _c.windows, rowsFrom(in, first, part.rows), part.columns);
    for (std::int64_t g = 0; g < _c.groups; ++g)
      gemm(space, Op::none, Op::none, Real(1), groupRows(weight, g), groupRows(part.columns, g), Real(0),
           groupRows(part.products, g), {}, _operands);
    finish({part.products.data(), first, part.rows, places, part.rows * places});
  }
}

void Convolve::backwardByColumns(const ExecSpace& space, const Vector& work, bool accumulate,
                                 const Matrix& in, const Matrix& weight, const Matrix& grad,
                                 const Matrix& weight_gradient, const Matrix& grad_in,
                                 const std::function<void()>& between) const {
  const std::int64_t rows = in.extent(0);
  for (std::int64_t first = 0; first < rows; first += _c.rowsAtOnce(rows)) {
    const Part part = partOf(work, first, rows, in, grad);
    const Matrix from = rowsFrom(grad, first, part.rows);
    if (part.products.data() != from.data())
      forEachRun(
          space, "partita::Convolve::interleave", part.rows * _c.out_channels, _c.windows.outPlaces(),
          Interleave{from.data(), part.products.data(), part.rows, _c.out_channels, _c.windows.outPlaces()});
    if (weight_gradient.size() > 0)
      addWeightGradient(space, part, first > 0 || accumulate, in, weight_gradient);
    if (grad_in.size() > 0) inputGradient(space, part, weight, grad_in);
    if (between) between();
  }
}

void Convolve::addWeightGradient(const ExecSpace& space, const Part& part, bool keep, const Matrix& in,
                                 const Matrix& weight_gradient) const {
  if (!_c.pointwise()) gatherColumns(space, _c.windows, rowsFrom(in, part.first, part.rows), part.columns);
  for (std::int64_t g = 0; g < _c.groups; ++g)
    gemm(space, Op::none, Op::transpose, Real(1), groupRows(part.products, g), groupRows(part.columns, g),
         keep ? Real(1) : Real(0), groupRows(weight_gradient, g), {}, _operands);
}

/// The columns of the input are not needed any more.
void Convolve::inputGradient(const ExecSpace& space, const Part& part, const Matrix& weight,
                             const Matrix& grad_in) const {
  const Matrix grad_columns = _c.pointwise() ? Matrix(rowsFrom(grad_in, part.first, 1).data(),
                                                      part.columns.extent(0), part.columns.extent(1))
                                             : part.columns;
  for (std::int64_t g = 0; g < _c.groups; ++g)
    gemm(space, Op::transpose, Op::none, Real(1), groupRows(weight, g), groupRows(part.products, g), Real(0),
         groupRows(grad_columns, g), {}, _operands);
  if (!_c.pointwise())
    scatterColumns(space, _c.windows, grad_columns, rowsFrom(grad_in, part.first, part.rows));
}

} // namespace partita
