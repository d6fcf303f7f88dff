// Reads an IDX file, plain or gzip-compressed, as images and as labels.
#include "partita/data/idx.hpp"

#include "fuzz.hpp"

using namespace partita;

namespace {

/// Checks that reading the first samples alone, or the header alone, agrees with reading the whole file.
void checkParts(const std::string& path, const IdxImages& all) {
  fuzz::require(all.samples.rows() == all.count, "rows and count differ");
  const IdxImages first = readIdxImages(path, 1), header = readIdxHeader(path);
  fuzz::require(first.samples.rows() == 1 && first.samples.width() == all.samples.width(), "first sample");
  fuzz::require(first.shape == all.shape && header.shape == all.shape && header.count == all.count, "header");
}

} // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const fuzz::MemoryFile file;
  file.assign(data, size);
  IdxImages images;
  if (fuzz::accepted([&] { images = readIdxImages(file.path(), 0); })) checkParts(file.path(), images);
  fuzz::accepted([&] { readIdxLabels(file.path()); });
  return 0;
}
