#include "partita/data/hdf5.hpp"
#include "partita/data/hdf5_data.hpp"
#include "partita/data/load_data.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <limits>
#include <numeric>
#include <unistd.h>

#include "data_files.hpp"
#include "support/catch.hpp"

namespace partita::test::data_hdf5 {

using Catch::Matchers::ContainsSubstring;

namespace {

class Hdf5Writer {
 public:
  explicit Hdf5Writer(const std::string& path)
      : _file(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT)) {
    REQUIRE(_file);
  }

  template <class Value>
  void add(const std::string& name, hid_t type, const std::vector<hsize_t>& sizes,
           const std::vector<Value>& values) {
    const Hdf5Space space(H5Screate_simple(static_cast<int>(sizes.size()), sizes.data(), nullptr));
    const Hdf5List links(H5Pcreate(H5P_LINK_CREATE));
    H5Pset_create_intermediate_group(links.get(), 1);
    const Hdf5Dataset set(
        H5Dcreate2(_file.get(), name.c_str(), type, space.get(), links.get(), H5P_DEFAULT, H5P_DEFAULT));
    REQUIRE(set);
    if (!values.empty())
      REQUIRE(H5Dwrite(set.get(), type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()) >= 0);
  }

  void addLink(const std::string& name, const std::string& file) {
    REQUIRE(H5Lcreate_external(file.c_str(), "/x", _file.get(), name.c_str(), H5P_DEFAULT, H5P_DEFAULT) >= 0);
  }

  /// A data set whose values are those of "x" in the file `source`.
  void addVirtual(const std::string& name, hid_t type, const std::vector<hsize_t>& sizes,
                  const std::string& source) {
    const Hdf5Space space(H5Screate_simple(static_cast<int>(sizes.size()), sizes.data(), nullptr));
    const Hdf5List properties(H5Pcreate(H5P_DATASET_CREATE));
    REQUIRE(H5Pset_virtual(properties.get(), space.get(), source.c_str(), "x", space.get()) >= 0);
    const Hdf5Dataset set(
        H5Dcreate2(_file.get(), name.c_str(), type, space.get(), H5P_DEFAULT, properties.get(), H5P_DEFAULT));
    REQUIRE(set);
  }

  /// A data set that grows: each row is "x" in one of the files for which the pattern stands.
  void addBlocks(const std::string& name, const std::string& pattern) {
    const std::array<hsize_t, 2> row{1, 2}, most{H5S_UNLIMITED, 2}, begin{0, 0}, count{H5S_UNLIMITED, 1};
    const Hdf5Space rows(H5Screate_simple(2, row.data(), most.data())),
        source(H5Screate_simple(2, row.data(), nullptr));
    REQUIRE(H5Sselect_hyperslab(rows.get(), H5S_SELECT_SET, begin.data(), row.data(), count.data(),
                                row.data()) >= 0);
    const Hdf5List properties(H5Pcreate(H5P_DATASET_CREATE));
    REQUIRE(H5Pset_virtual(properties.get(), rows.get(), pattern.c_str(), "x", source.get()) >= 0);
    const Hdf5Dataset set(H5Dcreate2(_file.get(), name.c_str(), H5T_NATIVE_INT, rows.get(), H5P_DEFAULT,
                                     properties.get(), H5P_DEFAULT));
    REQUIRE(set);
  }

  hid_t id() const { return _file.get(); }

 private:
  Hdf5File _file;
};

std::vector<float> countUp(std::size_t n) {
  std::vector<float> values(n);
  std::iota(values.begin(), values.end(), 0.0F);
  return values;
}

void writeGood(const std::string& path, hsize_t n) {
  Hdf5Writer file(path);
  std::vector<int> labels(n);
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<int>(i % 3);
  file.add("features", H5T_NATIVE_FLOAT, {n, 2, 3}, countUp(n * 6));
  file.add("labels", H5T_NATIVE_INT, {n}, labels);
}

DataSection sectionOf(const ScratchFolder& folder) {
  DataSection section;
  section.kind = DataKind::hdf5;
  section.path = folder.path();
  section.train_file = "train.h5";
  section.test_file = "test.h5";
  section.standardise = Standardise::none;
  writeGood(folder.path("train.h5"), 6);
  writeGood(folder.path("test.h5"), 3);
  return section;
}

std::string messageFor(const DataSection& section) {
  return messageOf([&] { loadData(section, 1, Need::everything); });
}

} // namespace

