#include "partita/io/write_progress.hpp"
#include "partita/train/write_watch.hpp"

#include <functional>

#include "data_files.hpp"
#include "support/catch.hpp"

namespace partita::test::train_write_watch {

namespace {

constexpr std::int64_t patience = 3; // s
constexpr double longer = 4.0;       // s; also longer than the watch takes to look at the file

/// Returns whether the watch has called the file stalled within `seconds`, with `work` ten times a second.
bool stallsWithin(double seconds, WriteWatch& watch, const std::function<void()>& work) {
  const auto begin = Clock::now();
  while (secondsSince(begin) < seconds) {
    work();
    if (watch.stalled()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return false;
}

const auto nothing = [] {};

} // namespace

TEST_CASE("Writing may take long, as long as this rank writes", "[train]") {
  const ScratchFolder folder;
  WriteWatch watch(folder.write("file.h5", "all that there will be"), patience);
  CHECK_FALSE(stallsWithin(longer, watch, [] { ++bytes_written; }));
  CHECK(stallsWithin(30.0, watch, nothing));
}

TEST_CASE("Writing may take long, as long as other ranks write, even if the size does not change",
          "[train]") {
  const ScratchFolder folder;
  const std::string file = folder.write("file.h5", "0");
  WriteWatch watch(file, patience);
  int count = 0;
  CHECK_FALSE(stallsWithin(longer, watch, [&] { std::ofstream(file) << count++ % 10; }));
  CHECK(stallsWithin(30.0, watch, nothing));
}

TEST_CASE("A file that is not there yet may stall, but not without patience", "[train]") {
  const ScratchFolder folder;
  WriteWatch watch(folder.path("file.h5"), patience), endless(folder.path("file.h5"), 0);
  CHECK(stallsWithin(30.0, watch, nothing));
  CHECK_FALSE(endless.stalled());
}

} // namespace partita::test::train_write_watch
