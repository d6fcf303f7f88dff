#include "partita/nn/dropout.hpp"

#include "partita/core/error.hpp"
#include "partita/core/image_layout.hpp"
#include "partita/core/packs.hpp"
#include "partita/core/random.hpp"
#include "partita/core/region.hpp"

#include <algorithm>
#include <cmath>

namespace partita {

namespace {

constexpr std::int64_t values_per_block = 8; // four random words, half a word per value

/// Visits blocks of neighbouring values of a run, numbered within the whole sample.
template <class Stored>
struct MaskBlocks {
  RandomStream random;
  const Stored* from;
  Stored* to;
  Dropout::Runs runs; // of a sample
  ImageLayout layout; // of what is here of a sample
  std::int64_t count; // of these
  std::int64_t first_row;
  std::uint32_t dropped; // of 2^16
  Real scale;

  /// A run of a sample: values [begin, end) of the whole; the first one is value `local` here.
  struct Run {
    std::int64_t row, begin, end, local;
  };

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t item, std::int64_t from_block,
                                         std::int64_t to_block) const {
    // On hosts more than compilers unroll, so that they vectorise instead; a device has no registers for it.
    constexpr int many = row_teams ? 1 : 32;
    const std::int64_t begin = runs.begin(item % count);
    const Run run{first_row + item / count, begin, begin + runs.length, item * runs.length};
    const std::int64_t front = begin / values_per_block, last = (run.end - 1) / values_per_block + 1;
    std::int64_t block = front + from_block;
    const std::int64_t end = front + to_block < last ? front + to_block : last;
    if (block < end && block * values_per_block < begin) maskFront(run, block++);
    for (; block + many <= end; block += many) mask<many>(run, block);
    for (; block < end; ++block) mask<1>(run, block);
  }

  KOKKOS_INLINE_FUNCTION std::uint64_t numberOf(const Run& run, std::int64_t block) const {
    return static_cast<std::uint64_t>(run.row) << 32 | static_cast<std::uint64_t>(block);
  }

  template <int Blocks>
  KOKKOS_INLINE_FUNCTION void mask(const Run& run, std::int64_t block) const {
    std::uint32_t words[4 * Blocks];
    random.blocks<Blocks>(numberOf(run, block), words);
    const std::int64_t begin = block * values_per_block, left = run.end - begin,
                       count = left < values_per_block * Blocks ? left : values_per_block * Blocks,
                       place = run.local + begin - run.begin;
    if (layout.channels > 1) return maskOneByOne(words, 0, count, place);
    const Stored* values = from + place;
    Stored* masked = to + place;
    const Real factor = scale;
    const std::uint32_t threshold = dropped;
    if constexpr (row_teams && Blocks == 1) {
      if (count == values_per_block && alignedForPacks(values, masked))
        return maskPack(words, values, masked);
    }
    PARTITA_INDEPENDENT
    for (std::int64_t i = 0; i < count / 2; ++i) {
      const Real even = factor * toReal(values[2 * i]), odd = factor * toReal(values[2 * i + 1]);
      masked[2 * i] = fromReal<Stored>((words[i] & 0xFFFFU) < threshold ? Real(0) : even);
      masked[2 * i + 1] = fromReal<Stored>(words[i] >> 16 < threshold ? Real(0) : odd);
    }
    if (count % 2 == 1)
      masked[count - 1] = fromReal<Stored>(
          (words[count / 2] & 0xFFFFU) < threshold ? Real(0) : factor * toReal(values[count - 1]));
  }

  /// A whole block at once.
  KOKKOS_INLINE_FUNCTION void maskPack(const std::uint32_t (&words)[4], const Stored* values,
                                       Stored* masked) const {
    using Block = Pack<values_per_pack>;
    static_assert(values_per_pack == values_per_block, "a block is a pack");
    auto block = Block::load(values);
    for (int k = 0; k < values_per_pack; ++k) {
      const std::uint32_t word = k % 2 == 0 ? words[k / 2] & 0xFFFFU : words[k / 2] >> 16;
      block.of[k] = word < dropped ? Real(0) : scale * block.of[k];
    }
    Block::store(masked, block);
  }

  /// Visits values in the order of their numbers.
  struct Cursor {
    ImageLayout layout;
    std::int64_t at, place;

