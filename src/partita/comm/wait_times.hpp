#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace partita {

/// What ranks wait for in the steps of a training (`WaitedFor::what`): the measured times of these waits are
/// compared with predictions.
namespace waits {
constexpr const char* const activations = "activations";
constexpr const char* const activation_gradients = "gradients of activations";
constexpr const char* const batch_statistics = "sum of batch statistics";
constexpr const char* const gradients = "sum of gradients";
constexpr const char* const parameters = "sum of parameters";
constexpr const char* const part_values = "values of other parts";
constexpr const char* const class_sums = "sums over classes";
constexpr const char* const range_sums = "sums of ranges";
constexpr const char* const part_sums = "sums over parts";
constexpr const char* const halos = "halos";
constexpr const char* const evaluated_activations = "activations to evaluate";
} // namespace waits

/// Seconds that the main thread has waited for other ranks since the last reset, by `WaitedFor::what`.
std::map<std::string, double> waitTimes();
double secondsWaited(); ///< their sum; does not allocate
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
