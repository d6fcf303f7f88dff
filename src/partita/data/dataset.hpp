#pragma once

#include "partita/config/run_config.hpp"
#include "partita/data/const_array.hpp"
#include "partita/plan/shape.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace partita {

/// Can this be the value of a feature? The difference of two values must be finite, so NaN, infinity and
/// values beyond 1.7e38 cannot.
inline bool isFeatureValue(float value) {
  return std::abs(value) <= std::numeric_limits<float>::max() / 2;
}

/// Rows of which only some values are stored; the others are zero. Columns of a row ascend.
struct SparseRows {
  ConstArray<std::size_t> end;       ///< of each row in `columns` and `values`
  ConstArray<std::uint32_t> columns; ///< from 0
  ConstArray<float> values;

  std::size_t begin(std::size_t row) const { return row == 0 ? 0 : end[row - 1]; }
  std::size_t bytes() const {
    return end.size() * sizeof(std::size_t) + values.size() * (sizeof(float) + sizeof(std::uint32_t));
  }
};

/// The features of a data set on the host, one row per sample: bytes as in the file (images), floats, or only
/// those that are not zero. Bytes and missing zeros become floats only when a batch is made.
class Samples {
 public:
  Samples() = default;
  Samples(std::size_t width, ConstArray<std::uint8_t> bytes);
  Samples(std::size_t width, ConstArray<float> values);
  Samples(std::size_t width, SparseRows rows);

  std::size_t rows() const {
    return _width == 0 ? 0 : (_bytes.size() + _values.size()) / _width + _sparse.end.size();
  }
  std::size_t width() const { return _width; }
  /// Null if samples are not stored as bytes, or if there are none.
  const std::uint8_t* bytesOf(std::size_t row) const {
    return _bytes.empty() ? nullptr : _bytes.data() + row * _width;
  }
  /// Null if all values are stored.
  const SparseRows* sparse() const { return _sparse.end.empty() ? nullptr : &_sparse; }

  /// out[j] = (x[row][j] - shift[j]) * scale[j]; shift and scale have width 1 or `width()`.
  void copyRow(std::size_t row, const std::vector<float>& shift, const std::vector<float>& scale,
               float* out) const {
    copyValues(row, 0, _width, shift, scale, out);
  }
  void copyRow(std::size_t row, const std::vector<float>& shift, const std::vector<float>& scale,
               double* out) const {
    copyValues(row, 0, _width, shift, scale, out);
  }
  /// The same for the values [first, first + count) of a row: value first + i becomes out[i * step].
  void copyValues(std::size_t row, std::size_t first, std::size_t count, const std::vector<float>& shift,
                  const std::vector<float>& scale, float* out, std::size_t step = 1) const;
  void copyValues(std::size_t row, std::size_t first, std::size_t count, const std::vector<float>& shift,
                  const std::vector<float>& scale, double* out, std::size_t step = 1) const;

  /// Prefetches a row into the processor's caches before `copyRow`: rows are drawn at random, so hardware
  /// prefetchers do not help.
  void prefetchRow(std::size_t row) const;

  Samples select(const std::vector<std::size_t>& rows) const; ///< none if there are no samples

  /// Calls visit(number) and visit(array) for all that describes the samples: another process that gets the
  /// same numbers and arrays has the same samples.
  template <class Visit>
  void visitContents(Visit& visit) {
    visit(_width);
    visit(_bytes);
    visit(_values);
    visit(_sparse.end);
    visit(_sparse.columns);
    visit(_sparse.values);
  }

 private:
  template <class Out>
  void convertValues(std::size_t row, std::size_t first, std::size_t count, const std::vector<float>& shift,
                     const std::vector<float>& scale, Out* out, std::size_t step) const;

  std::size_t _width = 0;
  ConstArray<std::uint8_t> _bytes; ///< one of the three has the samples
  ConstArray<float> _values;
  SparseRows _sparse;
};

