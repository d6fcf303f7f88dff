#include "partita/data/load_data.hpp"
#include "partita/data/text.hpp"

#include "data_files.hpp"
#include "support/catch.hpp"

namespace partita::test::data_text {

namespace {

using Tokens = std::vector<std::int32_t>;

DataSection textSection(const ScratchFolder& folder, const std::string& train, const std::string& test) {
  DataSection section;
  section.kind = DataKind::text;
  section.path = folder.path();
  section.train_file = "train.txt";
  section.test_file = "test.txt";
  section.sequence = 4;
  folder.write("train.txt", train);
  folder.write("test.txt", test);
  return section;
}

std::string messageOfPairs(const std::string& text) {
  return messageOf([&] { BytePairs(text, "v.txt"); });
}

/// Merges by the definition: each pair in turn, from left to right.
Tokens mergedSlowly(const std::string& text, const std::vector<std::pair<int, int>>& pairs) {
  Tokens tokens;
  for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
  for (std::size_t k = 0; k < pairs.size(); ++k) {
    Tokens merged;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const bool pair =
          i + 1 < tokens.size() && tokens[i] == pairs[k].first && tokens[i + 1] == pairs[k].second;
      merged.push_back(pair ? static_cast<std::int32_t>(256 + k) : tokens[i]);
      i += pair ? 1 : 0;
    }
    tokens = merged;
  }
  return tokens;
}

} // namespace

TEST_CASE("A text becomes windows of bytes, each followed by the next one", "[data]") {
  const ScratchFolder folder;
  const DataSection section = textSection(folder, "abcdefghijkl\xFF", "zyxwv");
  const DataSets sets = loadData(section, 1, Need::everything);
  CHECK(sets.classes == 256);
  CHECK(sets.shape == std::vector<std::int64_t>{4});
  CHECK(sets.train.size() == 3);
  CHECK(sets.train.labels_per_sample == 4);
  CHECK(rawRow(sets.train.features, 1) == std::vector<float>{'e', 'f', 'g', 'h'});
  CHECK(Tokens(sets.train.labelsOf(1), sets.train.labelsOf(2)) == Tokens{'f', 'g', 'h', 'i'});
  CHECK(sets.train.labels.back() == 255);
  CHECK(sets.test.size() == 1);
  CHECK(sets.shift == std::vector<float>{0.0F}); // tokens are never standardised
  CHECK(sets.scale == std::vector<float>{1.0F});
  const DataSets labels = loadData(section, 1, Need::labels_only);
  CHECK(labels.train.labels == sets.train.labels);
  CHECK(labels.train.features.rows() == 0);
}

TEST_CASE("Limits, validation and classes of a text count windows and tokens", "[data]") {
  const ScratchFolder folder;
  DataSection section = textSection(folder, "abcdefghijklmnopqrstuvwxyz", "abcde");
  section.samples = 5;
  section.validation = 0.4;
  section.classes = 300;
  const DataSets sets = loadData(section, 1, Need::everything);
  CHECK(sets.classes == 300);
  CHECK(sets.train.size() == 3);
  CHECK(sets.validation.size() == 2);
  for (const Dataset* set : {&sets.train, &sets.validation})
    for (std::size_t i = 0; i < set->size(); ++i)
      CHECK(static_cast<float>(set->labelsOf(i)[0]) == rawRow(set->features, i)[0] + 1.0F);
  section.classes = 200;
  CHECK(messageOf([&] { loadData(section, 1, Need::everything); }) ==
        "data/classes: 200 is less than the 256 tokens of the vocabulary");
  section.sequence = 26;
  CHECK(messageOf([&] { loadData(section, 1, Need::everything); }) ==
        folder.path("train.txt") +
            ": 26 tokens are too few; a sample with data/sequence = 26 needs one more");
}

TEST_CASE("Byte pairs merge in the order of the vocabulary", "[data]") {
  const ScratchFolder folder;
  DataSection section = textSection(folder, "aaabdaaabac", "aaabbbb");
  section.sequence = 2;
  section.vocabulary = "pairs.txt";
  folder.write("pairs.txt", "\xEF\xBB\xBF# the example of Gage\n97 97\n256 97\r\n\n257 98\n");
  const DataSets sets = loadData(section, 1, Need::everything);
  CHECK(sets.classes == 259);
  CHECK(rawRow(sets.train.features, 0) == std::vector<float>{258, 'd'}); // aaab d
  CHECK(sets.train.labels == Tokens{'d', 258, 'a', 'c'});
  CHECK(sets.test.labels.size() == 2 * sets.test.size());
}

TEST_CASE("The first token beyond the bytes fits into no byte", "[data]") {
  const ScratchFolder folder;
  DataSection section = textSection(folder, "aaaa", "aaaa");
  section.sequence = 1;
  section.vocabulary = "pairs.txt";
  folder.write("pairs.txt", "97 97\n");
  const DataSets sets = loadData(section, 1, Need::everything);
  CHECK(sets.classes == 257);
  CHECK(rawRow(sets.train.features, 0) == std::vector<float>{256});
}

TEST_CASE("The quick way to merge is the plain one", "[data]") {
  const std::vector<std::pair<int, int>> pairs{{97, 98},  {98, 97},  {256, 256}, {97, 97},   {257, 258},
                                               {259, 97}, {258, 98}, {98, 98},   {263, 263}, {260, 256}};
  std::string file, text;
  for (const auto& [a, b] : pairs) file += std::to_string(a) + " " + std::to_string(b) + "\n";
  std::uint32_t state = 1;
  for (int i = 0; i < 3000; ++i)
    text += static_cast<char>('a' + ((state = state * 1664525U + 1013904223U) >> 30) % 2);
  CHECK(BytePairs(file, "v.txt").encode(text) == mergedSlowly(text, pairs));
  CHECK(BytePairs(file, "v.txt").encode("") == Tokens{});
  CHECK(BytePairs().encode("ab") == Tokens{'a', 'b'});
}

TEST_CASE("Errors in a vocabulary are reported with their line", "[data]") {
  CHECK(messageOfPairs("97 97\nx 3\n") == "v.txt:2: expected a pair of tokens, such as '104 101'");
  CHECK(messageOfPairs("97\n") == "v.txt:1: expected a pair of tokens, such as '104 101'");
  CHECK(messageOfPairs("-1 97\n") == "v.txt:1: expected a pair of tokens, such as '104 101'");
  CHECK(messageOfPairs("97 98 99\n") == "v.txt:1: expected a pair of tokens, and nothing after it");
  CHECK(messageOfPairs("\n97 256") ==
        "v.txt:2: token 256 is not defined before this line, which defines 256");
  CHECK(messageOfPairs("97 97\n98 98\n97 97\n") == "v.txt:3: the pair is the same as that of token 256");
}

} // namespace partita::test::data_text
