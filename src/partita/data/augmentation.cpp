#include "partita/data/augmentation.hpp"

#include "partita/config/text.hpp"
#include "partita/config/user_error.hpp"
#include "partita/core/error.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace partita {

namespace {

bool augments(const DataSection& section) {
  return section.crop > 0 || section.flip;
}

} // namespace

void checkAugmentation(const DataSection& section, const std::vector<std::int64_t>& shape) {
  if (!augments(section)) return;
  if (shape.size() != 3) {
    throw UserError(std::string(section.crop > 0 ? "data/crop" : "data/flip") +
                    ": needs images of channels x rows x columns, but samples have the shape " +
                    joined(shape, " x "));
  }
  const std::int64_t limit = std::min(shape[1], shape[2]);
  if (section.crop < limit) return;
  throw UserError("data/crop: " + std::to_string(section.crop) + " is too large for images of " +
                  std::to_string(shape[1]) + " x " + std::to_string(shape[2]) + " pixels (allowed 0 to " +
                  std::to_string(limit - 1) + ")");
}

TrainingRows::TrainingRows(const DataSets& sets, const DataSection& section, std::uint64_t seed)
    : FeatureRows(sets, sets.train), _sets(sets), _seed(seed), _crop(section.crop), _flip(section.flip) {
  if (!augments(section)) return;
  PARTITA_REQUIRE(sets.shape.size() == 3, "only images can be augmented");
  _channels = sets.shape[0];
  _rows = sets.shape[1];
  _columns = sets.shape[2];
}

ImageChange TrainingRows::changeOf(std::size_t row, std::uint32_t epoch) const {
  const Random4 random = RandomStream(_seed, Stream::augmentation, epoch).block(row);
  const auto places = static_cast<std::uint32_t>(2 * _crop + 1);
  return {std::int64_t{toBelow(random.word[0], places)} - _crop,
          std::int64_t{toBelow(random.word[1], places)} - _crop, _flip && random.word[2] >> 31 != 0};
}

void TrainingRows::copyRow(std::size_t row, std::uint32_t epoch, Real* out) const {
  if (_channels == 0) return FeatureRows::copyRow(row, epoch, out);
  const ImageChange change = changeOf(row, epoch);
  for (std::int64_t channel = 0; channel < _channels; ++channel)
    for (std::int64_t line = 0; line < _rows; ++line)
      copyLine(row, channel * _rows + line, change, out + line * _columns * _channels + channel);
}

/// Fills the pixels of one line of a channel. In the file, the lines of all channels follow one another; in
/// `out`, the channels of a pixel do.
void TrainingRows::copyLine(std::size_t row, std::int64_t line, const ImageChange& change, Real* out) const {
  const auto fill = [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t column = first; column < last; ++column) out[column * _channels] = Real(0);
  };
  const std::int64_t from = line % _rows + change.down;
  if (from < 0 || from >= _rows) return fill(0, _columns);
  const std::int64_t begin = std::max<std::int64_t>(0, -change.right),
                     end = std::min(_columns, _columns - change.right),
                     first = (line + change.down) * _columns + begin + change.right;
  fill(0, begin);
  _sets.train.features.copyValues(row, static_cast<std::size_t>(first), static_cast<std::size_t>(end - begin),
                                  _sets.shift, _sets.scale, out + begin * _channels,
                                  static_cast<std::size_t>(_channels));
  fill(end, _columns);
  for (std::int64_t i = 0; change.mirrored && i < _columns / 2; ++i)
    std::swap(out[i * _channels], out[(_columns - 1 - i) * _channels]);
}

} // namespace partita
