#include "partita/nn/pool.hpp"

#include "partita/core/region.hpp"
#include "partita/nn/channel_sums.hpp"
#include "partita/nn/pool_kernels.hpp"

#include <vector>

namespace partita {

namespace {

template <class Stored>
struct ChannelMean {
  const Stored* in;
  Stored* out;
  std::int64_t places, channels;

  template <class Channels>
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t row, const Channels& of_row) const {
    const Stored* from = in + row * places * channels;
    const Real share = Real(1) / static_cast<Real>(places);
    Stored* to = out + row * channels;
    const std::int64_t width = channels;
    of_row.sum(
        [=](auto pack, std::int64_t channel) {
          return [=](std::int64_t place) { return pack.load(from + place * width + channel); };
        },
        [=](std::int64_t channel, Real sum) { to[channel] = fromReal<Stored>(sum * share); });
  }
};

template <class Stored>
struct ChannelMeanGradient {
  const Stored* grad_out;
  Stored* grad_in;
  std::int64_t places, channels;
  Real share;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t row, std::int64_t place, std::int64_t channel) const {
    grad_in[(row * places + place) * channels + channel] =
        fromReal<Stored>(toReal(grad_out[row * channels + channel]) * share);
  }
};

/// What `body` does with windows, for those of a block whose first window is given.
template <class Body>
struct OfBlock {
  Body body;
  std::int64_t first[3];

  bool aligned() const { return body.aligned(); }

  KOKKOS_INLINE_FUNCTION void operator()(const PlaceAt& at, std::int64_t begin, std::int64_t end) const {
    const WindowPlan& w = body.w;
    PlaceAt window{at.row, at.z + first[0], at.y + first[1], at.x + first[2], 0};
    window.index = ((window.row * w.out[0] + window.z) * w.out[1] + window.y) * w.out[2] + window.x;
    body(window, begin, end);
  }
};

/// Calls body for the windows that a forward pass over `rows` rows computes.
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

void MaxPool::forward(const ExecSpace& space, const Pass& pass, const TypedMatrix& in, const TypedMatrix& out,
                      const Matrix& saved) {
  const Region region(space, "partita::MaxPool::forward", Phase::elementwise);
  withStored(in.precision, [&](auto stored) {
    using Stored = decltype(stored);
    forWindows(
        space, "partita::MaxPool::forward_kernel", pass.outputs, _plan, in.rows,
        pooling::Largest<Stored>{_windows, in.as<Stored>(), out.as<Stored>(), saved.data(), channels()});
  });
}

void MaxPool::backward(const ExecSpace& space, const Pass&, const TypedMatrix& in, const TypedMatrix&,
                       const Matrix& saved, const TypedMatrix& grad_out, const TypedMatrix& grad_in) {
  if (grad_in.size() == 0) return;
  const Region region(space, "partita::MaxPool::backward", Phase::elementwise);
  withStored(in.precision, [&](auto stored) {
    using Stored = decltype(stored);
    const Stored* from = grad_out.as<Stored>();
    Stored* to = grad_in.as<Stored>();
    if (pooling::tiles(_windows))
      forEachPlace(space, "partita::MaxPool::tiles_backward_kernel", in.rows, _windows.out, channels(),
                   pooling::LargestGradientOfTile<Stored>{_windows, saved.data(), from, to, channels()});
    else
      forEachPlace(space, "partita::MaxPool::backward_kernel", in.rows, _windows.in, channels(),
                   pooling::LargestGradient<Stored>{_windows, saved.data(), from, to, channels()});
  });
}

void AveragePool::forward(const ExecSpace& space, const Pass& pass, const TypedMatrix& in,
                          const TypedMatrix& out, const Matrix&) {
  const Region region(space, "partita::AveragePool::forward", Phase::elementwise);
  withStored(in.precision, [&](auto stored) {
    using Stored = decltype(stored);
    forWindows(space, "partita::AveragePool::forward_kernel", pass.outputs, _plan, in.rows,
               pooling::Mean<Stored>{_windows, in.as<Stored>(), out.as<Stored>(), channels()});
  });
}

void AveragePool::backward(const ExecSpace& space, const Pass&, const TypedMatrix& in, const TypedMatrix&,
                           const Matrix&, const TypedMatrix& grad_out, const TypedMatrix& grad_in) {
  if (grad_in.size() == 0) return;
  const Region region(space, "partita::AveragePool::backward", Phase::elementwise);
  withStored(in.precision, [&](auto stored) {
    using Stored = decltype(stored);
    const Stored* from = grad_out.as<Stored>();
    Stored* to = grad_in.as<Stored>();
    if (pooling::tiles(_windows))
      forEachPlace(space, "partita::AveragePool::tiles_backward_kernel", in.rows, _windows.out, channels(),
                   pooling::MeanGradientOfTile<Stored>{_windows, from, to, channels()});
    else
      forEachPlace(space, "partita::AveragePool::backward_kernel", in.rows, _windows.in, channels(),
                   pooling::MeanGradient<Stored>{_windows, from, to, channels()});
  });
}

void GlobalAveragePool::forward(const ExecSpace& space, const Pass&, const TypedMatrix& in,
                                const TypedMatrix& out, const Matrix&) {
  const Region region(space, "partita::GlobalAveragePool::forward", Phase::elementwise);
  const std::int64_t places = inputs() / channels();
  withStored(in.precision, [&](auto stored) {
    using Stored = decltype(stored);
    forEachImage(space, "partita::GlobalAveragePool::forward_kernel", in.rows, places, channels(),
                 alignedForPacks(in.as<Stored>()),
                 ChannelMean<Stored>{in.as<Stored>(), out.as<Stored>(), places, channels()});
  });
}

void GlobalAveragePool::backward(const ExecSpace& space, const Pass&, const TypedMatrix& in,
                                 const TypedMatrix&, const Matrix&, const TypedMatrix& grad_out,
                                 const TypedMatrix& grad_in) {
  if (grad_in.size() == 0) return;
  const Region region(space, "partita::GlobalAveragePool::backward", Phase::elementwise);
  const std::int64_t places = inputs() / channels();
  withStored(in.precision, [&](auto stored) {
    using Stored = decltype(stored);
    forEachChannel(space, "partita::GlobalAveragePool::backward_kernel", in.rows, places, channels(),
                   ChannelMeanGradient<Stored>{grad_out.as<Stored>(), grad_in.as<Stored>(), places,
                                               channels(), Real(1) / static_cast<Real>(places)});
  });
}

} // namespace partita
