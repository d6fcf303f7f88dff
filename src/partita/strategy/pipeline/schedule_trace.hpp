#pragma once

#include "partita/comm/grid.hpp"
#include "partita/comm/shared_clock.hpp"
#include "partita/core/types.hpp"

#include <string>
#include <vector>

namespace partita {

/// Who computed what, when: the operations of all ranks as a trace in Chrome's format (trace.json), which
/// Perfetto (ui.perfetto.dev) and chrome://tracing show.
class ScheduleTrace {
 public:
  /// Times count from here, where all ranks come together. Collective.
  explicit ScheduleTrace(const Grid& grid);

  /// An operation under way, waited for at its end; `trace` null: neither noted nor waited for.
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

  /// Writes the events of all ranks as one JSON file, on rank 0, which takes them in one rank after the
  /// other; a disk that has no room for it is told of. Collective.
  void write(const std::string& path) const;

 private:
  struct Event {
    const char* what; ///< a literal
    std::int64_t number;
    double begin, end; ///< s of the clock
  };
  std::string ownEvents() const; ///< with commas between them

  const Grid& _grid;
  SharedClock _clock;
  std::vector<Event> _events;
};

} // namespace partita
