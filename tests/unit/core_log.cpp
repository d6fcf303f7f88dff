#include "partita/core/log.hpp"

#include <cstdio>
#include <fcntl.h>
#include <unistd.h>

#include "data_files.hpp"
#include "support/catch.hpp"

namespace partita::test::core_log {

TEST_CASE("Bytes are shown in decimal units with three digits", "[core]") {
  CHECK(formatBytes(0) == "0 B");
  CHECK(formatBytes(540) == "540 B");
  CHECK(formatBytes(999.6) == "1.00 kB");
  CHECK(formatBytes(1234) == "1.23 kB");
  CHECK(formatBytes(12345678) == "12.3 MB");
  CHECK(formatBytes(2.5e9) == "2.50 GB");
  CHECK(formatBytes(999.4e12) == "999 TB");
}

TEST_CASE("Counts are shown with a prefix", "[core]") {
  CHECK(formatCount(7) == "7");
  CHECK(formatCount(476207) == "476 k");
  CHECK(formatCount(1.25e9) == "1.25 G");
  CHECK(formatCount(0.5) == "0.50");
}

TEST_CASE("Ranks that follow one another are one range", "[core]") {
  CHECK(formatRanks({3}) == "rank 3");
  CHECK(formatRanks({0, 1, 2, 5, 7, 8}) == "ranks 0-2,5,7-8");
  CHECK(formatRanges({0, 1, 0, 1}) == "0-1,0-1");
}

TEST_CASE("Seconds are shown as a person reads them", "[core]") {
  CHECK(formatSeconds(0) == "0.0 s");
  CHECK(formatSeconds(12.34) == "12.3 s");
  CHECK(formatSeconds(59.94) == "59.9 s");
  CHECK(formatSeconds(59.96) == "1:00");
  CHECK(formatSeconds(245) == "4:05");
  CHECK(formatSeconds(3599.7) == "1:00:00");
  CHECK(formatSeconds(3723) == "1:02:03");
}

TEST_CASE("Warnings are kept, the first hundred", "[core]") {
  const std::size_t before = Log::warnings().size();
  Log::warning("of a test");
  REQUIRE(Log::warnings().size() == before + 1);
  CHECK(Log::warnings().back() == "of a test");
  for (int i = 0; i < 100; ++i) Log::warning("of a test, again");
  CHECK(Log::warnings().size() == 100);
}

TEST_CASE("A warning that is given once is not repeated, however many there have been", "[core]") {
  const ScratchFolder folder;
  const auto said = [&](const auto& warn) {
    std::fflush(stderr);
    const int before = dup(STDERR_FILENO),
              file = open(folder.path("log").c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600);
    dup2(file, STDERR_FILENO);
    warn();
    dup2(before, STDERR_FILENO);
    close(before);
    close(file);
    return folder.read("log");
  };
  for (int i = 0; i < 100; ++i) Log::warning("of a test, again"); // no more are kept
  CHECK(said([] { Log::warnOnce("of\ta test, once"); }) == "warning: of a test, once\n");
  CHECK(said([] { Log::warnOnce("of\ta test, once"); }).empty());
  CHECK(said([] { Log::warnOnce("of a test, again"); }).empty());
  CHECK(said([] { Log::warning("of\ta test, once"); }) == "warning: of a test, once\n");
}

} // namespace partita::test::core_log
