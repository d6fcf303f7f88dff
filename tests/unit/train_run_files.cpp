#include "partita/data/hdf5.hpp"
#include "partita/io/write_run_file.hpp"
#include "partita/strategy/hogbatch/decisions.hpp"
#include "partita/train/history.hpp"
#include "partita/train/run_files.hpp"
#include "partita/train/run_leftovers.hpp"
#include "partita/train/set_aside.hpp"
#include "partita/train/worker_history.hpp"

#include <algorithm>
#include <filesystem>

#include "data_files.hpp"
#include "support/catch.hpp"

namespace partita::test::train_run_files {

namespace {

namespace fs = std::filesystem;

const std::string row = "...\n1,2\n";

/// A folder with the tables and the summary of a run.
void writeRun(const ScratchFolder& folder) {
  folder.write("history.csv", history_mark + row);
  folder.write("workers.csv", workers_mark + row);
  folder.write("decisions.csv", decisions_mark + row);
  folder.write("summary.json", "{\n  \"strategy\": \"hogbatch\"\n}\n");
}

std::vector<std::string> sorted(std::vector<std::string> names) {
  std::sort(names.begin(), names.end());
  return names;
}

/// A file of ours that contains facts only.
void writeOurs(const std::string& path, const std::string& deck) {
  RunFileContent content;
  content.facts = {deck, 3, {4}, {0.25F}, {4.0F}, {}, {{"version", "1"}}};
  writeRunFile(Communicator::world(), path, content, 0);
}

/// An HDF5 file of another program, behind `before` bytes of zeros.
void writeForeign(const std::string& path, hsize_t before) {
  const Hdf5List list = checkedId<Hdf5List>(H5Pcreate(H5P_FILE_CREATE), "no list");
  checkHdf5(H5Pset_userblock(list.get(), before), "no room");
  const Hdf5File file =
      checkedId<Hdf5File>(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, list.get(), H5P_DEFAULT), "no file");
  writeAttribute(file.get(), "creator", std::string("somebody"), path);
}

const std::vector<std::string> unfinished{"parameters.h5.partial", "checkpoints/step-000000010.h5.partial"};

} // namespace

TEST_CASE("All tables of a run grow, but only those that are there", "[train]") {
  const ScratchFolder folder;
  CHECK(growingFilesIn(folder.path()).empty());
  folder.write("history.csv", history_mark + row);
  CHECK(growingFilesIn(folder.path()) == std::vector<std::string>{folder.path("history.csv")});
  writeRun(folder);
  CHECK(sorted(growingFilesIn(folder.path())) == std::vector<std::string>{folder.path("decisions.csv"),
                                                                          folder.path("history.csv"),
                                                                          folder.path("workers.csv")});
}

TEST_CASE("What a run does not take over is set aside", "[train]") {
  const ScratchFolder folder;
  const auto moved = [&](const TakenOver& taken) {
    writeRun(folder);
    std::vector<std::string> names = setResultsAside(folder.path(), taken);
    for (std::string& name : names) {
      std::filesystem::remove(name);
      name = std::filesystem::path(name).stem().string();
    }
    return sorted(names);
  };
  using Names = std::vector<std::string>;
  CHECK(moved({true, true, true}).empty());
  CHECK(moved({true, false, true}) == Names{"decisions.csv"});
  CHECK(moved({true, true, false}) == Names{"summary.json"});
  CHECK(moved({false, true, true}) == Names{"history.csv", "workers.csv"});
  CHECK(moved({}).size() == 4);
}

TEST_CASE("An unfinished file that another program wrote is refused and stays", "[train]") {
  for (const std::string& name : unfinished) {
    for (const hsize_t before : {0, 512}) {
      const ScratchFolder folder;
      fs::create_directories(folder.path("checkpoints"));
      writeForeign(folder.path(name), before);
      CHECK(messageOf([&] { refuseForeignFiles(folder.path()); }) ==
            folder.path(name) +
                ": is not a Partita file and would be overwritten; choose another run directory");
      removeUnfinishedFiles(folder.path());
      CHECK(fs::exists(folder.path(name)));
    }
  }
}

