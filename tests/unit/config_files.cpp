#include "partita/config/deck.hpp"
#include "partita/config/files.hpp"
#include "partita/config/user_error.hpp"
#include "partita/config/write_deck.hpp"

#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "support/catch.hpp"

namespace partita::test::config_files {

namespace {

namespace fs = std::filesystem;

/// A separate folder for each test, removed at its end.
struct Folder {
  fs::path path = fs::temp_directory_path() / ("partita-config-" + std::to_string(getpid()));
  Folder() { fs::create_directories(path); }
  ~Folder() { fs::remove_all(path); }

  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path / name, std::ios::binary) << text;
    return (path / name).string();
  }
};

std::string errorOf(const std::string& path) {
  try {
    loadDeck(path, {});
  } catch (const UserError& error) {
    REQUIRE(error.messages().size() == 1);
    return error.what();
  }
  return {};
}

/// Replaces, inserts or removes a piece of the text; the pieces are fragments of decks.
std::string mutated(std::string text, std::mt19937& random) {
  static const std::vector<std::string> pieces{"=",
                                               "[",
                                               "]",
                                               "{",
                                               "}",
                                               "\"",
                                               "'",
                                               "#",
                                               "\n",
                                               ",",
                                               ".",
                                               "-",
                                               "0",
                                               "1e999",
                                               "-1",
                                               "true",
                                               "nan",
                                               "inf",
                                               "[[",
                                               "]]",
                                               "\"\"\"",
                                               "1979-05-27",
                                               "\\u",
                                               "\x01",
                                               "/",
                                               "relay",
                                               "\r",
                                               "\xFF",
                                               "seed",
                                               "[run]",
                                               "cut",
                                               "0x7fff",
                                               "1_000",
                                               "units",
                                               "dense",
                                               "layers",
                                               "_",
                                               "é",
                                               "\"\\n",
                                               "= 1\n=",
                                               "{}=[]",
                                               "type",
                                               "=[[",
                                               "9e9",
                                               "[run.a]",
                                               "kind",
                                               "12345678901234567890"};
  for (std::size_t changes = 1 + random() % 3; changes > 0; --changes) {
    const std::size_t at = random() % (text.size() + 1);
    const std::size_t length = random() % 2 == 0 ? 0 : 1 + random() % 12;
    const std::string& piece = pieces[random() % pieces.size()];
    text.replace(at, length, random() % 4 == 0 ? "" : piece);
  }
  return text;
}

} // namespace

TEST_CASE("A deck that cannot be read is reported in one line", "[config]") {
  const Folder folder;
  CHECK(errorOf((folder.path / "none.toml").string()) ==
        (folder.path / "none.toml").string() + ": no such deck");
  std::ofstream(folder.path / "deck.toml").close();
  CHECK(errorOf((folder.path / "dekc.toml").string()) ==
        (folder.path / "dekc.toml").string() + ": no such deck; did you mean 'deck.toml'?");
  for (const std::string word : {"run/seed=2", "run.seed=2", "run/sed=2", "strategy/cuts=[2,4]"})
    CHECK(errorOf(word) ==
          word + ": no such deck; the deck comes first, and then overrides such as this one");
  CHECK(errorOf("runs/lr=3.toml") == "runs/lr=3.toml: no such deck; there is no folder 'runs'");
  CHECK(errorOf(folder.path.string()) == folder.path.string() + ": is a folder, not a deck");
  const std::string pipe = (folder.path / "pipe").string();
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(errorOf(pipe) == pipe + ": is not a regular file");
  const std::string empty = folder.write("empty.toml", "");
  CHECK(errorOf(empty).find(empty + ": network/layers: missing") == 0);
  const std::string locked = folder.write("locked.toml", "[run]\n");
  fs::permissions(locked, fs::perms::none);
  if (!std::ifstream(locked)) CHECK(errorOf(locked) == locked + ": cannot be read: Permission denied");
}

TEST_CASE("A deck is read from its file", "[config]") {
  const Folder folder;
  const std::string path =
      folder.write("a.toml", "[run]\nseed = 5\n[network]\nlayers = [{type = \"dense\"}]");
  CHECK(loadDeck(path, {}).run.seed == 5);
  CHECK(loadDeck(path, {"run/seed=6"}).run.seed == 6);
}

TEST_CASE("A damaged deck is read or refused in single lines, nothing else", "[config]") {
  RunConfig config;
  LayerSpec hidden;
  hidden.dense.units = 16;
  hidden.activation = Activation::relu;
  hidden.repeat = 3;
  config.network.layers = {hidden, LayerSpec{}};
  config.strategy.kind = StrategyKind::sil;
  const std::string short_deck =
      "[network]\nlayers = [{type = \"dense\", units = 16, repeat = 3}, {type = \"dense\"}]\n"
      "[strategy]\nkind = \"sil\"\nstages = 2\ncuts = [3]\n[data]\npath = 'a'\n"
      "[optimiser]\nlearning_rate = 1e-3\nnesterov = false\n";
  std::mt19937 random(7);
  int refused = 0, read = 0;
  for (int i = 0; i < 4000; ++i) {
    const std::string text = mutated(i % 8 < 2 ? writeDeck(config) : short_deck, random);
    INFO(text);
    try {
      const std::string shell = "strategy/cuts=[2]";
      parseDeck(text, "deck.toml", {i % 2 == 0 ? shell : mutated(shell, random)});
      ++read;
    } catch (const UserError& error) {
      ++refused;
      REQUIRE_FALSE(error.messages().empty());
      for (const std::string& message : error.messages())
        REQUIRE(message.find_first_of("\n\r") == std::string::npos);
    }
  }
  CHECK(refused > 1000);
  CHECK(read > 50);
}

namespace {

/// In its scope, a signal comes every `microseconds`, as from a profiler.
class Alarms {
 public:
  explicit Alarms(int microseconds) : _handler(std::signal(SIGALRM, [](int) {})) { set(microseconds); }
  ~Alarms() {
    set(0);
    std::signal(SIGALRM, _handler);
  }
  Alarms(const Alarms&) = delete;
  Alarms& operator=(const Alarms&) = delete;

 private:
  static void set(int microseconds) {
    const itimerval times{{0, microseconds}, {0, microseconds}};
    setitimer(ITIMER_REAL, &times, nullptr);
  }
  void (*_handler)(int);
};

} // namespace

TEST_CASE("Blocks of a file are allocated in spite of signals", "[config]") {
  constexpr std::uint64_t from = 7, bytes = (std::uint64_t{40} << 20) + 1;
  const Folder folder;
  // In memory, a signal interrupts the call of some versions of Linux.
  for (const int file :
       {open(folder.write("blocks", "").c_str(), O_RDWR), memfd_create("blocks", MFD_CLOEXEC)}) {
    REQUIRE(file >= 0);
    {
      const Alarms alarms(1000);
      CHECK(allocateBlocks(file, from, bytes) == 0);
    }
    struct stat found {};
    REQUIRE(fstat(file, &found) == 0);
    CHECK(found.st_size == static_cast<off_t>(from + bytes));
    CHECK(found.st_blocks * 512 >= found.st_size);
    close(file);
    CHECK(allocateBlocks(file, 0, bytes) == EBADF);
  }
}

} // namespace partita::test::config_files
