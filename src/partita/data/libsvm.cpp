#include "partita/data/libsvm.hpp"

#include "partita/config/text.hpp"
#include "partita/config/user_error.hpp"
#include "partita/core/available_memory.hpp"
#include "partita/data/gzip_file.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

namespace partita {

namespace {

/// The first layer has weights for each feature: a larger number is a mistake, or needs another program.
constexpr std::uint64_t largest_index = std::uint64_t{1} << 20;
constexpr std::uint64_t free_values = std::uint64_t{1} << 25; ///< of a set, however few of them are nonzero
constexpr std::uint64_t most_zeros = std::uint64_t{1} << 16;  ///< per value in the file, beyond that

bool isBlank(char c) {
  return c == ' ' || c == '\t' || c == '\r';
}

class Parser {
 public:
  Parser(std::string_view text, const std::string& name)
      : _at(text.data()), _end(text.data() + text.size()), _line_start(_at), _name(name) {}

  LibsvmText parse() {
    while (_at < _end) {
      skipBlanks();
      if (!atLineEnd()) parseSample();
      nextLine();
    }
    _out.rows = {std::move(_ends), std::move(_columns), std::move(_values)};
    return std::move(_out);
  }

 private:
  void parseSample() {
    _out.labels.push_back(parseLabel());
    std::uint64_t previous = 0;
    for (skipBlanks(); !atLineEnd(); skipBlanks()) previous = parseFeature(previous);
    _ends.push_back(_values.size());
  }

  std::int32_t parseLabel() {
    const char* start = _at;
    const double label = parseReal("a label");
    if (!atTokenEnd()) fail(start, "expected a single integer as the label, found " + token(start));
    if (label != std::floor(label) || std::fabs(label) > 1e9)
      fail(start, "labels must be integers (classes), found " + token(start));
    return static_cast<std::int32_t>(label);
  }

  std::uint64_t parseFeature(std::uint64_t previous) {
    const char* start = _at;
    std::uint64_t index = 0;
    const auto [stop, error] = std::from_chars(_at, _end, index);
    if (error == std::errc::invalid_argument || stop == _end || *stop != ':')
      fail(start, "expected 'index:value', found " + token(start));
    if (error == std::errc::result_out_of_range || index > largest_index)
      fail(start, "feature index in " + token(start) + " is larger than " + std::to_string(largest_index));
    if (index == 0) fail(start, "feature indices start at 1, found " + token(start));
    if (index <= previous)
      fail(start, "feature indices must ascend, but " + std::to_string(index) + " follows " +
                      std::to_string(previous));
    _at = stop + 1;
    const auto value = static_cast<float>(parseReal("a value"));
    if (!atTokenEnd()) fail(start, "expected 'index:value', found " + token(start));
    if (!isFeatureValue(value))
      fail(start, "value in " + token(start) + " is not a number from -1.7e38 to 1.7e38");
    _columns.push_back(static_cast<std::uint32_t>(index - 1));
    _values.push_back(value);
    _out.width = std::max<std::size_t>(_out.width, index);
    return index;
  }

  double parseReal(const char* what) {
    const char* start = _at;
    if (_end - _at > 1 && *_at == '+' && _at[1] != '-') ++_at; // from_chars does not accept a plus sign
    double value = 0.0;
    const auto [stop, error] = std::from_chars(_at, _end, value);
    if (error == std::errc::result_out_of_range) fail(start, token(start) + " is out of range");
    if (error != std::errc{}) fail(start, "expected " + std::string(what) + ", found " + token(start));
    _at = stop;
    return value;
  }

  void skipBlanks() {
    while (_at < _end && isBlank(*_at)) ++_at;
  }
  bool atLineEnd() const { return _at == _end || *_at == '\n' || *_at == '#'; }
  bool atTokenEnd() const { return atLineEnd() || isBlank(*_at); }

  void nextLine() {
    _at = std::find(_at, _end, '\n');
    if (_at < _end) ++_at;
    _line_start = _at;
    ++_line;
  }

  /// The token at `start` in quotes, short and printable.
  std::string token(const char* start) const {
    std::string text;
    for (const char* c = start; c < _end && *c != '\n' && !isBlank(*c) && text.size() < 24; ++c)
      text += *c > ' ' && *c < '\x7f' ? *c : '?';
    return text.empty() ? "nothing" : "'" + text + "'";
  }

  [[noreturn]] void fail(const char* place, const std::string& message) const {
    throw UserError(_name + ":" + std::to_string(_line) + ":" + std::to_string(place - _line_start + 1) +
                    ": " + message);
  }

