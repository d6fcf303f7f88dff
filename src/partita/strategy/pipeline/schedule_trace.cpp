#include "partita/strategy/pipeline/schedule_trace.hpp"

#include "partita/comm/agree.hpp"
#include "partita/comm/link.hpp"

#include <array>
#include <cstdio>

namespace partita {

ScheduleTrace::ScheduleTrace(const Grid& grid) : _grid(grid) {
  grid.world().barrier();
  _start = linkSeconds();
}

double ScheduleTrace::seconds() const {
  return linkSeconds() - _start;
}

ScheduleTrace::Span::Span(ScheduleTrace* trace, const ExecSpace& space, const char* what, std::int64_t number)
    : _trace(trace), _space(space), _what(what), _number(number) {
  if (_trace != nullptr) _begin = _trace->seconds();
}

ScheduleTrace::Span::~Span() {
  if (_trace == nullptr) return;
  fence(_space, "partita::ScheduleTrace");
  _trace->_events.push_back({_what, _number, _begin, _trace->seconds()});
}

std::string ScheduleTrace::ownEvents() const {
  std::string text;
  for (const Event& event : _events) {
    std::array<char, 160> line{};
    const std::string name =
        event.number < 0 ? event.what : std::string(event.what) + std::to_string(event.number);
    std::snprintf(line.data(), line.size(),
                  "{\"name\": \"%s\", \"cat\": \"%s\", \"ph\": \"X\", \"ts\": %.3f, \"dur\": %.3f, "
                  "\"pid\": %d, \"tid\": %d},\n",
                  name.c_str(), event.what, 1e6 * event.begin, 1e6 * (event.end - event.begin),
                  _grid.replica(), _grid.group());
    text += line.data();
  }
  return text;
}

std::string ScheduleTrace::text() const {
  std::string all;
  for (int rank = 0; rank < _grid.world().size(); ++rank) all += tellAll(_grid.world(), ownEvents(), rank);
  if (!all.empty()) all.resize(all.size() - 2); // the last comma
  return "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n" + all + "\n]}\n";
}

} // namespace partita
