#include "partita/config/deck.hpp"
#include "partita/config/write_deck.hpp"
#include "partita/io/earlier_output.hpp"
#include "partita/io/write_run_file.hpp"
#include "partita/train/run_directory.hpp"

#include <cstdlib>
#include <filesystem>
#include <memory>

#include "data_files.hpp"
#include "support/catch.hpp"

namespace partita::test::train_run_directory {

namespace {

namespace fs = std::filesystem;

/// An effective deck.
std::string deckWith(int seed) {
  const std::string text =
      "[network]\nlayers = [{type = \"dense\", units = 8, repeat = 2}, {type = \"dense\"}]\n";
  return writeDeck(parseDeck(text, "deck", {"run/seed=" + std::to_string(seed)}));
}

/// A result of a run with this deck.
void writeResult(const std::string& path, const std::string& deck) {
  RunFileContent content;
  content.facts = {deck, 3, {4}, {0.25F}, {4.0F}, {}, {{"version", "1"}}};
  writeRunFile(Communicator::world(), path, content, 0);
}

/// Prepares a run that begins afresh.
void prepare(const std::string& path, const std::string& deck) {
  const Communicator world = Communicator::world();
  const RunDirectory directory(world, path);
  directory.prepare(world, deck, {}, {});
}

} // namespace

TEST_CASE("A deck that differs from that of the results is set aside", "[train]") {
  const ScratchFolder folder;
  writeResult(folder.path("parameters.h5"), deckWith(3));
  folder.write("deck.toml", deckWith(4)); // the form is that of the program
  prepare(folder.path(), deckWith(5));
  CHECK(folder.read("deck.toml.superseded") == deckWith(4));
  CHECK(folder.read("deck.toml") == deckWith(5));
}

TEST_CASE("A deck that the program wrote is replaced", "[train]") {
  for (const int seed : {3, 4}) { // of the parameters, of a checkpoint that is left of a longer run
    const ScratchFolder folder;
    fs::create_directories(folder.path("checkpoints"));
    writeResult(folder.path("parameters.h5"), deckWith(3));
    writeResult(folder.path("checkpoints/step-000000010.h5"), deckWith(4));
    folder.write("deck.toml", deckWith(seed));
    prepare(folder.path(), deckWith(5));
    CHECK_FALSE(fs::exists(folder.path("deck.toml.superseded")));
    CHECK(folder.read("deck.toml") == deckWith(5));
  }
}

TEST_CASE("Without results the form of a deck tells whether it was edited", "[train]") {
  const ScratchFolder folder;
  folder.write("deck.toml", deckWith(3));
  prepare(folder.path(), deckWith(4));
  CHECK_FALSE(fs::exists(folder.path("deck.toml.superseded")));
  folder.write("deck.toml", deckWith(4) + "# mine\n");
  prepare(folder.path(), deckWith(5));
  CHECK(folder.read("deck.toml.superseded") == deckWith(4) + "# mine\n");
}

TEST_CASE("A deck of `plan deck` in the directory counts as unedited until somebody edits it", "[train]") {
  const ScratchFolder folder;
  const std::string planned = sealed(deckWith(3), deckOutput());
  folder.write("deck.toml", planned);
  prepare(folder.path(), deckWith(3)); // uses it as it is
  CHECK(folder.read("deck.toml") == planned);
  prepare(folder.path(), deckWith(4));
  CHECK_FALSE(fs::exists(folder.path("deck.toml.superseded")));
  CHECK(folder.read("deck.toml") == deckWith(4));
  folder.write("deck.toml", planned + "# mine\n");
  prepare(folder.path(), deckWith(5));
  CHECK(folder.read("deck.toml.superseded") == planned + "# mine\n");
}

TEST_CASE("A deck is not written through a link", "[train]") {
  const ScratchFolder folder;
  const std::string link = folder.path("run/deck.toml");
  for (const char* name : {"other", "run"}) fs::create_directories(folder.path(name));
  folder.write("other/deck.toml", deckWith(3));
  fs::create_symlink("../other/deck.toml", link);
  prepare(folder.path("run"), deckWith(4));
  CHECK(folder.read("other/deck.toml") == deckWith(3));
  CHECK(fs::is_symlink(link + ".superseded"));
  CHECK_FALSE(fs::is_symlink(link));
  CHECK(folder.read("run/deck.toml") == deckWith(4));
}

TEST_CASE("A run leaves the lock of another run that uses its path", "[train]") {
  const ScratchFolder folder;
  const std::string path = folder.path("run"), lock = path + "/" + lock_name;
  const Communicator world = Communicator::world();
  auto first = std::make_unique<RunDirectory>(world, path);
  CHECK_FALSE(first->moved());
  fs::rename(path, folder.path("elsewhere"));
  CHECK(first->moved());
  fs::create_directory_symlink("elsewhere", path);
  CHECK_FALSE(first->moved()); // the path still leads there
  fs::remove(path);

  auto second = std::make_unique<RunDirectory>(world, path);
  CHECK(first->moved());
  CHECK_FALSE(second->moved());
  first.reset();
  CHECK(fs::exists(lock));
  CHECK_FALSE(second->moved());
  second.reset();
  CHECK_FALSE(fs::exists(lock));
}

TEST_CASE("An empty TMPDIR is like none", "[train]") {
  const char* const before = std::getenv("TMPDIR");
  const std::string kept = before != nullptr ? before : "";
  const RunDirectory none(Communicator::world(), "");
  setenv("TMPDIR", "/a folder", 1);
  CHECK(none.scratch() == "/a folder");
  setenv("TMPDIR", "", 1);
  CHECK(none.scratch() == "/tmp");
  unsetenv("TMPDIR");
  CHECK(none.scratch() == "/tmp");
  if (before != nullptr) setenv("TMPDIR", kept.c_str(), 1);
}

TEST_CASE("No run directory cannot be moved", "[train]") {
  CHECK_FALSE(RunDirectory(Communicator::world(), "").moved());
}

} // namespace partita::test::train_run_directory