TEST_CASE("HDF5 features keep their shape, bytes stay bytes, doubles become floats", "[data]") {
  const ScratchFolder folder;
  DataSection section = sectionOf(folder);
  const DataSets sets = loadData(section, 1, Need::everything);
  CHECK(sets.shape == std::vector<std::int64_t>{1, 2, 3}); // an image has a channel axis
  CHECK(sets.classes == 3);
  CHECK(sets.train.labels == std::vector<std::int32_t>{0, 1, 2, 0, 1, 2});
  CHECK(rawRow(sets.train.features, 5) == std::vector<float>{30, 31, 32, 33, 34, 35});

  for (const char* name : {"train.h5", "test.h5"}) {
    Hdf5Writer file(folder.path(name));
    file.add("deep/x", H5T_STD_U8LE, {2, 2}, std::vector<std::uint8_t>{0, 255, 7, 8});
    file.add("deep/y", H5T_NATIVE_LLONG, {2}, std::vector<long long>{0, 1});
    file.add("real", H5T_NATIVE_DOUBLE, {2, 1}, std::vector<double>{0.5, -2.0});
  }
  section.features = "deep/x";
  section.labels = "deep/y";
  CHECK(rawRow(loadData(section, 1, Need::everything).train.features, 0) == std::vector<float>{0, 255});
  section.features = "real";
  CHECK(rawRow(loadData(section, 1, Need::everything).train.features, 1) == std::vector<float>{-2});
}

TEST_CASE("An evaluation reads the training file of HDF5 data if that has the test samples", "[data]") {
  const ScratchFolder folder;
  DataSection section = sectionOf(folder);
  section.standardise = Standardise::scalar;
  const TrainedInput trained{3, {1, 2, 3}, {4.0F}, {0.5F}, {}};
  const auto load = [&] { return loadData(section, 1, Need::everything, &trained); };
  CHECK(load().train.size() == 0);
  std::filesystem::rename(folder.path("train.h5"), folder.path("moved.h5"));
  CHECK(load().test.features.rows() == 3);
  section.test_file.clear();
  section.test_fraction = 0.5;
  CHECK_THAT(messageOf(load), ContainsSubstring("train.h5: no such file"));
  std::filesystem::rename(folder.path("moved.h5"), folder.path("train.h5"));
  CHECK(load().test.features.rows() == 3);
  CHECK(load().shift == trained.shift);
  CHECK(load().scale == trained.scale);
}

TEST_CASE("A test file without labels is accepted only where outputs alone are of use", "[data]") {
  const ScratchFolder folder;
  DataSection section = sectionOf(folder);
  TrainedInput trained{3, {1, 2, 3}, {0.0F}, {1.0F}, {4, 5, 6}};
  const auto load = [&] { return loadData(section, 1, Need::everything, &trained); };
  Hdf5Writer(folder.path("test.h5")).add("features", H5T_NATIVE_FLOAT, {2, 2, 3}, countUp(12));
  CHECK_THAT(messageOf(load), ContainsSubstring("test.h5: no data set 'labels'"));
  trained.labels_optional = true;
  const DataSets sets = load();
  CHECK_FALSE(sets.test_labelled);
  CHECK(sets.test.size() == 2);
  CHECK(rawRow(sets.test.features, 1) == std::vector<float>{6, 7, 8, 9, 10, 11});
  writeGood(folder.path("test.h5"), 3);
  trained.label_values.clear();
  CHECK(load().test_labelled);
  CHECK(load().test.labels == std::vector<std::int32_t>{0, 1, 2});
  section.test_file.clear();
  section.test_fraction = 0.5;
  section.labels = "labls"; // samples of the training file have labels
  CHECK_THAT(messageOf(load), ContainsSubstring("train.h5: no data set 'labls'"));
}

