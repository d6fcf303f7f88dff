#include "partita/data/load_data.hpp"
#include "partita/data/order.hpp"

#include "data_files.hpp"
#include "support/catch.hpp"

namespace partita::test::data_mutation {

namespace {

/// Loads `section` and returns whether the outcome is one that a user may see: success, or one line of
/// UserError.
bool endsWell(const DataSection& section) {
  const std::string message = messageOf([&] { loadData(section, 1, Need::everything); });
  return message.find('\n') == std::string::npos;
}

/// Makes one to four random changes: a bit flipped, a byte replaced, a byte removed or doubled, or the tail
/// cut off.
std::string mutated(std::string content, const RandomStream& random) {
  const std::uint32_t changes = 1 + random.below(0, 4);
  for (std::uint32_t i = 0; i < changes && !content.empty(); ++i) {
    const std::size_t place = random.below(4 * i + 1, static_cast<std::uint32_t>(content.size()));
    const std::uint32_t word = random.bits(4 * i + 2);
    switch (random.below(4 * i + 3, 5)) {
    case 0:
      content[place] = static_cast<char>(content[place] ^ (1 << (word & 7U)));
      break;
    case 1:
      content[place] = static_cast<char>(word & 255U);
      break;
    case 2:
      content.erase(place, 1);
      break;
    case 3:
      content.insert(place, 1, content[place]);
      break;
    default:
      content.resize(place);
      break;
    }
  }
  return content;
}

struct File {
  std::string name, content;
};

/// Cuts each file at every length and mutates it `rounds` times at random, with the other files intact.
void attack(const ScratchFolder& folder, const DataSection& section, const std::vector<File>& files,
            std::uint32_t rounds) {
  REQUIRE(messageOf([&] { loadData(section, 1, Need::everything); }).empty());
  std::uint32_t failures = 0, successes = 0;
  for (const File& file : files) {
    for (std::size_t length = 0; length < file.content.size(); ++length) {
      folder.write(file.name, file.content.substr(0, length));
      REQUIRE(endsWell(section));
    }
    for (std::uint32_t round = 0; round < rounds; ++round) {
      folder.write(file.name, mutated(file.content, RandomStream(7, Stream::shuffle, round)));
      INFO(file.name << ", mutation " << round);
      const std::string message = messageOf([&] { loadData(section, 1, Need::everything); });
      REQUIRE(message.find('\n') == std::string::npos);
      ++(message.empty() ? successes : failures);
    }
    folder.write(file.name, file.content);
  }
  CHECK(failures > rounds / 2);
  CHECK(successes > 0);
}

} // namespace

TEST_CASE("Mutated IDX files load or end in one line", "[data][sweep]") {
  const ScratchFolder folder;
  DataSection section;
  section.kind = DataKind::idx;
  section.path = folder.path();
  section.train_images = "images";
  section.train_labels = "labels";
  section.test_images = "test-images";
  section.test_labels = "test-labels";
  const std::vector<File> files = {{"images", idxFile({6, 3, 4}, 72)},
                                   {"labels", idxLabels({0, 1, 2, 0, 1, 2})},
                                   {"test-images", idxFile({2, 3, 4}, 24)},
                                   {"test-labels", idxLabels({2, 1})}};
  for (const File& file : files) folder.write(file.name, file.content);
  attack(folder, section, files, 400);

  std::vector<File> zipped;
  for (const File& file : files) {
    folder.writeGzip(file.name, file.content);
    zipped.push_back({file.name, folder.read(file.name)});
  }
  attack(folder, section, zipped, 400);
}

TEST_CASE("Mutated LIBSVM files load or end in one line", "[data][sweep]") {
  const ScratchFolder folder;
  DataSection section;
  section.kind = DataKind::libsvm;
  section.path = folder.path();
  section.train_file = "train";
  section.test_file = "test";
  const std::vector<File> files = {{"train", "+1 1:0.5 3:-2e1 4:7\r\n# between\n-1 2:1\n\n+1 1:1 2:2 3:3\n"},
                                   {"test", "-1 2:0.25 3:1\n+1 1:4"}};
  for (const File& file : files) folder.write(file.name, file.content);
  attack(folder, section, files, 2000);
}

} // namespace partita::test::data_mutation
