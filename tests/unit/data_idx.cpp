#include "partita/data/idx.hpp"

#include "data_files.hpp"
#include "support/catch.hpp"

namespace partita::test::data_idx {

using Catch::Matchers::ContainsSubstring;

TEST_CASE("IDX images of two, three and four dimensions are read exactly", "[data]") {
  const ScratchFolder folder;
  struct Case {
    std::vector<std::uint32_t> sizes;
    std::vector<std::int64_t> shape;
  };
  for (const Case& good : {Case{{3, 24}, {24}}, Case{{3, 4, 6}, {1, 4, 6}}, Case{{3, 2, 3, 4}, {2, 3, 4}}}) {
    const std::string content = idxFile(good.sizes, 72);
    for (const std::string& path : {folder.write("plain", content), folder.writeGzip("zipped", content)}) {
      const IdxImages images = readIdxImages(path, 0);
      CHECK(images.shape == good.shape);
      CHECK(images.count == 3);
      REQUIRE(images.samples.rows() == 3);
      for (std::size_t row = 0; row < 3; ++row) {
        const std::vector<float> values = rawRow(images.samples, row);
        REQUIRE(values.size() == 24);
        for (std::size_t j = 0; j < 24; ++j) REQUIRE(values[j] == static_cast<float>(24 * row + j));
      }
    }
  }
}

TEST_CASE("IDX files larger than a read block survive", "[data]") {
  const ScratchFolder folder;
  const std::string path = folder.writeGzip("large.gz", idxFile({3000, 1000}, 3000000));
  const IdxImages images = readIdxImages(path, 0);
  REQUIRE(images.samples.rows() == 3000);
  CHECK(rawRow(images.samples, 2999)[999] == static_cast<float>(2999999 % 256));
}

TEST_CASE("IDX limits keep the first samples and still check the whole file", "[data]") {
  const ScratchFolder folder;
  const IdxImages images = readIdxImages(folder.write("five", idxFile({5, 10}, 50)), 2);
  CHECK(images.count == 5);
  REQUIRE(images.samples.rows() == 2);
  CHECK(rawRow(images.samples, 1)[9] == 19.0F);
  const std::string cut = folder.write("cut", idxFile({5, 10}, 49));
  CHECK_THAT(messageOf([&] { readIdxImages(cut, 2); }), ContainsSubstring("truncated"));
}

TEST_CASE("A name with or without .gz finds its twin", "[data]") {
  const ScratchFolder folder;
  folder.writeGzip("a.gz", idxLabels({1, 2, 3}));
  folder.write("b", idxLabels({4, 5}));
  CHECK(readIdxLabels(folder.path("a")) == std::vector<std::int32_t>{1, 2, 3});
  CHECK(readIdxLabels(folder.path("b.gz")) == std::vector<std::int32_t>{4, 5});
}

TEST_CASE("Bad IDX files get one clear line", "[data]") {
  const ScratchFolder folder;
  const std::string good = idxFile({2, 3, 3}, 18);
  const auto replaced = [&](std::size_t place, char byte) {
    std::string content = good;
    content[place] = byte;
    return content;
  };
  struct Case {
    std::string content, message;
  };
  const std::vector<Case> bad = {
      {"", "the file is empty"},
      {good.substr(0, 2), "truncated inside the IDX header, at byte 2"},
      {good.substr(0, 11), "truncated inside the IDX header, at byte 11"},
      {replaced(0, 'P'), "not an IDX file: it begins with 0x50 0x00"},
      {replaced(2, '\x0d'), "element type 0x0D at byte 2"},
      {replaced(3, '\x05'), "5 dimensions at byte 3; images have 2 to 4"},
      {replaced(3, '\x00'), "0 dimensions at byte 3"},
      {idxLabels({1, 2}), "1 dimensions at byte 3; images have 2 to 4 (is this the file of labels?)"},
      {idxFile({0, 3, 3}, 0), "contains no samples (size 0 at byte 4)"},
      {idxFile({2, 3, 0}, 0), "samples have no values (size 0 at byte 12)"},
      {good.substr(0, good.size() - 1), "truncated at byte 33, in sample 1 of 2"},
      {good.substr(0, 16), "truncated at byte 16, in sample 0 of 2"},
      {good + "x", "the file is longer than its header says, from byte 34"},
      {idxFile({0xFFFFFFFF, 28, 28}, 100), "truncated at byte 116, in sample 0 of 4294967295"},
      {idxFile({2, 0xFFFFFFFF, 0xFFFFFFFF}, 100), "more than 2^31 bytes, because of the size at byte 8"},
      {idxFile({2, 0x10000, 0x10000, 0x10000}, 9), "more than 2^31 bytes, because of the size at byte 12"},
  };
  for (const Case& file : bad) {
    const std::string path = folder.write("bad", file.content);
    const std::string message = messageOf([&] { readIdxImages(path, 0); });
    CHECK_THAT(message, ContainsSubstring(path + ": "));
    CHECK_THAT(message, ContainsSubstring(file.message));
    CHECK(message.find('\n') == std::string::npos);
  }
  const std::string images = folder.write("images", good);
  CHECK_THAT(messageOf([&] { readIdxLabels(images); }),
             ContainsSubstring("3 dimensions at byte 3; labels have 1 (is this the file of images?)"));
}

TEST_CASE("Several gzip streams are one file, which zeros may fill up", "[data]") {
  const ScratchFolder folder;
  const std::string content = idxFile({20, 10}, 200);
  folder.writeGzip("first.gz", content.substr(0, 50));
  folder.writeGzip("empty.gz", "");
  folder.writeGzip("last.gz", content.substr(50));
  const std::string all = folder.read("first.gz") + folder.read("empty.gz") + folder.read("last.gz");
  const std::vector<float> whole = rawRow(readIdxImages(folder.write("plain", content), 0).samples, 19);
  for (const std::string& text : {all, all + std::string(1000, '\0')})
    CHECK(rawRow(readIdxImages(folder.write("all.gz", text), 0).samples, 19) == whole);
}

TEST_CASE("Bad gzip streams and bad names get one clear line", "[data]") {
  const ScratchFolder folder;
  folder.writeGzip("good.gz", idxFile({20, 10}, 200));
  const std::string good = folder.read("good.gz");
  const std::string cut = folder.write("cut.gz", good.substr(0, good.size() / 2));
  CHECK_THAT(messageOf([&] { readIdxImages(cut, 0); }), ContainsSubstring("truncated: the gzip stream ends"));
  const std::string no_trailer = folder.write("trailer.gz", good.substr(0, good.size() - 3));
  CHECK_THAT(messageOf([&] { readIdxImages(no_trailer, 0); }),
             ContainsSubstring("truncated: the gzip stream ends"));
  std::string flipped = good;
  flipped[good.size() - 6] = static_cast<char>(flipped[good.size() - 6] ^ 1);
  const std::string checksum = folder.write("checksum.gz", flipped);
  CHECK_THAT(messageOf([&] { readIdxImages(checksum, 0); }), ContainsSubstring("corrupt gzip stream"));
  for (const std::string& extra : {std::string("x"), "\x1e" + good.substr(1), std::string("\0\x1f", 2)}) {
    const std::string longer = folder.write("longer.gz", good + extra);
    CHECK_THAT(messageOf([&] { readIdxImages(longer, 0); }),
               ContainsSubstring("longer.gz: bytes follow the end of the compressed data, after 212 "));
  }

  CHECK_THAT(messageOf([&] { readIdxImages(folder.path("goad.gz"), 0); }),
             ContainsSubstring("no such file; did you mean 'good.gz'?"));
  CHECK_THAT(messageOf([&] { readIdxImages(folder.path("none/of/these"), 0); }),
             ContainsSubstring("no such file; there is no folder '"));
  CHECK_THAT(messageOf([&] { readIdxImages(folder.path(), 0); }), ContainsSubstring("is a folder"));
}

} // namespace partita::test::data_idx