TEST_CASE("Virtual HDF5 data sets read their sources, or are refused", "[data]") {
  const ScratchFolder folder;
  DataSection alone = sectionOf(folder);
  alone.test_file.clear();
  const auto write = [&](const std::string& source, const std::string& own) {
    Hdf5Writer file(folder.path("train.h5"));
    if (!own.empty()) file.add(own, H5T_NATIVE_FLOAT, {2, 3}, countUp(6));
    file.addVirtual("features", H5T_NATIVE_FLOAT, {2, 3}, source);
    file.add("labels", H5T_NATIVE_INT, {2}, std::vector<int>{0, 1});
  };
  const auto loaded = [&] { return rawRow(loadData(alone, 1, Need::everything).train.features, 1); };

  write("source.h5", "");
  CHECK_THAT(messageFor(alone), ContainsSubstring("train.h5: data set 'features': is virtual, but its source "
                                                  "file 'source.h5' is missing or not HDF5"));
  folder.write("source.h5", "text");
  CHECK_THAT(messageFor(alone), ContainsSubstring("'source.h5' is missing or not HDF5"));
  Hdf5Writer(folder.path("source.h5")).add("y", H5T_NATIVE_FLOAT, {2, 3}, countUp(6));
  CHECK_THAT(messageFor(alone), ContainsSubstring("cannot open its source 'x' in the file 'source.h5'"));
  Hdf5Writer(folder.path("source.h5")).add("x", H5T_NATIVE_FLOAT, {2, 3}, std::vector<float>{});
  CHECK_THAT(messageFor(alone), ContainsSubstring("source 'x' in 'source.h5': has never been written"));
  Hdf5Writer(folder.path("source.h5")).addVirtual("x", H5T_NATIVE_FLOAT, {2, 3}, "deep.h5");
  CHECK_THAT(messageFor(alone), ContainsSubstring("'source.h5': is virtual, but its source file 'deep.h5'"));
  Hdf5Writer(folder.path("source.h5")).add("x", H5T_NATIVE_FLOAT, {2, 3}, countUp(6));
  CHECK(loaded() == std::vector<float>{3, 4, 5});
  write(".", "x");
  CHECK(loaded() == std::vector<float>{3, 4, 5});
  Hdf5Writer(folder.path("source.h5")).addVirtual("x", H5T_NATIVE_FLOAT, {2, 3}, "source.h5");
  write("source.h5", "");
  CHECK_THAT(messageFor(alone), ContainsSubstring("'source.h5': is virtual and refers to itself"));
}

TEST_CASE("Files from which HDF5 takes values count as data", "[data]") {
  const ScratchFolder folder;
  DataSection section = sectionOf(folder);
  section.test_file.clear();
  const std::string raw = folder.write("raw", std::string(24, 'a'));
  {
    const std::array<hsize_t, 2> sizes{2, 3};
    const Hdf5Writer file(folder.path("source.h5"));
    const Hdf5Space space(H5Screate_simple(2, sizes.data(), nullptr));
    const Hdf5List properties(H5Pcreate(H5P_DATASET_CREATE));
    REQUIRE(H5Pset_external(properties.get(), raw.c_str(), 0, H5F_UNLIMITED) >= 0);
    const Hdf5Dataset set(H5Dcreate2(file.id(), "x", H5T_NATIVE_FLOAT, space.get(), H5P_DEFAULT,
                                     properties.get(), H5P_DEFAULT));
    REQUIRE(set);
  }
  Hdf5Writer(folder.path("labels.h5")).add("x", H5T_NATIVE_INT, {2}, std::vector<int>{0, 1});
  {
    Hdf5Writer file(folder.path("train.h5"));
    file.addVirtual("features", H5T_NATIVE_FLOAT, {2, 3}, "source.h5");
    file.addLink("labels", "labels.h5");
  }
  const std::vector<std::string> files = dataFiles(section);
  const auto has = [&](const std::string& path) {
    return std::find(files.begin(), files.end(), path) != files.end();
  };
  CHECK(has(folder.path("train.h5")));
  CHECK(has(folder.path("source.h5")));
  CHECK(has(folder.path("labels.h5")));
  CHECK(has(raw));
  CHECK(std::count(files.begin(), files.end(), raw) == 1);
}

