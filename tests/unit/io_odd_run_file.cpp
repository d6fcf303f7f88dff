// Files that are valid HDF5 but not written by the program.
#include "partita/data/hdf5.hpp"
#include "partita/io/read_run_file.hpp"
#include "partita/io/write_run_file.hpp"

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
  const std::string path = changed(folder, [](hid_t file) {
    const Hdf5Group group = checkedId<Hdf5Group>(
        H5Gcreate2(file, "/input/a\nb", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), "no group");
    checkedId<Hdf5Group>(H5Gcreate2(group.get(), "c", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), "no group");
  });
  CHECK(messageOf([&] { RunFile{path}; }) == path + ": '/input/a?b/c' does not belong in a file of Partita");
}

} // namespace partita::test::io_odd_run_file
