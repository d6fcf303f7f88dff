// Files that are valid HDF5 but not written by the program.
#include "partita/data/hdf5.hpp"
#include "partita/io/read_run_file.hpp"
#include "partita/io/write_run_file.hpp"

#include <array>

#include "data_files.hpp"
#include "support/catch.hpp"

namespace partita::test::io_odd_run_file {

namespace {

/// Makes a complete file that contains facts only, then changes it.
template <class Change>
std::string changed(const ScratchFolder& folder, Change change) {
  const std::string path = folder.path("p.h5");
  RunFileContent content;
  content.facts = {"# the deck\n", 3, {4}, {0.25F}, {4.0F}, {-1, 1, 5}, {{"version", "1"}}};
  writeRunFile(Communicator::world(), path, content, 0);
  const Hdf5File file =
      checkedId<Hdf5File>(H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), "cannot be opened");
  change(file.get());
  return path;
}

/// Makes a data set with no values on the disk.
void makeDataset(hid_t file, const char* name, hid_t type, const std::vector<std::int64_t>& extents) {
  H5Ldelete(file, name, H5P_DEFAULT);
  const Hdf5Space space =
      extents.empty() ? checkedId<Hdf5Space>(H5Screate(H5S_SCALAR), "no space") : simpleSpace(extents);
  checkedId<Hdf5Dataset>(H5Dcreate2(file, name, type, space.get(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
                         "no data set");
}

} // namespace

TEST_CASE("A file with nothing odd is accepted", "[io]") {
  const ScratchFolder folder;
  const RunFile file(changed(folder, [](hid_t) {}));
  file.verify();
  CHECK(file.facts().deck == "# the deck\n");
  CHECK(file.facts().label_values == std::vector<std::int64_t>{-1, 1, 5});
}

TEST_CASE("A file whose groups go round in circles is refused", "[io]") {
  const ScratchFolder folder;
  const std::string path = changed(
      folder, [](hid_t file) { H5Lcreate_hard(file, "/", file, "/input/again", H5P_DEFAULT, H5P_DEFAULT); });
  CHECK(messageOf([&] { RunFile{path}; }) ==
        path + ": '/input/again/input' does not belong in a file of Partita");
}

TEST_CASE("A file that leads to another one is refused", "[io]") {
  const ScratchFolder folder;
  const std::string path = changed(folder, [](hid_t file) {
    H5Lcreate_external("/etc/elsewhere.h5", "/", file, "/input/other", H5P_DEFAULT, H5P_DEFAULT);
  });
  CHECK(messageOf([&] { RunFile{path}; }) == path + ": its contents cannot be listed; the file is damaged");
}

TEST_CASE("A data set that promises more than the file holds is refused before there is room for it",
          "[io]") {
  const ScratchFolder folder;
  constexpr std::int64_t many = std::int64_t{1} << 50;
  const std::string path =
      changed(folder, [](hid_t file) { makeDataset(file, "/input/shape", H5T_NATIVE_INT64, {many}); });
  CHECK(messageOf([&] { RunFile(path).facts(); }) == path + ": '/input/shape' has an invalid size");
  CHECK(messageOf([&] { RunFile(path).verify(); }) == path + ": '/input/shape' is damaged");
}

TEST_CASE("A deck of a length that HDF5 writes as none is refused", "[io]") {
  const ScratchFolder folder;
  const std::string path = changed(folder, [](hid_t file) {
    const Hdf5Type text = checkedId<Hdf5Type>(H5Tcopy(H5T_C_S1), "no type");
    H5Tset_size(text.get(), std::size_t{1} << 32);
    makeDataset(file, "/deck", text.get(), {});
  });
  CHECK(messageOf([&] { RunFile(path).facts(); }) == path + ": the deck in this file is damaged");
}

TEST_CASE("Names of several lines make a message of one", "[io]") {
  const ScratchFolder folder;
  const std::string path =
      changed(folder, [](hid_t file) { makeDataset(file, "/input/a\nb", H5T_NATIVE_INT64, {1}); });
  CHECK(messageOf([&] { RunFile{path}; }) == path + ": '/input/a b' does not belong in a file of Partita");
}

TEST_CASE("Layers and heads with numbers beyond all bounds are listed in order", "[io]") {
  const ScratchFolder folder;
  const std::string layer = "layer99999999999999999999.dense", head = "head99999999999999999999.0.dense";
  const std::string path = changed(folder, [&](hid_t file) {
    const Hdf5Group kind = checkedId<Hdf5Group>(
        H5Gcreate2(file, parameters_kind, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), "no group");
    for (const std::string& name : {head, layer}) {
      const Hdf5Group group = checkedId<Hdf5Group>(
          H5Gcreate2(kind.get(), name.c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), "no group");
      const Hdf5Space space = simpleSpace({1});
      const Hdf5Dataset bias = checkedId<Hdf5Dataset>(
          H5Dcreate2(group.get(), "bias", realType(), space.get(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
          "no data set");
      const Real value = 1;
      REQUIRE(H5Dwrite(bias.get(), realType(), H5S_ALL, H5S_ALL, H5P_DEFAULT, &value) >= 0);
    }
  });
  const RunFile file(path);
  REQUIRE(file.tensors().size() == 2);
  CHECK(file.tensors()[0].layer == layer);
  CHECK(file.tensors()[1].layer == head);
}

TEST_CASE("A file with fewer scales than shifts is refused", "[io]") {
  const ScratchFolder folder;
  const std::string path = folder.path("p.h5");
  RunFileContent content;
  content.facts = {"# the deck\n",    3, {4}, {0.25F, 0.5F, 0.75F, 1.0F}, {4.0F}, {-1, 1, 5},
                   {{"version", "1"}}};
  writeRunFile(Communicator::world(), path, content, 0);
  CHECK(messageOf([&] { RunFile(path).facts(); }) == path + ": '/input' is inconsistent");
}

TEST_CASE("Each data set is verified, however many ranks share the work", "[io]") {
  const ScratchFolder folder;
  for (const char* name : {"/input/labels", "/input/scale", "/input/shape", "/input/shift"}) {
    const std::string path = changed(folder, [&](hid_t file) {
      const Hdf5Dataset dataset = checkedId<Hdf5Dataset>(H5Dopen2(file, name, H5P_DEFAULT), "no data set");
      std::array<double, 3> values{}; // of at most three
      REQUIRE(H5Dread(dataset.get(), H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()) >= 0);
      values[0] += 1.0;
      REQUIRE(H5Dwrite(dataset.get(), H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()) >= 0);
    });
    for (std::size_t ranks = 1; ranks <= 7; ++ranks) {
      INFO(name << " on " << ranks << " ranks");
      int found = 0;
      for (std::size_t rank = 0; rank < ranks; ++rank)
        found += messageOf([&] { RunFile(path).verify(rank, ranks); }).empty() ? 0 : 1;
      CHECK(found == 1);
    }
  }
}

TEST_CASE("A file of another version is refused", "[io]") {
  const ScratchFolder folder;
  const std::string path =
      changed(folder, [](hid_t file) { changeAttribute(file, "format_version", 999, "a test"); });
  CHECK(messageOf([&] { RunFile{path}; }).rfind(path + ": has format version 999, but", 0) == 0);
}

TEST_CASE("A position that no run can have is refused", "[io]") {
  const ScratchFolder folder;
  const std::string path = folder.path("c.h5");
  RunFileContent content;
  content.facts = {"# the deck\n", 3, {4}, {0.25F}, {4.0F}, {-1, 1, 5}, {{"version", "1"}}};
  RunProgress progress;
  progress.per_epoch = 5;
  progress.stages = 2;
  progress.replicas = progress.ranks = 1;
  progress.scores = {{1, 2, 3}, {4, 5, 6}};
  progress.updates = {{41, 32768, 7}, {40, 1024, 0}};
  using Changes = std::vector<std::pair<std::string, std::int64_t>>;
  const auto messageWith = [&](const Changes& changes) {
    content.progress = progress;
    writeRunFile(Communicator::world(), path, content, 0);
    {
      const Hdf5File file =
          checkedId<Hdf5File>(H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), "not opened");
      const Hdf5Group state = checkedId<Hdf5Group>(H5Gopen2(file.get(), "/state", H5P_DEFAULT), "no state");
      for (const auto& [name, value] : changes) changeAttribute(state.get(), name, value, "a test");
    }
    return messageOf([&] { RunFile(path).progress(); });
  };
  const std::string inconsistent = path + ": '/state' is inconsistent";
  CHECK(messageWith({}).empty());
  CHECK(messageWith({{"stage", 2}}) == inconsistent);
  CHECK(messageWith({{"step", -1}}) == inconsistent);
  CHECK(messageWith({{"steps_per_epoch", 0}}) == inconsistent);
  CHECK(messageWith({{"replicas", 2}}) == inconsistent);                // scores for one
  CHECK(messageWith({{"stages", 1}, {"replicas", 2}}) == inconsistent); // optimisers of two stages
  progress.updates[1].loss_scale = -2;
  CHECK(messageWith({}) == inconsistent);
}

} // namespace partita::test::io_odd_run_file
