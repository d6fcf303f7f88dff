#include "partita/core/log.hpp"

#include "partita/config/text.hpp"
#include "partita/core/clock.hpp"

#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <set>
#include <unistd.h>

namespace partita {

namespace {

int log_rank = 0;
bool bar_open =
    false; // an unfinished progress line is on the terminal and must be ended before any other output

constexpr std::size_t most_warnings = 100; // kept at most
std::vector<std::string> kept_warnings;
std::set<std::string> said_warnings; // all of them

int output_failure = 0; // errno of the first write that failed

/// Writes the whole text at once. MPICH turns buffering off, in which case fputs fails but fflush does not.
void print(const std::string& text) {
  errno = 0;
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
  if (std::ferror(stdout) != 0 && output_failure == 0) output_failure = errno != 0 ? errno : EIO;
}

void endBar() {
  if (bar_open) print("\n");
  bar_open = false;
}

void complain(const char* who, const std::string& line) {
  if (log_rank != 0) return;
  endBar();
  std::fprintf(stderr, "%s: %s\n", who, line.c_str());
}

std::string scaled(double value, const char* unit) {
  static const std::array<const char*, 6> prefixes{"", "k", "M", "G", "T", "P"};
  std::size_t prefix = 0;
  while (std::abs(value) >= 999.5 && prefix + 1 < prefixes.size()) {
    value /= 1000.0;
    ++prefix;
  }
  const int digits = prefix == 0 && value == std::floor(value) ? 0
                     : std::abs(value) < 9.995                 ? 2
                     : std::abs(value) < 99.95                 ? 1
                                                               : 0;
  return formatted("%.*f %s%s", digits, value, prefixes[prefix], unit);
}

} // namespace

void Log::setRank(int rank) {
  log_rank = rank;
}

void Log::info(const std::string& line) {
  if (log_rank != 0) return;
  endBar();
  print(line + '\n');
}

std::string Log::failure() {
  print("");
  return output_failure != 0 ? std::strerror(output_failure) : "";
}

namespace {

std::string withCleanLines(const std::string& text) {
  std::vector<std::string> lines = split(text, '\n'); // the watchdog adds a table
  for (std::string& line : lines) line = asLine(line);
  return joined(lines, "\n");
}

} // namespace

void Log::warning(const std::string& text) {
  const std::string shown = withCleanLines(text);
  complain("warning", shown);
  if (kept_warnings.size() < most_warnings) kept_warnings.push_back(shown);
  said_warnings.insert(shown);
}

void Log::warnOnce(const std::string& text) {
  if (said_warnings.count(withCleanLines(text)) == 0) warning(text);
}

std::vector<std::string> Log::warnings() {
  return kept_warnings;
}

void Log::error(const std::string& line) {
  complain("partita", line);
}

namespace {

/// A file gets at most ten lines per second, however short the steps are.
bool comesTooSoon() {
  constexpr double pause = 0.1; // s
  static auto last = Clock::time_point::min();
  const bool soon = last != Clock::time_point::min() && secondsSince(last) < pause;
  if (!soon) last = Clock::now();
  return soon;
}

} // namespace

void Log::progress(const std::string& line) {
  if (log_rank != 0) return;
  // Open MPI gives rank 0 a terminal of its own for standard output, even if that is redirected, but not for
  // standard error.
  if (isatty(STDOUT_FILENO) == 0 || isatty(STDERR_FILENO) == 0) {
    if (!comesTooSoon()) info(line);
    return;
  }
  print("\r\033[K" + line);
  bar_open = true;
}

std::string formatBytes(double bytes) {
  return scaled(bytes, "B");
}

std::string formatCount(double value) {
  std::string text = scaled(value, "");
  if (text.back() == ' ') text.pop_back();
  return text;
}

std::string formatFlops(double flops_per_second) {
  return scaled(flops_per_second, "FLOP/s");
}

std::string formatSeconds(double seconds) {
  constexpr double longest = 1e9, day = 86400.0;   // s
  const bool shown_in_days = !(seconds < longest); // also NaN
  if (shown_in_days) return formatted("%.2g days", seconds / day);
  const long whole = std::lround(seconds);
  if (seconds < 59.95) return formatted("%.1f s", seconds);
  if (whole < 3600) return formatted("%ld:%02ld", whole / 60, whole % 60);
  return formatted("%ld:%02ld:%02ld", whole / 3600, whole / 60 % 60, whole % 60);
}

std::string formatRanges(const std::vector<int>& numbers) {
  std::string text;
  for (std::size_t begin = 0, end = 0; begin < numbers.size(); begin = end) {
    for (end = begin + 1; end < numbers.size() && numbers[end] == numbers[end - 1] + 1; ++end) continue;
    text += (begin > 0 ? "," : "") + std::to_string(numbers[begin]);
    if (end - begin > 1) text += "-" + std::to_string(numbers[end - 1]);
  }
  return text;
}

std::string formatRanks(const std::vector<int>& ranks) {
  return (ranks.size() == 1 ? "rank " : "ranks ") + formatRanges(ranks);
}

} // namespace partita