TEST_CASE("Files behind patterns, chains of links and packed names count as data, too", "[data]") {
  const ScratchFolder folder;
  DataSection section = sectionOf(folder);
  section.test_file.clear();
  for (const char* name : {"part-0.h5", "part-12.h5", "part-x.h5", "last.h5"})
    Hdf5Writer(folder.path(name)).add("x", H5T_NATIVE_INT, {1, 2}, std::vector<int>{0, 1});
  Hdf5Writer(folder.path("middle.h5")).addLink("x", "last.h5");
  {
    Hdf5Writer file(folder.path("train.h5.gz")); // a name: it is not compressed
    file.addBlocks("features", "part-%b.h5");
    file.addLink("labels", "middle.h5");
  }
  const std::vector<std::string> files = dataFiles(section);
  const auto has = [&](const std::string& name) {
    return std::find(files.begin(), files.end(), folder.path(name)) != files.end();
  };
  for (const char* name : {"train.h5.gz", "part-0.h5", "part-12.h5", "middle.h5", "last.h5"}) {
    INFO(name);
    CHECK(has(name));
  }
  CHECK_FALSE(has("part-x.h5"));
}

/// HDF5 itself reads the variable when it begins, so it does not find the file here.
TEST_CASE("Raw files are found by the prefix that HDF5 uses", "[data]") {
  const ScratchFolder folder;
  DataSection section = sectionOf(folder);
  section.test_file.clear();
  std::filesystem::create_directory(folder.path("values"));
  setenv("HDF5_EXTFILE_PREFIX", "${ORIGIN}/values", 1);
  const auto write = [&](std::size_t bytes) {
    folder.write("values/raw", std::string(bytes, '\0'));
    const std::array<hsize_t, 2> sizes{2, 3};
    const Hdf5Writer file(folder.path("train.h5"));
    const Hdf5Space space(H5Screate_simple(2, sizes.data(), nullptr)),
        rows(H5Screate_simple(1, sizes.data(), nullptr));
    const Hdf5List properties(H5Pcreate(H5P_DATASET_CREATE));
    REQUIRE(H5Pset_external(properties.get(), "raw", 0, H5F_UNLIMITED) >= 0);
    const Hdf5Dataset set(H5Dcreate2(file.id(), "features", H5T_NATIVE_FLOAT, space.get(), H5P_DEFAULT,
                                     properties.get(), H5P_DEFAULT)),
        labels(H5Dcreate2(file.id(), "labels", H5T_NATIVE_INT, rows.get(), H5P_DEFAULT, H5P_DEFAULT,
                          H5P_DEFAULT));
    REQUIRE(set);
    const std::array<int, 2> values{0, 1};
    REQUIRE(H5Dwrite(labels.get(), H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()) >= 0);
  };
  write(24);
  const std::vector<std::string> files = dataFiles(section);
  write(20);
  const std::string of_short = messageFor(section);
  unsetenv("HDF5_EXTFILE_PREFIX");
  const bool listed = std::any_of(files.begin(), files.end(), [&](const std::string& file) {
    std::error_code ignored;
    return std::filesystem::equivalent(file, folder.path("values/raw"), ignored);
  });
  CHECK(listed);
  CHECK_THAT(of_short, ContainsSubstring("which is too short"));
}