/// Samples with their labels 0 .. classes-1: one per sample, or one per position of a sample. `features` is
/// empty if only labels were requested.
struct Dataset {
  Samples features;
  ConstArray<std::int32_t> labels; ///< sample by sample
  std::size_t labels_per_sample = 1;

  std::size_t size() const { return labels.size() / labels_per_sample; }
  const std::int32_t* labelsOf(std::size_t sample) const {
    return labels.data() + sample * labels_per_sample;
  }
  Dataset select(const std::vector<std::size_t>& samples) const;
  /// See Samples.
  template <class Visit>
  void visitContents(Visit& visit) {
    features.visitContents(visit);
    visit(labels);
    visit(labels_per_sample);
  }
};

/// What `loadData` returns: sets of one shape, and the affine map that standardises their features.
struct DataSets {
  Dataset train, validation, test;
  Shape shape; ///< of one sample, e.g. {1, 28, 28} or {122}; {128} tokens
  std::int64_t classes = 0;
  std::vector<float> shift, scale;        ///< one value, or one per feature
  std::vector<std::int64_t> label_values; ///< labels of the classes in the files; empty: 0, 1, ...
  bool test_labelled = true;              ///< otherwise its labels are 0 and mean nothing

  std::int64_t width() const { return valuesOf(shape); } ///< values per sample
};

/// The properties of its training data that a trained network needs to be given data in the same form.
struct TrainedInput {
  std::int64_t classes = 0;
  Shape shape; ///< of a sample
  std::vector<float> shift, scale;
  std::vector<std::int64_t> label_values; ///< see DataSets
  bool labels_optional = false;           ///< may the test set be without labels?

  std::size_t width() const { return static_cast<std::size_t>(valuesOf(shape)); } ///< values per sample
};

/// Throws UserError: the samples of a file have another number of values than those of the training.
[[noreturn]] void failWidth(const std::string& file, std::size_t width, const TrainedInput& trained);

/// `label_values`, or if it is empty, the numbers of the classes.
std::vector<std::int64_t> labelsOfClasses(const std::vector<std::int64_t>& label_values,
                                          std::int64_t classes);

/// Replaces the labels of a file by their ranks among `values`, the labels of classes 0, 1, .... Throws
/// UserError if a label is not among them.
std::vector<std::int32_t> rankLabels(const std::vector<std::int32_t>& labels, const std::string& file,
                                     const std::vector<std::int64_t>& values);

/// Stages after the first one never use the features: their ranks load labels only.
enum class Need { everything, labels_only };

/// What the reader of one format passes to `loadData`. The whole file is checked whatever limit the deck
/// sets: `labels` holds the labels of all samples, `features` the features of the first ones (none if only
/// labels are needed).
struct LoadedSet {
  Samples features;
  std::vector<std::int32_t> labels;
  std::size_t labels_per_sample = 1;
  bool labelled = true;                       ///< otherwise the labels are 0 and mean nothing
  std::vector<std::int64_t> shape;            ///< of one sample
  std::string features_source, labels_source; ///< file names for messages
};

struct LoadedSets {
  LoadedSet train, test;
  std::vector<std::int64_t> label_values; ///< see DataSets
  std::int64_t vocabulary =
      0; ///< samples are tokens 0 .. vocabulary-1 and labels the next ones; 0: no tokens
};

/// Number of rows to keep of a file with `rows` samples under the deck's limit (0: all).
inline std::size_t keptRows(std::size_t rows, std::int64_t limit) {
  return limit == 0 ? rows : std::min<std::size_t>(rows, limit);
}

/// Throws UserError if the machine has no memory for `samples` generated samples of `bytes_per_sample` each;
/// `origin` names the generator.
void requireRoomForSamples(std::int64_t samples, double bytes_per_sample, const std::string& origin);

/// `file` inside the folder `data/path`; an absolute `file` stays as it is.
std::string dataPath(const DataSection& section, const std::string& file);

} // namespace partita
