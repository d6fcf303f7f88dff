#include "partita/core/random.hpp"
#include "partita/io/value_check.hpp"

#include <zlib.h>

#include "support/catch.hpp"
#include "support/divisions.hpp"
#include "support/matrices.hpp"

namespace partita::test::io_checksum {

namespace {

std::uint32_t zlibOf(const std::vector<unsigned char>& bytes) {
  return static_cast<std::uint32_t>(crc32_z(0, bytes.data(), bytes.size()));
}

std::vector<unsigned char> someBytes(std::size_t count, std::uint64_t seed) {
  std::vector<unsigned char> bytes;
  for (const double value : normals(static_cast<std::int64_t>(count), seed))
    bytes.push_back(static_cast<unsigned char>(static_cast<int>(1000.0 * std::abs(value)) % 256));
  return bytes;
}

} // namespace

TEST_CASE("Checksums of parts make up that of the whole", "[io]") {
  for (const std::size_t size : {1U, 2U, 5U, 100U, 4097U}) {
    const std::vector<unsigned char> bytes = someBytes(size, size);
    for (const std::size_t owners : {1U, 2U, 3U, 7U}) {
      for (const std::size_t longest : {1U, 3U, 64U}) { // runs assigned to owners in turn, or at random
        std::vector<PartChecksum> parts(owners, PartChecksum(static_cast<std::int64_t>(size)));
        for (std::size_t begin = 0, turn = 0; begin < size; ++turn) {
          const std::size_t chance = bytes[turn % size] + turn * turn,
                            count = std::min(size - begin, 1 + chance % longest);
          parts[chance % owners].add(static_cast<std::int64_t>(begin), bytes.data() + begin,
                                     static_cast<std::int64_t>(count));
          begin += count;
        }
        std::uint32_t sum = 0;
        for (const PartChecksum& part : parts) sum ^= part.value();
        INFO(size << " bytes, " << owners << " owners, runs of up to " << longest);
        CHECK(sum == zlibOf(bytes));
      }
    }
  }
}

TEST_CASE("A part that has nothing leaves a checksum as it is", "[io]") {
  CHECK(PartChecksum(12).value() == 0);
}

TEST_CASE("Slices of a tensor have checksums that make up its own, however they come", "[io]") {
  const std::vector<std::int64_t> extents{13, 11, 3};
  const Values normal = normals(wholeOf(extents).size(), 4);
  const std::vector<Real> values(normal.begin(), normal.end());
  ValueCheck whole(wholeOf(extents));
  whole.add(values.data(), static_cast<std::int64_t>(values.size()));
  CHECK(whole.checksum() ==
        static_cast<std::uint32_t>(
            crc32_z(0, reinterpret_cast<const unsigned char*>(values.data()), values.size() * sizeof(Real))));
  for (const Division& division : someDivisions()) {
    std::uint32_t sum = 0;
    for (const TensorSlice& slice : slicesOf(division, extents)) {
      const std::vector<Real> part = partOf(values, slice);
      ValueCheck check(slice);
      for (std::size_t begin = 0; begin < part.size(); begin += 17) // in parts that are not runs
        check.add(part.data() + begin,
                  static_cast<std::int64_t>(std::min<std::size_t>(17, part.size() - begin)));
      sum ^= check.checksum();
      CHECK(check.finite());
    }
    INFO(division.text());
    CHECK(sum == whole.checksum());
  }
}

} // namespace partita::test::io_checksum
