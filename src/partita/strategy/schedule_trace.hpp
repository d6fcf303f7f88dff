#pragma once

#include "partita/comm/grid.hpp"
#include "partita/comm/link.hpp"
#include "partita/core/types.hpp"

#include <string>
#include <vector>

namespace partita {

/// Which rank computed what, and when: the operations of all ranks as a trace in Chrome's format
/// (trace.json), which Perfetto (ui.perfetto.dev) and chrome://tracing display.
class ScheduleTrace {
 public:
  /// Synchronises all ranks; times count from here. Collective.
  explicit ScheduleTrace(const Grid& grid);

  /// An operation, recorded and fenced when the span ends; with a null `trace`, neither happens.
  class Span {
   public:
    Span(ScheduleTrace* trace, const ExecSpace& space, const char* what, std::int64_t number);
    ~Span();
    Span(const Span&) = delete;
    Span& operator=(const Span&) = delete;

   private:
    ScheduleTrace* _trace;
    ExecSpace _space;
    const char* _what;
    std::int64_t _number;
    double _begin = 0.0;
  };

  /// Writes the events of all ranks as one JSON file on rank 0, which receives them from one rank after
  /// another. A failure to write only causes a warning. Collective.
  void write(const std::string& path) const;

 private:
  struct Event {
    const char* what; ///< a literal
    std::int64_t number;
    double begin, end; ///< s, by the shared clock
  };
  std::string ownEvents() const; ///< with commas between them

  const Grid& _grid;
  SharedClock _clock;
  std::vector<Event> _events;
};

} // namespace partita