  const char* _at;
  const char* _end;
  const char* _line_start;
  const std::string& _name;
  std::size_t _line = 1;
  std::vector<std::size_t> _ends; ///< what becomes the rows of `_out`
  std::vector<std::uint32_t> _columns;
  std::vector<float> _values;
  LibsvmText _out;
};

struct LibsvmFile {
  std::string name;
  LibsvmText text;
};

LibsvmFile readFile(const std::string& path) {
  GzipFile file(path);
  LibsvmFile out{file.name(), parseLibsvm(file.readAll(), file.name())};
  if (out.text.labels.empty()) throw UserError(out.name + ": contains no samples");
  return out;
}

std::vector<float> withZeros(const SparseRows& rows, std::size_t width) {
  std::vector<float> values(rows.end.size() * width, 0.0F);
  for (std::size_t row = 0; row < rows.end.size(); ++row)
    for (std::size_t k = rows.begin(row); k < rows.end[row]; ++k)
      values[row * width + rows.columns[k]] = rows.values[k];
  return values;
}

/// The first rows of a file. Moves the rows out of `file`.
Samples samplesOf(LibsvmFile& file, std::size_t width, std::int64_t limit) {
  SparseRows rows = std::move(file.text.rows);
  rows.end = rows.end.first(keptRows(rows.end.size(), limit));
  rows.columns = rows.columns.first(rows.end.back());
  rows.values = rows.values.first(rows.end.back());
  const std::uint64_t size = std::uint64_t{rows.end.size()} * width, stored = rows.values.size();
  const std::string sizes = counted(static_cast<std::int64_t>(rows.end.size()), "sample") + " of " +
                            counted(static_cast<std::int64_t>(width), "feature");
  if (size > free_values && size / most_zeros > stored)
    throw UserError(file.name + ": " + sizes + " with " + std::to_string(stored) +
                    " values are too sparse; is a feature index wrong?");
  const std::uint64_t bytes = size * sizeof(float);
  if (rows.bytes() < bytes / 2) return Samples(width, std::move(rows));
  requireMemory(static_cast<double>(bytes), file.name + ": " + sizes);
  return Samples(width, withZeros(rows, width));
}

std::vector<std::int64_t> distinctLabels(const std::vector<std::int32_t>& all) {
  std::vector<std::int64_t> labels(all.begin(), all.end());
  std::sort(labels.begin(), labels.end());
  labels.erase(std::unique(labels.begin(), labels.end()), labels.end());
  return labels;
}

/// Throws UserError if the training samples have no width, or a file has a larger one than `trained`.
std::size_t commonWidth(const LibsvmFile& train, const LibsvmFile& test, const TrainedInput* trained) {
  if (trained == nullptr) {
    if (train.text.width == 0) throw UserError(train.name + ": contains labels, but no features");
    return std::max(train.text.width, test.text.width);
  }
  for (const LibsvmFile* const file : {&train, &test})
    if (file->text.width > trained->width()) failWidth(file->name, file->text.width, *trained);
  return trained->width(); // the last features may be missing in a file
}

/// The labels of classes 0, 1, ....
std::vector<std::int64_t> classLabels(const LibsvmFile& train, const DataSection& section,
                                      const TrainedInput* trained) {
  std::vector<std::int64_t> distinct = trained != nullptr
                                           ? labelsOfClasses(trained->label_values, trained->classes)
                                           : distinctLabels(train.text.labels);
  if (section.classes != 0 && static_cast<std::int64_t>(distinct.size()) > section.classes)
    throw UserError((trained != nullptr ? "the trained network" : train.name) + ": " +
                    std::to_string(distinct.size()) + " distinct labels, but data/classes is " +
                    std::to_string(section.classes));
  return distinct;
}

} // namespace

LibsvmText parseLibsvm(std::string_view text, const std::string& name) {
  return Parser(withoutByteOrderMark(text), name).parse();
}

LoadedSets readLibsvm(const DataSection& section, Need need, const TrainedInput* trained) {
  const bool tested = !section.test_file.empty(), trains = trained == nullptr || !tested;
  LibsvmFile train = trains ? readFile(dataPath(section, section.train_file)) : LibsvmFile{};
  LibsvmFile test = tested ? readFile(dataPath(section, section.test_file)) : LibsvmFile{};
  const std::size_t width = commonWidth(train, test, trained);
  LoadedSets sets;
  sets.label_values = classLabels(train, section, trained);
  const auto fill = [&](LoadedSet& set, LibsvmFile& file, std::int64_t limit) {
    set.labels = rankLabels(file.text.labels, file.name, sets.label_values);
    set.shape = {static_cast<std::int64_t>(width)};
    set.features_source = set.labels_source = file.name;
    if (need == Need::everything) set.features = samplesOf(file, width, limit);
  };
  if (trains) fill(sets.train, train, section.samples);
  if (tested) fill(sets.test, test, section.test_samples);
  return sets;
}

} // namespace partita
