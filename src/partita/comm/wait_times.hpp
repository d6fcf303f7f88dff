#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace partita {

/// Seconds that the main thread has waited for other ranks since the last reset, by `WaitedFor::what`.
std::map<std::string, double> waitTimes();
void resetWaitTimes();

/// Waits during the lifetime of the object do not count.
class UncountedWaits {
 public:
  UncountedWaits();
  ~UncountedWaits();
  UncountedWaits(const UncountedWaits&) = delete;
  UncountedWaits& operator=(const UncountedWaits&) = delete;

 private:
  std::vector<std::pair<const char*, double>> _before;
};

} // namespace partita
