#include "partita/nn/pool.hpp"

#include "partita/core/region.hpp"
#include "partita/nn/pool_kernels.hpp"

#include <vector>

namespace partita {

namespace {

struct ChannelMean {
  const Real* in;
  Real* out;
  std::int64_t places, channels;

  template <class Channels>
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t row, const Channels& of_row) const {
    const Real *from = in + row * places * channels, share = Real(1) / static_cast<Real>(places);
    Real* to = out + row * channels;
    const std::int64_t width = channels;
    of_row.sum([=](std::int64_t place, std::int64_t channel) { return from[place * width + channel]; },
               [=](std::int64_t channel, Real sum) { to[channel] = sum * share; });
  }
};

struct ChannelMeanGradient {
  const Real* grad_out;
  Real* grad_in;
  std::int64_t places, channels;
  Real share;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t row, std::int64_t place, std::int64_t channel) const {
    grad_in[(row * places + place) * channels + channel] = grad_out[row * channels + channel] * share;
  }
};

/// What `body` does with windows, for those of a block whose first window is given.
template <class Body>
struct OfBlock {
  Body body;
  std::int64_t first[3];
  KOKKOS_INLINE_FUNCTION void operator()(const PlaceAt& at, std::int64_t begin, std::int64_t end) const {
    const WindowPlan& w = body.w;
    PlaceAt window{at.row, at.z + first[0], at.y + first[1], at.x + first[2], 0};
    window.index = ((window.row * w.out[0] + window.z) * w.out[1] + window.y) * w.out[2] + window.x;
    body(window, begin, end);
  }
};

/// Calls body for the windows that a forward pass computes, of so many rows.
template <class Body>
void forWindows(const ExecSpace& space, const char* label, OutputPlaces which, const LayerPlan& plan,
                std::int64_t rows, const Body& body) {
  if (which == OutputPlaces::all) return forEachPlace(space, label, rows, body.w.out, body.channels, body);
  const Block& interior = plan.part->interior;
  const std::vector<Block> blocks =
      which == OutputPlaces::interior ? std::vector<Block>{interior} : aroundInterior(interior, body.w.out);
  for (const Block& block : blocks) {
    OfBlock<Body> own{body, {}};
    std::int64_t extents[3];
    for (std::size_t a = 0; a < 3; ++a) {
      own.first[a] = block.axes[a].begin;
      extents[a] = block.axes[a].size();
    }
    forEachPlace(space, label, rows, extents, body.channels, own);
  }
}

} // namespace

void MaxPool::forward(const ExecSpace& space, const Pass& pass, const Matrix& in, const Matrix& out,
                      const Matrix& saved) {
  const Region region(space, "partita::MaxPool::forward", Phase::elementwise);
  forWindows(space, "partita::MaxPool::forward_kernel", pass.outputs, _plan, in.extent(0),
             pooling::Largest{_windows, in.data(), out.data(), saved.data(), channels()});
}

void MaxPool::backward(const ExecSpace& space, const Pass&, const Matrix& in, const Matrix&,
                       const Matrix& saved, const Matrix& grad_out, const Matrix& grad_in) {
  if (grad_in.size() == 0) return;
  const Region region(space, "partita::MaxPool::backward", Phase::elementwise);
  if (pooling::tiles(_windows))
    return forEachPlace(
        space, "partita::MaxPool::tiles_backward_kernel", in.extent(0), _windows.out, channels(),
        pooling::LargestGradientOfTile{_windows, saved.data(), grad_out.data(), grad_in.data(), channels()});
  forEachPlace(space, "partita::MaxPool::backward_kernel", in.extent(0), _windows.in, channels(),
               pooling::LargestGradient{_windows, saved.data(), grad_out.data(), grad_in.data(), channels()});
}

void AveragePool::forward(const ExecSpace& space, const Pass& pass, const Matrix& in, const Matrix& out,
                          const Matrix&) {
  const Region region(space, "partita::AveragePool::forward", Phase::elementwise);
  forWindows(space, "partita::AveragePool::forward_kernel", pass.outputs, _plan, in.extent(0),
             pooling::Mean{_windows, in.data(), out.data(), channels()});
}

void AveragePool::backward(const ExecSpace& space, const Pass&, const Matrix& in, const Matrix&,
                           const Matrix&, const Matrix& grad_out, const Matrix& grad_in) {
  if (grad_in.size() == 0) return;
  const Region region(space, "partita::AveragePool::backward", Phase::elementwise);
  if (pooling::tiles(_windows))
    return forEachPlace(space, "partita::AveragePool::tiles_backward_kernel", in.extent(0), _windows.out,
                        channels(),
                        pooling::MeanGradientOfTile{_windows, grad_out.data(), grad_in.data(), channels()});
  forEachPlace(space, "partita::AveragePool::backward_kernel", in.extent(0), _windows.in, channels(),
               pooling::MeanGradient{_windows, grad_out.data(), grad_in.data(), channels()});
}

void GlobalAveragePool::forward(const ExecSpace& space, const Pass&, const Matrix& in, const Matrix& out,
                                const Matrix&) {
  const Region region(space, "partita::GlobalAveragePool::forward", Phase::elementwise);
  const std::int64_t places = inputs() / channels();
  forEachImage(space, "partita::GlobalAveragePool::forward_kernel", in.extent(0), places, channels(),
               ChannelMean{in.data(), out.data(), places, channels()});
}

void GlobalAveragePool::backward(const ExecSpace& space, const Pass&, const Matrix& in, const Matrix&,
                                 const Matrix&, const Matrix& grad_out, const Matrix& grad_in) {
  if (grad_in.size() == 0) return;
  const Region region(space, "partita::GlobalAveragePool::backward", Phase::elementwise);
  const std::int64_t places = inputs() / channels();
  forEachChannel(space, "partita::GlobalAveragePool::backward_kernel", in.extent(0), places, channels(),
                 ChannelMeanGradient{grad_out.data(), grad_in.data(), places, channels(),
                                     Real(1) / static_cast<Real>(places)});
}

} // namespace partita
