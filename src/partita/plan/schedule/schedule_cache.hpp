#pragma once

#include "partita/plan/schedule/operator_schedule.hpp"

#include <array>
#include <map>
#include <optional>

namespace partita {

/// Schedules of components, found by operators, latencies, edges, cores and options. Only schedules that do
/// not depend on the speed of the machine may be added.
class ScheduleCache {
 public:
  /// 128 bits of a hash of everything on which a schedule depends.
  using Key = std::array<std::uint64_t, 2>;

  static Key keyOf(const ScheduleTask& task, const ScheduleOptions& options);

  std::optional<OperatorSchedule> find(const Key& key) const;
  void add(const Key& key, const OperatorSchedule& schedule) { _schedules[key] = schedule; }
  /// Adds all schedules of another cache. They replace schedules with the same keys, since the
  /// older one may not fit its operators.
  void add(const ScheduleCache& other) {
    for (const auto& [key, schedule] : other._schedules) add(key, schedule);
  }
  std::size_t size() const { return _schedules.size(); }

  /// All schedules as text for a file; numbers are exact.
  std::string text() const;
  /// Adds the schedules of such a text, except a last one that was cut off; `name` is the file in messages.
  /// Throws UserError with the line.
  void read(const std::string& text, const std::string& name);

 private:
  std::map<Key, OperatorSchedule> _schedules; ///< ordered, so that a file does not depend on chance
};

} // namespace partita