    KOKKOS_INLINE_FUNCTION Cursor(const ImageLayout& of_sample, std::int64_t number)
        : layout(of_sample), at(0), place(0) {
      const std::int64_t width = layout.channels * layout.places, begin = number / width * width;
      at = begin + inMemory(layout, number - begin);
      place = (number - begin) % layout.places;
    }
    KOKKOS_INLINE_FUNCTION void next() {
      at += layout.channels;
      if (++place < layout.places) return;
      place = 0;
      at += 1 - layout.places * layout.channels; // to the next channel
    }
  };

  /// Words [first, last) for the values from number `begin` on.
  KOKKOS_INLINE_FUNCTION void maskOneByOne(const std::uint32_t* words, std::int64_t first, std::int64_t last,
                                           std::int64_t begin) const {
    Cursor cursor(layout, begin);
    for (std::int64_t i = first; i < last; ++i, cursor.next()) {
      const std::uint32_t word = i % 2 == 0 ? words[i / 2] & 0xFFFFU : words[i / 2] >> 16;
      to[cursor.at] = fromReal<Stored>(word < dropped ? Real(0) : scale * toReal(from[cursor.at]));
    }
  }

  /// A block that begins before the run.
  KOKKOS_INLINE_FUNCTION void maskFront(const Run& run, std::int64_t block) const {
    std::uint32_t words[4];
    random.blocks<1>(numberOf(run, block), words);
    const std::int64_t left = run.end - block * values_per_block;
    maskOneByOne(words, run.begin - block * values_per_block,
                 left < values_per_block ? left : values_per_block, run.local);
  }
};

} // namespace

Dropout::Dropout(const LayerPlan& plan, const TensorSlice& slice)
    : PlannedLayer(plan), _layout(layoutOf(slice.extents)) {
  if (slice.all() || slice.size() == 0) return;
  const SliceRun first = runsOf(slice).front();
  Runs runs;
  runs.first = first.in_whole;
  runs.length = first.count;
  std::size_t axis = slice.whole.size();
  std::int64_t stride = 1;
  for (std::int64_t length = 1; length < runs.length; length *= slice.extents[axis])
    stride *= slice.whole[--axis];
  for (std::size_t level = 3; axis-- > 0; stride *= slice.whole[axis]) {
    if (slice.extents[axis] == 1) continue;
    PARTITA_REQUIRE(level > 0, "a slice of too many axes");
    runs.counts[--level] = slice.extents[axis];
    runs.strides[level] = stride;
  }
  _runs = runs;
}

/// Each step has its own key for random numbers: the seed plus the step times an odd number, which maps
/// different steps to different keys.
void Dropout::mask(const ExecSpace& space, const Pass& pass, const TypedMatrix& from,
                   const TypedMatrix& to) const {
  const auto dropped =
      static_cast<std::uint32_t>(std::min(65535L, std::lround(_plan.spec.dropout.rate * 65536.0)));
  if (from.size() == 0) return;
  if (!pass.training || dropped == 0) {
    copyValues(space, from, to);
    return;
  }
  const RandomStream random(pass.seed + pass.step * 0x9E3779B97F4A7C15U, Stream::dropout,
                            static_cast<std::uint32_t>(_plan.number));
  const std::int64_t rows = from.rows, width = from.columns;
  const Runs runs = _runs.value_or(Runs{0, width});
  const ImageLayout layout = _layout.trivial() ? ImageLayout{} : _layout;
  const std::int64_t runs_per_row = width / runs.length,
                     spare = _runs ? 1 : 0, // a run may begin and end within a block
      blocks = (runs.length + values_per_block - 1) / values_per_block + spare;
  withStored(from.precision, [&](auto stored) {
    using Stored = decltype(stored);
    forEachRun(space, "partita::Dropout::mask", rows * runs_per_row, blocks,
               MaskBlocks<Stored>{random, from.as<Stored>(), to.as<Stored>(), runs, layout, runs_per_row,
                                  pass.first_row, dropped, static_cast<Real>(65536.0 / (65536.0 - dropped))});
  });
}

void Dropout::forward(const ExecSpace& space, const Pass& pass, const TypedMatrix& in, const TypedMatrix& out,
                      const Matrix&) {
  const Region region(space, "partita::Dropout::forward", Phase::elementwise);
  mask(space, pass, in, out);
}

void Dropout::backward(const ExecSpace& space, const Pass& pass, const TypedMatrix&, const TypedMatrix&,
                       const Matrix&, const TypedMatrix& grad_out, const TypedMatrix& grad_in) {
  if (grad_in.size() == 0) return;
  const Region region(space, "partita::Dropout::backward", Phase::elementwise);
  mask(space, pass, grad_out, grad_in);
}

} // namespace partita