TEST_CASE("What a killed run was writing is removed", "[train]") {
  const ScratchFolder folder;
  fs::create_directories(folder.path("checkpoints"));
  writeOurs(folder.path("ours.h5"), "# the deck\n");
  const std::string whole = folder.read("ours.h5");
  for (const std::string& name : unfinished) {
    for (const std::string& content :
         {std::string(), std::string(100, '\0'), whole.substr(0, whole.size() / 2), whole}) {
      folder.write(name, content);
      CHECK(messageOf([&] { refuseForeignFiles(folder.path()); }).empty());
      removeUnfinishedFiles(folder.path());
      CHECK_FALSE(fs::exists(folder.path(name)));
    }
  }
}

TEST_CASE("Empty files of the MPI library beside unfinished files are removed, others stay", "[train]") {
  const ScratchFolder folder;
  fs::create_directories(folder.path("checkpoints"));
  for (const char* left :
       {".partial-123-45.lock", ".partial.locktest.0", ".partial.data.11", ".partial.metadata.3"}) {
    for (const char* name : {"parameters.h5", "checkpoints/step-000000010.h5"}) {
      for (const std::string& content : {std::string(), std::string(8, '\0')}) {
        folder.write(std::string(name) + left, content);
        CHECK(messageOf([&] { refuseForeignFiles(folder.path()); }).empty());
        removeUnfinishedFiles(folder.path());
        CHECK_FALSE(fs::exists(folder.path(std::string(name) + left)));
      }
      folder.write(std::string(name) + left, "somebody's");
    }
    folder.write(std::string("mine.h5") + left, "");
    folder.write(std::string("checkpoints/step-1.h5") + left, "");
    folder.write(std::string("parameters.h5") + left + ".txt", "");
  }
  const auto files = [&] {
    return std::distance(fs::recursive_directory_iterator(folder.path()), fs::recursive_directory_iterator());
  };
  const auto before = files();
  removeUnfinishedFiles(folder.path());
  CHECK(files() == before);
}

TEST_CASE("A copy takes the place of a link to a table that continues", "[train]") {
  const ScratchFolder folder;
  const std::string run = folder.path("run"), table = run + "/history.csv";
  fs::create_directories(run);
  folder.write("elsewhere.csv", history_mark + row);
  fs::create_symlink("../elsewhere.csv", table);
  using Names = std::vector<std::string>;
  CHECK(setLinksAside(run, {true, true, true}) == Names{table + ".superseded"});
  CHECK(fs::is_symlink(table + ".superseded"));
  CHECK_FALSE(fs::is_symlink(table));
  CHECK(folder.read("run/history.csv") == history_mark + row);
  CHECK(setLinksAside(run, {true, true, true}).empty());

  fs::remove(table);
  fs::create_symlink("../elsewhere.csv", table);
  CHECK(setLinksAside(run, {}) == Names{table + ".superseded-2"});
  CHECK_FALSE(fs::exists(fs::symlink_status(table)));
}

TEST_CASE("Decks are found in parameters and checkpoints, but not in damaged ones", "[train]") {
  const ScratchFolder folder;
  fs::create_directories(folder.path("checkpoints"));
  CHECK(storedDecks(folder.path()).empty());
  writeOurs(folder.path("checkpoints/step-000000010.h5"), "# the first\n");
  writeOurs(folder.path("checkpoints/step-000000020.h5"), "# the second\n");
  folder.write("checkpoints/step-000000020.h5", folder.read("checkpoints/step-000000020.h5").substr(0, 1000));
  writeOurs(folder.path("parameters.h5"), "# the last\n");
  const std::vector<StoredDeck> decks = storedDecks(folder.path());
  REQUIRE(decks.size() == 2);
  CHECK(decks[0].file == folder.path("parameters.h5"));
  CHECK(decks[0].text == "# the last\n");
  CHECK(decks[1].text == "# the first\n");
}

TEST_CASE("The stage of a position is named only where stages train in turns", "[train]") {
  const std::string head =
      "[network]\nlayers = [{type = \"dense\", units = 8}, {type = \"dense\"}]\n[strategy]\n";
  const std::string stages = "stages = 2\ncuts = [1]\nkind = \"sil\"\ninput = ";
  const Position second{RunPhase::training, 1, 5};
  CHECK(describePhase(second, head + stages + "\"frozen\"\n") == "training of stage 2");
  CHECK(describePhase(second, head + stages + "\"relay\"\n") == "training");
  CHECK(describePhase(second, head + stages + "\"of an earlier version\"\n") == "training");
  CHECK(describePhase({RunPhase::recovery, 0, 5}, head) == "recovery");
}

} // namespace partita::test::train_run_files
