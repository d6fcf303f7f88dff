#include "partita/comm/agree.hpp"
#include "partita/io/write_progress.hpp"
#include "partita/train/write_watch.hpp"

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "data_files.hpp"
#include "support/catch.hpp"

namespace partita::test::train_write_watch {

namespace {

constexpr std::int64_t patience = 3; // s
constexpr int longer = 4;            // s

/// A watch for which time passes only as the tests say.
class TimedWatch {
 public:
  TimedWatch(const std::string& file, std::int64_t patience)
      : _watch(file, patience, [this] { return _now; }) {}
  TimedWatch(const TimedWatch&) = delete;
  TimedWatch& operator=(const TimedWatch&) = delete;

  /// Returns whether the watch has called the file stalled within `seconds`, with `work` ten times a second.
  bool stallsWithin(int seconds, const std::function<void()>& work) {
    for (int i = 0; i < 10 * seconds; ++i) {
      work();
      if (_watch.stalled()) return true;
      _now += 0.1;
    }
    return false;
  }
  void suspend(double seconds) { _now += seconds; }

 private:
  double _now = 0.0;
  WriteWatch _watch;
};

const auto nothing = [] {};

} // namespace

TEST_CASE("Writing may take long, as long as this rank writes", "[train]") {
  const ScratchFolder folder;
  TimedWatch watch(folder.write("file.h5", "all that there will be"), patience);
  CHECK_FALSE(watch.stallsWithin(longer, [] { ++bytes_written; }));
  CHECK(watch.stallsWithin(30, nothing));
}

TEST_CASE("Writing may take long, as long as other ranks write, even if the size does not change",
          "[train]") {
  const ScratchFolder folder;
  const std::string file = folder.write("file.h5", "0");
  TimedWatch watch(file, patience);
  int count = 0;
  CHECK_FALSE(watch.stallsWithin(longer, [&] {
    std::ofstream(file) << ++count % 10;
    std::filesystem::last_write_time(file, std::filesystem::file_time_type(std::chrono::seconds(count)));
  }));
  CHECK(watch.stallsWithin(30, nothing));
}

TEST_CASE("A suspension of the whole job is not a stall", "[train]") {
  const ScratchFolder folder;
  TimedWatch watch(folder.write("file.h5", "all that there will be"), patience);
  CHECK(watch.stallsWithin(30, nothing)); // now the first look at the file is over
  CHECK_FALSE(watch.stallsWithin(1, [] { ++bytes_written; }));
  watch.suspend(36000.0);
  CHECK_FALSE(watch.stallsWithin(1, nothing));
  CHECK(watch.stallsWithin(30, nothing));
}

TEST_CASE("A file that is not there yet may stall, but not without patience", "[train]") {
  const ScratchFolder folder;
  TimedWatch watch(folder.path("file.h5"), patience), endless(folder.path("file.h5"), 0);
  CHECK_FALSE(watch.stallsWithin(static_cast<int>(patience), nothing));
  CHECK(watch.stallsWithin(30, nothing));
  CHECK_FALSE(endless.stallsWithin(30, nothing));
}

TEST_CASE("An agreed error of a watched thread is counted in the thread that gets it", "[train]") {
  const auto fails = [](const std::function<void()>& work) { doWatched("file.h5", 0, true, work); };
  for (const bool by_system : {true, false}) {
    try {
      fails([&] { throw AgreedError({"one", "two"}, by_system); });
      FAIL_CHECK("no error");
    } catch (const AgreedError& error) {
      CHECK(AgreedError::underWay());
      CHECK(error.messages() == std::vector<std::string>{"one", "two"});
      CHECK(error.bySystem() == by_system);
    }
    CHECK_FALSE(AgreedError::underWay());
  }
  try {
    throw AgreedError({"later"});
  } catch (const AgreedError&) {
    CHECK(AgreedError::underWay());
  }
  CHECK_THROWS_WITH(fails([] { throw std::runtime_error("of another kind"); }), "of another kind");
  int runs = 0;
  fails([&] { ++runs; });
  CHECK(runs == 1);
}

} // namespace partita::test::train_write_watch
