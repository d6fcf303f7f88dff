// Reads a LIBSVM file, plain or gzip-compressed, as training and test set at once.
#include "partita/data/libsvm.hpp"

#include <cmath>

#include "fuzz.hpp"

using namespace partita;

namespace {

void checkText(const LibsvmText& text) {
  const SparseRows& rows = text.rows;
  const std::size_t values = rows.values.size();
  fuzz::require(rows.columns.size() == values && rows.end.size() == text.labels.size(), "counts");
  fuzz::require(rows.end.empty() ? values == 0 : rows.end.back() == values, "end of the last row");
  for (std::size_t k = 0; k < values; ++k)
    fuzz::require(rows.columns[k] < text.width && std::isfinite(rows.values[k]), "a value");
}

void checkSets(const LoadedSets& sets) {
  const LoadedSet& train = sets.train;
  const std::vector<float> none{0.0F}, one{1.0F};
  fuzz::require(train.features.rows() == train.labels.size(), "rows and labels differ");
  fuzz::require(static_cast<std::int64_t>(train.features.width()) == train.shape.at(0), "width");
  fuzz::require(sets.test.labels == train.labels && sets.test.features.rows() == 1, "limit of the test set");
  std::vector<float> row(train.features.width());
  train.features.copyRow(train.features.rows() - 1, none, one, row.data());
}

} // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const fuzz::MemoryFile file;
  file.assign(data, size);
  fuzz::accepted([&] { checkText(parseLibsvm({reinterpret_cast<const char*>(data), size}, "text")); });

  DataSection section;
  section.kind = DataKind::libsvm;
  section.train_file = section.test_file = file.path();
  section.test_samples = 1;
  LoadedSets sets;
  if (fuzz::accepted([&] { sets = readLibsvm(section, Need::everything); })) checkSets(sets);
  return 0;
}
