#pragma once

#include "partita/core/random.hpp"
#include "partita/data/batch_reader.hpp"

namespace partita {

/// Throws UserError if the deck augments training images, but samples of this shape are not images {channels,
/// rows, columns}, or are too small for `data/crop`.
void checkAugmentation(const DataSection& section, const std::vector<std::int64_t>& shape);

/// How an image changes: pixel (r, c) becomes that of row r + down and column c + right, or 0 if there is
/// none. If the image is mirrored, columns are then reversed.
struct ImageChange {
  std::int64_t down = 0, right = 0;
  bool mirrored = false;
};

/// The standardised features of the training set as training reads them: augmented if the deck says so.
///
/// He, Zhang, Ren and Sun, arXiv 1512.03385, section 4.2: with `data/crop` = p an image is padded
/// with p zeros on each side, and a crop of its original size is taken at one of (2p + 1)^2 places;
/// with `data/flip` an image is mirrored left to right with probability 1/2. All choices are
/// equally likely. The zeros are on the standardised scale, where 0 is the mean of the training
/// set.
///
/// The change is a function of (seed, epoch, row in the training set), whatever ranks read the row and when.
class TrainingRows : public FeatureRows {
 public:
  /// `sets` must outlive the rows. If the deck augments images, the shape must be that of images, see
  /// `checkAugmentation`.
  TrainingRows(const DataSets& sets, const DataSection& section, std::uint64_t seed);

  void copyRow(std::size_t row, std::uint32_t epoch, Real* out) const override;
  /// `copyBytes` does not augment, and the zeros around an image are not among its bytes.
  const ByteMap* byteMap() const override { return _channels > 0 ? nullptr : FeatureRows::byteMap(); }
  ImageChange changeOf(std::size_t row, std::uint32_t epoch) const;

 private:
  void copyLine(std::size_t row, std::int64_t line, const ImageChange& change, Real* out) const;

  const DataSets& _sets;
  std::uint64_t _seed;
  std::int64_t _crop;
  bool _flip;
  std::int64_t _channels = 0, _rows = 0, _columns = 0; ///< only if images are augmented
};

} // namespace partita