TEST_CASE("Parts of an HDF5 data set that were never written are reported", "[data]") {
  const ScratchFolder folder;
  DataSection alone = sectionOf(folder);
  alone.test_file.clear();
  const std::array<hsize_t, 2> sizes{2, 3}, one_row{1, 3};
  const Hdf5Space space(H5Screate_simple(2, sizes.data(), nullptr)),
      row(H5Screate_simple(2, one_row.data(), nullptr));
  const auto write = [&](const Hdf5List& properties, bool fills) {
    Hdf5Writer file(folder.path("train.h5"));
    file.add("labels", H5T_NATIVE_INT, {2}, std::vector<int>{0, 1});
    const Hdf5Dataset set(H5Dcreate2(file.id(), "features", H5T_NATIVE_FLOAT, space.get(), H5P_DEFAULT,
                                     properties.get(), H5P_DEFAULT));
    REQUIRE(set);
    if (!fills) return;
    const Hdf5Space first(H5Screate_simple(2, sizes.data(), nullptr));
    const std::array<hsize_t, 2> begin{0, 0};
    REQUIRE(H5Sselect_hyperslab(first.get(), H5S_SELECT_SET, begin.data(), nullptr, one_row.data(),
                                nullptr) >= 0);
    const std::vector<float> values = countUp(3);
    REQUIRE(H5Dwrite(set.get(), H5T_NATIVE_FLOAT, row.get(), first.get(), H5P_DEFAULT, values.data()) >= 0);
  };
  const auto warned = [&] {
    std::fflush(stderr);
    const int stderr_before = dup(2),
              file = open(folder.path("log").c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600);
    dup2(file, 2);
    loadData(alone, 1, Need::everything);
    dup2(stderr_before, 2);
    close(stderr_before);
    close(file);
    return folder.read("log").find("'features': parts of it have never been written") != std::string::npos;
  };
  SECTION("chunks") {
    const Hdf5List properties(H5Pcreate(H5P_DATASET_CREATE));
    const std::array<hsize_t, 2> chunk{1, 2}; // the second one of a row ends beyond it
    REQUIRE(H5Pset_chunk(properties.get(), 2, chunk.data()) >= 0);
    write(properties, true);
    CHECK(warned());
  }
  SECTION("a virtual data set") {
    Hdf5Writer(folder.path("source.h5")).add("x", H5T_NATIVE_FLOAT, {1, 3}, countUp(3));
    const Hdf5List properties(H5Pcreate(H5P_DATASET_CREATE));
    const Hdf5Space first(H5Screate_simple(2, sizes.data(), nullptr));
    const std::array<hsize_t, 2> begin{0, 0};
    REQUIRE(H5Sselect_hyperslab(first.get(), H5S_SELECT_SET, begin.data(), nullptr, one_row.data(),
                                nullptr) >= 0);
    REQUIRE(H5Pset_virtual(properties.get(), first.get(), "source.h5", "x", row.get()) >= 0);
    write(properties, false);
    CHECK(warned());
  }
  SECTION("an external file") {
    const std::string raw = folder.write("raw", std::string(20, 'a'));
    const Hdf5List properties(H5Pcreate(H5P_DATASET_CREATE));
    REQUIRE(H5Pset_external(properties.get(), raw.c_str(), 0, H5F_UNLIMITED) >= 0);
    write(properties, false);
    CHECK_THAT(messageFor(alone), ContainsSubstring("which is too short"));
    folder.write("raw", std::string(24, 'a'));
    CHECK_FALSE(warned());
  }
  SECTION("an external file whose values begin later") {
    const std::string raw = folder.write("raw", std::string(31, 'a'));
    const Hdf5List properties(H5Pcreate(H5P_DATASET_CREATE));
    REQUIRE(H5Pset_external(properties.get(), raw.c_str(), 8, H5F_UNLIMITED) >= 0);
    write(properties, false);
    CHECK_THAT(messageFor(alone), ContainsSubstring("which is too short"));
    folder.write("raw", std::string(32, 'a'));
    CHECK_FALSE(warned());
  }
  SECTION("two external files") {
    const std::string one = folder.write("one", std::string(12, 'a')),
                      two = folder.write("two", std::string(12, 'a'));
    const Hdf5List properties(H5Pcreate(H5P_DATASET_CREATE));
    REQUIRE(H5Pset_external(properties.get(), one.c_str(), 0, 12) >= 0);
    REQUIRE(H5Pset_external(properties.get(), two.c_str(), 0, H5F_UNLIMITED) >= 0);
    write(properties, false);
    CHECK_FALSE(warned());
  }
}

