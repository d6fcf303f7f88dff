#pragma once

#include "partita/plan/placement/operator_schedule.hpp"

#include <array>
#include <map>
#include <optional>

namespace partita {

/// Schedules of components by their operators, latencies, edges and cores, and by the options with which they
/// were found. It may only hold schedules that do not depend on the speed of the machine.
class ScheduleCache {
 public:
  /// 128 bits of a hash of everything on which a schedule depends.
  using Key = std::array<std::uint64_t, 2>;

  static Key keyOf(const ScheduleTask& task, const ScheduleOptions& options);

  std::optional<OperatorSchedule> find(const Key& key) const;
  void add(const Key& key, const OperatorSchedule& schedule) { _schedules[key] = schedule; }
  std::size_t size() const { return _schedules.size(); }

  /// All schedules as the content of a file; numbers are stored exactly.
  std::string text() const;
  /// Adds the schedules of such a text; `name` is the file in messages. Throws UserError with the line.
  void read(const std::string& text, const std::string& name);

 private:
  std::map<Key, OperatorSchedule> _schedules; ///< ordered, so that a file does not depend on chance
};

} // namespace partita
