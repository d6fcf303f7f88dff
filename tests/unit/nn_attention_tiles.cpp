#include "partita/core/random.hpp"
#include "partita/nn/attention_kernels.hpp"

#include <vector>

#include "support/catch.hpp"

namespace partita::test::nn_attention_tiles {

/// Devices process one tile of queries or keys per work item, hosts one head: both must give the same bits.

namespace {

constexpr AttentionShape shape{2, 150, 3, 60}; // partly filled tiles, heads as narrow as 20

struct Heads {
  std::int64_t places = shape.samples * shape.positions, rows = places * shape.heads;
  std::vector<Real> qkv = numbers(3 * places * shape.width), grad_out = numbers(places * shape.width),
                    out = std::vector<Real>(static_cast<std::size_t>(places * shape.width)),
                    grad_qkv = std::vector<Real>(static_cast<std::size_t>(3 * places * shape.width)),
                    log_sums = std::vector<Real>(static_cast<std::size_t>(rows)), work = log_sums,
                    along = log_sums;

  static std::vector<Real> numbers(std::int64_t count) {
    const RandomStream random(7, Stream::noise_images);
    std::vector<Real> values;
    for (std::int64_t i = 0; i < count; ++i)
      values.push_back(toRoughNormal(random.bits(static_cast<std::uint64_t>(i))));
    return values;
  }
};

/// Calls the kernel for each head, with all tiles at once or one after another.
template <class Kernel>
void run(const Kernel& kernel, std::int64_t size, bool one_by_one) {
  const std::int64_t tiles = (shape.positions + size - 1) / size, step = one_by_one ? 1 : tiles;
  for (std::int64_t head = 0; head < shape.samples * shape.heads; ++head)
    for (std::int64_t tile = 0; tile < tiles; tile += step) kernel(head, tile, tile + step);
}

template <AttentionPart part>
void backward(Heads& heads, bool one_by_one) {
  using Kernel = AttentionBackward<part, 64>;
  run(Kernel{shape, heads.qkv.data(), heads.log_sums.data(), heads.grad_out.data(), heads.along.data(),
             heads.grad_qkv.data()},
      Kernel::tile_size, one_by_one);
}

Heads computed(bool one_by_one) {
  Heads heads;
  run(AttentionForward<64>{shape, heads.qkv.data(), heads.out.data(), heads.log_sums.data(),
                           heads.work.data()},
      detail::query_tile, one_by_one);
  const AttentionAlong along{shape, heads.out.data(), heads.grad_out.data(), heads.along.data()};
  for (std::int64_t head = 0; head < shape.samples * shape.heads; ++head)
    for (std::int64_t i = 0; i < shape.positions; ++i) along(head, i);
  if (one_by_one) {
    backward<AttentionPart::queries>(heads, true);
    backward<AttentionPart::keys>(heads, true);
  } else {
    backward<AttentionPart::all>(heads, false);
  }
  return heads;
}

} // namespace

TEST_CASE("Attention: tiles as work items come to the bits of heads", "[nn]") {
  const Heads whole = computed(false), tiles = computed(true);
  CHECK(whole.out == tiles.out);
  CHECK(whole.log_sums == tiles.log_sums);
  CHECK(whole.grad_qkv == tiles.grad_qkv);
  CHECK(whole.grad_qkv.front() != Real(0));
}

} // namespace partita::test::nn_attention_tiles