TEST_CASE("HDF5 limits and labels alone", "[data]") {
  const ScratchFolder folder;
  DataSection section = sectionOf(folder);
  section.samples = 2;
  const DataSets some = loadData(section, 1, Need::everything);
  CHECK(some.train.size() == 2);
  CHECK(some.train.features.rows() == 2);
  CHECK(some.classes == 3);
  const DataSets labels = loadData(section, 1, Need::labels_only);
  CHECK(labels.train.labels == some.train.labels);
  CHECK(labels.shape == some.shape);
  CHECK(labels.train.features.rows() == 0);
}

TEST_CASE("Bad HDF5 files get one clear line", "[data]") {
  const ScratchFolder folder;
  const DataSection section = sectionOf(folder);
  const auto train = [&] { return Hdf5Writer(folder.path("train.h5")); };
  const std::vector<int> labels = {0, 1};

  DataSection wrong = section;
  wrong.train_file = "tran.h5";
  CHECK_THAT(messageFor(wrong), ContainsSubstring("no such file; did you mean 'train.h5'?"));
  wrong = section;
  wrong.features = "feature";
  CHECK_THAT(messageFor(wrong), ContainsSubstring("no data set 'feature'; it contains 'features', 'labels'"));
  wrong.features = "label";
  CHECK_THAT(messageFor(wrong), ContainsSubstring("no data set 'label'; it contains 'labels', 'features'"));

  SECTION("not HDF5") {
    folder.write("train.h5", "label,feature\n1,2\n");
    CHECK_THAT(messageFor(section), ContainsSubstring("train.h5: not an HDF5 file"));
  }
  SECTION("empty file") {
    folder.write("train.h5", "");
    CHECK_THAT(messageFor(section), ContainsSubstring("train.h5: not an HDF5 file"));
  }
  SECTION("truncated") {
    folder.write("train.h5", folder.read("train.h5").substr(0, 900));
    CHECK_THAT(messageFor(section), ContainsSubstring("train.h5: HDF5 cannot open it"));
  }
  SECTION("a link that leads nowhere") {
    train().addLink("features", "elsewhere.h5");
    CHECK_THAT(messageFor(section), ContainsSubstring("data set 'features' cannot be opened by HDF5 "));
  }
  SECTION("a group") {
    train().add("features/x", H5T_NATIVE_FLOAT, {2, 3}, std::vector<float>(6));
    CHECK_THAT(messageFor(section), ContainsSubstring("no data set 'features'; it contains 'features/x'"));
  }
  SECTION("no data sets") {
    train();
    CHECK_THAT(messageFor(section), ContainsSubstring("no data set 'features'; the file contains none"));
  }
  SECTION("counts differ") {
    {
      Hdf5Writer file = train();
      file.add("features", H5T_NATIVE_FLOAT, {3, 2}, countUp(6));
      file.add("labels", H5T_NATIVE_INT, {2}, labels);
    }
    CHECK_THAT(messageFor(section), ContainsSubstring("data set 'features': 3 samples, but 2 labels"));
  }
  SECTION("one dimension") {
    {
      Hdf5Writer file = train();
      file.add("features", H5T_NATIVE_FLOAT, {2}, countUp(2));
      file.add("labels", H5T_NATIVE_INT, {2}, labels);
    }
    CHECK_THAT(
        messageFor(section),
        ContainsSubstring("'features': features must have 2 or more dimensions (samples first), not 1"));
  }
  SECTION("labels of two dimensions") {
    {
      Hdf5Writer file = train();
      file.add("features", H5T_NATIVE_FLOAT, {2, 3}, countUp(6));
      file.add("labels", H5T_NATIVE_INT, {2, 1}, labels);
    }
    CHECK_THAT(messageFor(section), ContainsSubstring("'labels': labels must have 1 dimension, not 2"));
  }
  SECTION("real labels") {
    {
      Hdf5Writer file = train();
      file.add("features", H5T_NATIVE_FLOAT, {2, 3}, countUp(6));
      file.add("labels", H5T_NATIVE_FLOAT, {2}, countUp(2));
    }
    CHECK_THAT(messageFor(section), ContainsSubstring("'labels': labels must be integers"));
  }
  SECTION("negative label") {
    {
      Hdf5Writer file = train();
      file.add("features", H5T_NATIVE_FLOAT, {2, 3}, countUp(6));
      file.add("labels", H5T_NATIVE_INT, {2}, std::vector<int>{0, -4});
    }
    CHECK_THAT(messageFor(section), ContainsSubstring("label -4 of sample 1 is not a class 0, 1, 2, ..."));
  }
  SECTION("no samples") {
    {
      Hdf5Writer file = train();
      file.add("features", H5T_NATIVE_FLOAT, {0, 3}, std::vector<float>{});
      file.add("labels", H5T_NATIVE_INT, {0}, std::vector<int>{});
    }
    CHECK_THAT(messageFor(section), ContainsSubstring("'labels': contains no samples"));
  }
  SECTION("never written") {
    {
      Hdf5Writer file = train();
      file.add("features", H5T_NATIVE_FLOAT, {2, 3}, std::vector<float>{});
      file.add("labels", H5T_NATIVE_INT, {2}, labels);
    }
    CHECK_THAT(messageFor(section),
               ContainsSubstring("train.h5: data set 'features': has never been written"));
  }
  SECTION("not a number") {
    std::vector<float> values = countUp(6);
    values[4] = std::numeric_limits<float>::quiet_NaN();
    {
      Hdf5Writer file = train();
      file.add("features", H5T_NATIVE_FLOAT, {2, 3}, values);
      file.add("labels", H5T_NATIVE_INT, {2}, labels);
    }
    CHECK_THAT(messageFor(section),
               ContainsSubstring("'features': feature 1 of sample 1 is not a number from -1.7e38 to 1.7e38"));
  }
  SECTION("beyond float") {
    {
      Hdf5Writer file = train();
      file.add("features", H5T_NATIVE_DOUBLE, {2, 1}, std::vector<double>{1e300, 0.0});
      file.add("labels", H5T_NATIVE_INT, {2}, labels);
    }
    CHECK_THAT(messageFor(section),
               ContainsSubstring("feature 0 of sample 0 is not a number from -1.7e38 to 1.7e38"));
  }
  SECTION("text") {
    {
      const Hdf5Type text(H5Tcopy(H5T_C_S1));
      Hdf5Writer file = train();
      file.add("features", text.get(), {2, 1}, std::vector<char>{'a', 'b'});
      file.add("labels", H5T_NATIVE_INT, {2}, labels);
    }
    CHECK_THAT(messageFor(section),
               ContainsSubstring("'features': features must be integers or real numbers"));
  }
  SECTION("shapes of training and test differ") {
    {
      Hdf5Writer file = train();
      file.add("features", H5T_NATIVE_FLOAT, {2, 3}, countUp(6));
      file.add("labels", H5T_NATIVE_INT, {2}, labels);
    }
    CHECK_THAT(
        messageFor(section),
        ContainsSubstring("test.h5: samples have the shape 1 x 2 x 3, but those of the training set have 3"));
  }
}

} // namespace partita::test::data_hdf5
