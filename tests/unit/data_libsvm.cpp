#include "partita/data/libsvm.hpp"
#include "partita/data/load_data.hpp"

#include <algorithm>
#include <cmath>

#include "data_files.hpp"
#include "support/catch.hpp"

namespace partita::test::data_libsvm {

using Catch::Matchers::ContainsSubstring;

namespace {

DataSection sectionOf(const ScratchFolder& folder, const std::string& train, const std::string& test) {
  DataSection section;
  section.kind = DataKind::libsvm;
  section.path = folder.path();
  section.train_file = "train";
  section.test_file = "test";
  section.standardise = Standardise::none;
  folder.write("train", train);
  folder.write("test", test);
  return section;
}

} // namespace

TEST_CASE("LIBSVM text is read exactly", "[data]") {
  const LibsvmText text =
      parseLibsvm("# head\n+1 1:0.5 3:-2e1\t4:+7\r\n\r\n  -1 \n2.0 2:.25 # 3:1\n-1 4:1e-50", "f");
  CHECK(text.labels == std::vector<std::int32_t>{1, -1, 2, -1});
  CHECK(text.rows.end == std::vector<std::size_t>{3, 3, 4, 5});
  CHECK(text.rows.columns == std::vector<std::uint32_t>{0, 2, 3, 1, 3});
  CHECK(text.rows.values == std::vector<float>{0.5F, -20.0F, 7.0F, 0.25F, 0.0F});
  CHECK(text.width == 4);
  CHECK(parseLibsvm("\xEF\xBB\xBF+1 1:0.5\n", "f").labels == std::vector<std::int32_t>{1});
}

TEST_CASE("LIBSVM labels become ranks and the width is the larger of both files", "[data]") {
  const ScratchFolder folder;
  const DataSection section = sectionOf(folder, "5 1:1\n-1 2:2\n5 1:3\n", "-1 3:4\n");
  const DataSets sets = loadData(section, 1, Need::everything);
  CHECK(sets.classes == 2);
  CHECK(sets.shape == std::vector<std::int64_t>{3});
  CHECK(sets.train.labels == std::vector<std::int32_t>{1, 0, 1});
  CHECK(sets.test.labels == std::vector<std::int32_t>{0});
  CHECK(rawRow(sets.train.features, 1) == std::vector<float>{0, 2, 0});
  CHECK(rawRow(sets.test.features, 0) == std::vector<float>{0, 0, 4});
}

TEST_CASE("Labels are those of the trained network, whichever are in the file", "[data]") {
  const ScratchFolder folder;
  const DataSection section = sectionOf(folder, "no file of numbers", "2 1:1\n1 2:2\n");
  TrainedInput trained{3, {3}, {0.0F}, {1.0F}, {}};
  const auto load = [&] { return loadData(section, 1, Need::everything, &trained); };
  const DataSets numbered = load(); // it was trained on class numbers
  CHECK(numbered.classes == 3);
  CHECK(numbered.test.labels == std::vector<std::int32_t>{2, 1});
  CHECK(numbered.shape == std::vector<std::int64_t>{3});
  trained.label_values = {-1, 1, 2};
  CHECK(load().test.labels == std::vector<std::int32_t>{2, 1});
  trained.label_values = {1, 2, 7};
  CHECK(load().test.labels == std::vector<std::int32_t>{1, 0});
  trained.label_values = {2, 3, 7};
  CHECK_THAT(messageOf([&] { load(); }), ContainsSubstring("test: label 1 of sample 1 does not occur"));
}

TEST_CASE("Bad LIBSVM text is named by line and column", "[data]") {
  struct Case {
    std::string text, message;
  };
  const std::vector<Case> bad = {
      {"x 1:1\n", "f:1:1: expected a label, found 'x'"},
      {"1 1:1\n  0.5 1:1\n", "f:2:3: labels must be integers (classes), found '0.5'"},
      {"nan 1:1\n", "f:1:1: labels must be integers (classes), found 'nan'"},
      {"1,2 1:1\n", "f:1:1: expected a single integer as the label, found '1,2'"},
      {"1e300 1:1\n", "f:1:1: labels must be integers"},
      {"1 1\n", "f:1:3: expected 'index:value', found '1'"},
      {"1 qid:3 1:1\n", "f:1:3: expected 'index:value', found 'qid:3'"},
      {"1 0:1\n", "f:1:3: feature indices start at 1"},
      {"1 -1:1\n", "f:1:3: expected 'index:value'"},
      {"1 2:1 2:1\n", "f:1:7: feature indices must ascend, but 2 follows 2"},
      {"1 3:1 2:1\n", "f:1:7: feature indices must ascend, but 2 follows 3"},
      {"1 1:\n", "f:1:5: expected a value, found nothing"},
      {"1 1:a\n", "f:1:5: expected a value, found 'a'"},
      {"1 1:2x\n", "f:1:3: expected 'index:value', found '1:2x'"},
      {"1 1:nan\n", "f:1:3: value in '1:nan' is not a number from -1.7e38 to 1.7e38"},
      {"1 1:-inf\n", "is not a number from"},
      {"1 1:1.8e38\n", "is not a number from"},
      {"1 1:1e39\n", "is not a number from"},
      {"1 1:1e999\n", "f:1:5: '1e999' is out of range"},
      {"1 1048577:1\n", "f:1:3: feature index in '1048577:1' is larger than 1048576"},
      {"1 99999999999999999999:1\n", "is larger than 1048576"},
      {std::string("1 1:1\0 2:2\n", 11), "f:1:3: expected 'index:value', found '1:1?'"},
      {"# one\n\n1 1:1 2:+-1\n", "f:3:9: expected a value, found '+-1'"},
  };
  for (const Case& file : bad)
    CHECK_THAT(messageOf([&] { parseLibsvm(file.text, "f"); }), ContainsSubstring(file.message));
}

TEST_CASE("Bad pairs of LIBSVM files get one clear line", "[data]") {
  const ScratchFolder folder;
  const auto message = [&](const std::string& train, const std::string& test, std::int64_t classes) {
    DataSection section = sectionOf(folder, train, test);
    section.classes = classes;
    return messageOf([&] { loadData(section, 1, Need::everything); });
  };
  CHECK_THAT(message("1 1:1\n2 1:1\n", "1 1:1\n3 1:1\n", 0),
             ContainsSubstring("test: label 3 of sample 1 does not occur in the training set"));
  CHECK_THAT(message("# nothing\n", "1 1:1\n", 0), ContainsSubstring("train: contains no samples"));
  CHECK_THAT(message("1 1:1\n", "", 0), ContainsSubstring("test: contains no samples"));
  for (const char* test : {"1\n", "1 1:2\n"})
    CHECK_THAT(message("1\n2\n", test, 0), ContainsSubstring("train: contains labels, but no features"));
  CHECK_THAT(message("1 1:1\n2 1:1\n3 1:1\n", "1 1:1\n", 2),
             ContainsSubstring("train: 3 distinct labels, but data/classes is 2"));
}

TEST_CASE("Without a test file the training set is divided", "[data]") {
  const ScratchFolder folder;
  std::string lines;
  for (int i = 0; i < 100; ++i) lines += std::to_string(i % 2) + " 1:" + std::to_string(i + 1) + "\n";
  DataSection section = sectionOf(folder, lines, "");
  section.test_file.clear();
  const auto firstOf = [](const DataSets& sets, const Dataset& set) {
    std::vector<float> values;
    for (std::size_t i = 0; i < set.size(); ++i) {
      float value = 0.0F;
      set.features.copyRow(i, sets.shift, sets.scale, &value);
      values.push_back(value);
    }
    return values;
  };
  section.test_fraction = 0.2;
  section.validation = 0.3;
  const DataSets sets = loadData(section, 5, Need::everything);
  CHECK(sets.test.size() == 20);
  CHECK(sets.validation.size() == 30);
  CHECK(sets.train.size() == 50);
  std::vector<float> all = firstOf(sets, sets.train);
  for (const Dataset* set : {&sets.validation, &sets.test})
    for (const float value : firstOf(sets, *set)) all.push_back(value);
  std::sort(all.begin(), all.end());
  CHECK(std::unique(all.begin(), all.end()) == all.end()); // each sample is in one of them
  const DataSets labels = loadData(section, 5, Need::labels_only);
  CHECK(labels.test.labels == sets.test.labels);
  CHECK(firstOf(sets, loadData(section, 6, Need::everything).test) != firstOf(sets, sets.test));

  section.test_samples = 7;
  CHECK(loadData(section, 5, Need::everything).test.size() == 7);
  section.test_samples = 0;
  section.test_fraction = 0.0;
  const DataSets validated = loadData(section, 5, Need::everything);
  CHECK(validated.train.size() == 70);
  CHECK(firstOf(validated, validated.test) == firstOf(validated, validated.validation));
}

TEST_CASE("A small file cannot ask for gigabytes", "[data]") {
  const ScratchFolder folder;
  std::string slip = "1 1048576:1\n", fine;
  for (int i = 0; i < 31; ++i) slip += "2 1:1\n";
  for (int i = 0; i < 33; ++i) fine += "1 1:1\n";
  const auto message = [&](const std::string& train, const std::string& test) {
    return messageOf([&] { loadData(sectionOf(folder, train, test), 1, Need::everything); });
  };
  CHECK_THAT(message(slip + "2 1:1\n", "1 1:1\n"),
             ContainsSubstring("train: 33 samples of 1048576 features with 33 values are too sparse"));
  CHECK_THAT(message("1 1048576:1\n", fine), ContainsSubstring("test: 33 samples of 1048576 features"));
  CHECK(message(slip, "1 1:1\n").empty()); // 128 MiB
}

TEST_CASE("Zeros of sparse rows are not stored, and are there when rows are read", "[data]") {
  const ScratchFolder folder;
  constexpr std::size_t width = 40;
  std::string few, many; // 3 and 30 values per row
  std::vector<std::vector<float>> rows;
  for (std::size_t i = 0; i < 50; ++i) {
    const std::string label = std::to_string(i % 2);
    std::vector<float> row(width, 0.0F);
    few += label;
    many += label;
    for (std::size_t j = i % 5; j < width; j += 13 + i % 3) {
      row[j] = static_cast<float>(i) + 0.25F * static_cast<float>(j);
      few += " " + std::to_string(j + 1) + ":" + std::to_string(row[j]);
    }
    for (std::size_t j = 10; j < width; ++j) many += " " + std::to_string(j + 1) + ":1";
    few += "\n";
    many += "\n";
    rows.push_back(row);
  }
  const DataSets sets = loadData(sectionOf(folder, few, many), 1, Need::everything);
  REQUIRE(sets.train.features.sparse() != nullptr);
  CHECK(sets.test.features.sparse() == nullptr);
  CHECK(rawRow(sets.test.features, 3)[9] == 0.0F);
  CHECK(rawRow(sets.test.features, 3)[10] == 1.0F);

  const Samples& sparse = sets.train.features;
  std::vector<float> all;
  for (const std::vector<float>& row : rows) all.insert(all.end(), row.begin(), row.end());
  const Samples dense(width, all);
  CHECK(sparse.rows() == 50);
  CHECK(sparse.width() == width);
  const std::vector<std::size_t> chosen{7, 49, 0, 7};
  const Samples some = sparse.select(chosen);
  std::vector<float> shift(width), scale(width);
  for (std::size_t j = 0; j < width; ++j) {
    shift[j] = 0.1F * static_cast<float>(j);
    scale[j] = 1.0F / (1.0F + static_cast<float>(j));
  }
  std::vector<float> found(width), expected(width);
  std::vector<double> exact(width), exact_expected(width);
  for (std::size_t i = 0; i < 50; ++i) {
    sparse.prefetchRow(i);
    CHECK(rawRow(sparse, i) == rows[i]);
    sparse.copyRow(i, shift, scale, found.data());
    dense.copyRow(i, shift, scale, expected.data());
    CHECK(found == expected);
    sparse.copyRow(i, {0.5F}, {3.0F}, exact.data());
    dense.copyRow(i, {0.5F}, {3.0F}, exact_expected.data());
    CHECK(exact == exact_expected);
    sparse.copyValues(i, 5, 20, shift, scale, found.data());
    dense.copyValues(i, 5, 20, shift, scale, expected.data());
    CHECK(std::equal(found.begin(), found.begin() + 20, expected.begin()));
  }
  for (std::size_t i = 0; i < chosen.size(); ++i) CHECK(rawRow(some, i) == rows[chosen[i]]);
}

TEST_CASE("Standardisation of sparse rows has the bits of that with zeros", "[data]") {
  const ScratchFolder folder;
  std::string sparse;
  std::vector<std::vector<double>> rows;
  for (int i = 0; i < 60; ++i) {
    std::vector<double> row(30, 0.0);
    sparse += std::to_string(i % 2);
    for (std::size_t j = static_cast<std::size_t>(i * 7 % 11); j < 30; j += 11) { // row 0 has values
      row[j] = 1.5 + i % 4;
      sparse += " " + std::to_string(j + 1) + ":" + std::to_string(row[j]);
    }
    sparse += "\n";
    rows.push_back(row);
  }
  DataSection section = sectionOf(folder, sparse, sparse);
  section.standardise = Standardise::feature;
  const DataSets feature = loadData(section, 1, Need::everything);
  REQUIRE(feature.train.features.sparse() != nullptr);
  double all = 0.0, squares = 0.0;
  for (std::size_t j = 0; j < 30; ++j) {
    double sum = 0.0, square = 0.0;
    for (const std::vector<double>& row : rows) {
      sum += row[j] - rows[0][j];
      square += (row[j] - rows[0][j]) * (row[j] - rows[0][j]);
    }
    const double mean = sum / 60.0;
    CHECK(feature.shift[j] == static_cast<float>(rows[0][j] + mean));
    CHECK(feature.scale[j] == static_cast<float>(1.0 / std::sqrt(square / 60.0 - mean * mean)));
    sum = square = 0.0;
    for (const std::vector<double>& row : rows) {
      sum += row[j] - rows[0][0];
      square += (row[j] - rows[0][0]) * (row[j] - rows[0][0]);
    }
    all += sum;
    squares += square;
  }
  section.standardise = Standardise::scalar;
  const DataSets scalar = loadData(section, 1, Need::everything);
  const double mean = all / 1800.0;
  CHECK(scalar.shift.front() == static_cast<float>(rows[0][0] + mean));
  CHECK(scalar.scale.front() == static_cast<float>(1.0 / std::sqrt(squares / 1800.0 - mean * mean)));
}

TEST_CASE("A feature that hardly varies is only shifted", "[data]") {
  const ScratchFolder folder;
  DataSection section = sectionOf(folder, "0 1:1e-44 2:1\n1 1:1e-45 2:3\n", "0 1:1e-45 2:1\n");
  section.standardise = Standardise::feature;
  const DataSets sets = loadData(section, 1, Need::everything);
  CHECK(sets.scale == std::vector<float>{1.0F, 1.0F});
}

} // namespace partita::test::data_libsvm
