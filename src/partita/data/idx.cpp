#include "partita/data/idx.hpp"

#include "partita/config/text.hpp"
#include "partita/config/user_error.hpp"
#include "partita/core/available_memory.hpp"
#include "partita/data/gzip_file.hpp"

#include <algorithm>
#include <utility>

namespace partita {

namespace {

constexpr std::uint64_t widest_sample = std::uint64_t{1} << 31;

struct Header {
  std::size_t count = 0;
  std::uint64_t width = 1;         ///< bytes per sample
  std::vector<std::int64_t> shape; ///< sizes after the first
};

std::string hex(std::uint8_t byte) {
  return formatted("0x%02X", static_cast<unsigned>(byte));
}

void readHeaderBytes(GzipFile& file, std::uint8_t* out, std::size_t count) {
  const std::size_t got = file.read(out, count);
  if (file.position() == 0) throw UserError(file.name() + ": the file is empty");
  if (got < count)
    throw UserError(file.name() + ": truncated inside the IDX header, at byte " +
                    std::to_string(file.position()));
}

/// Returns the number of dimensions.
int readMagic(GzipFile& file, int fewest, int most) {
  std::uint8_t magic[4];
  readHeaderBytes(file, magic, 4);
  if (magic[0] != 0 || magic[1] != 0)
    throw UserError(file.name() + ": not an IDX file: it begins with " + hex(magic[0]) + " " + hex(magic[1]) +
                    " instead of 0x00 0x00");
  if (magic[2] != 0x08)
    throw UserError(file.name() + ": element type " + hex(magic[2]) +
                    " at byte 2; only unsigned bytes (0x08) are supported");
  const int dimensions = magic[3];
  if (dimensions < fewest || dimensions > most) {
    const std::string wanted = most == 1 ? "labels have 1" : "images have 2 to 4";
    const std::string guess = most == 1 ? " (is this the file of images?)" : " (is this the file of labels?)";
    const bool swapped = (dimensions == 1) != (most == 1) && dimensions >= 1 && dimensions <= 4;
    throw UserError(file.name() + ": " + std::to_string(dimensions) + " dimensions at byte 3; " + wanted +
                    (swapped ? guess : std::string{}));
  }
  return dimensions;
}

Header readHeader(GzipFile& file, int fewest, int most) {
  const int dimensions = readMagic(file, fewest, most);
  Header header;
  for (int d = 0; d < dimensions; ++d) {
    std::uint8_t bytes[4];
    readHeaderBytes(file, bytes, 4);
    const std::uint32_t size = (std::uint32_t{bytes[0]} << 24) | (std::uint32_t{bytes[1]} << 16) |
                               (std::uint32_t{bytes[2]} << 8) | std::uint32_t{bytes[3]};
    if (size == 0)
      throw UserError(
          file.name() +
          (d == 0 ? ": contains no samples (size 0 at byte " : ": samples have no values (size 0 at byte ") +
          std::to_string(4 + 4 * d) + ")");
    if (d == 0) {
      header.count = size;
      continue;
    }
    header.shape.push_back(size);
    header.width *= size;
    if (header.width > widest_sample)
      throw UserError(file.name() +
                      ": a sample would have more than 2^31 bytes, because of the size at byte " +
                      std::to_string(4 + 4 * d));
  }
  return header;
}

/// Reads `header.count` rows and keeps the first `kept`. Memory grows with the actual contents of the file,
/// since the header may be wrong. Throws UserError if the machine has too little.
std::vector<std::uint8_t> readRows(GzipFile& file, const Header& header, std::size_t kept) {
  const std::uint64_t total = header.count * header.width, keep = kept * header.width;
  std::vector<std::uint8_t> out, block(std::min<std::uint64_t>(total, GzipFile::block_bytes));
  for (std::uint64_t done = 0; done < total;) {
    const std::size_t wanted = std::min<std::uint64_t>(block.size(), total - done);
    const std::size_t got = file.read(block.data(), wanted);
    const std::uint64_t missing = keep - out.size();
    const std::size_t room = out.size() + std::min<std::uint64_t>(got, missing);
    if (room > out.capacity()) {
      const std::uint64_t more = std::min<std::uint64_t>(keep, 2 * room);
      requireMemory(static_cast<double>(more), file.name());
      out.reserve(more);
    }
    out.insert(out.end(), block.begin(), block.begin() + std::min<std::uint64_t>(got, missing));
    done += got;
    if (got < wanted)
      throw UserError(file.name() + ": truncated at byte " + std::to_string(file.position()) +
                      ", in sample " + std::to_string(done / header.width) + " of " +
                      std::to_string(header.count));
  }
  std::uint8_t extra = 0;
  if (file.read(&extra, 1) != 0)
    throw UserError(file.name() + ": the file is longer than its header says, from byte " +
                    std::to_string(file.position() - 1));
  return out;
}

IdxImages describeImages(Header header) {
  IdxImages images;
  images.count = header.count;
  images.shape = std::move(header.shape);
  if (images.shape.size() == 2) images.shape.insert(images.shape.begin(), 1);
  return images;
}

LoadedSet readPair(const std::string& images_path, const std::string& labels_path, std::int64_t limit,
                   Need need) {
  LoadedSet set;
  set.features_source = findFile(images_path);
  set.labels_source = findFile(labels_path);
  set.labels = readIdxLabels(labels_path);
  IdxImages images =
      need == Need::everything ? readIdxImages(images_path, limit) : readIdxHeader(images_path);
  if (images.count != set.labels.size())
    throw UserError(set.features_source + ": " + std::to_string(images.count) + " images, but " +
                    std::to_string(set.labels.size()) + " labels in " + set.labels_source);
  set.features = std::move(images.samples);
  set.shape = std::move(images.shape);
  return set;
}

} // namespace

IdxImages readIdxImages(const std::string& path, std::int64_t limit) {
  GzipFile file(path);
  Header header = readHeader(file, 2, 4);
  std::vector<std::uint8_t> bytes = readRows(file, header, keptRows(header.count, limit));
  const std::size_t width = header.width;
  IdxImages images = describeImages(std::move(header));
  images.samples = Samples(width, std::move(bytes));
  return images;
}

IdxImages readIdxHeader(const std::string& path) {
  GzipFile file(path);
  return describeImages(readHeader(file, 2, 4));
}

std::vector<std::int32_t> readIdxLabels(const std::string& path) {
  GzipFile file(path);
  const Header header = readHeader(file, 1, 1);
  const std::vector<std::uint8_t> bytes = readRows(file, header, header.count);
  return {bytes.begin(), bytes.end()};
}

LoadedSets readIdx(const DataSection& section, Need need, bool evaluates) {
  LoadedSets sets;
  if (!evaluates)
    sets.train = readPair(dataPath(section, section.train_images), dataPath(section, section.train_labels),
                          section.samples, need);
  sets.test = readPair(dataPath(section, section.test_images), dataPath(section, section.test_labels),
                       section.test_samples, need);
  return sets;
}

} // namespace partita
