#pragma once

#include <string>
#include <vector>

namespace partita {

/// Messages to the user: rank 0 prints, all other ranks are silent. Only the main thread calls these.
class Log {
 public:
  static void setRank(int rank);
  static void info(const std::string& line);     ///< standard output
  static void warning(const std::string& text);  ///< standard error, after "warning: "
  static void warnOnce(const std::string& text); ///< unless this rank has warned in these words before
  static void error(const std::string& line);    ///< standard error, after "partita: "
  static std::vector<std::string> warnings();    ///< the first hundred of this rank
  /// Redrawn in place on a terminal; in a file, a line of its own, but at most ten per second.
  static void progress(const std::string& line);

  /// Why part of this rank's output did not reach standard output; empty if all of it did.
  static std::string failure();
};

/// "12.3 MB", "540 B": decimal units, three significant digits.
std::string formatBytes(double bytes);
/// "1.25 G", "476 k".
std::string formatCount(double value);
/// "187 GFLOP/s".
std::string formatFlops(double flops_per_second);
/// "1:02:03" or "4:05" or "12.3 s"; from 10^9 seconds on "1.2e+04 days".
std::string formatSeconds(double seconds);
/// "rank 3", "ranks 0-3,8": for increasing numbers.
std::string formatRanks(const std::vector<int>& ranks);
/// "0-3,8".
std::string formatRanges(const std::vector<int>& numbers);

} // namespace partita
