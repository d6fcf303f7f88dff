#include "partita/strategy/schedule_trace.hpp"

#include "partita/comm/chunks.hpp"
#include "partita/config/text.hpp"
#include "partita/config/user_error.hpp"
#include "partita/core/log.hpp"
#include "partita/io/output_file.hpp"

#include <optional>

namespace partita {

namespace {

/// A file whose failure must not end the run: if it cannot be written, that is reported and the rest is
/// dropped.
class TraceFile {
 public:
  explicit TraceFile(const std::string& path) {
    attempt([&] {
      if (!path.empty()) _file.emplace(path);
    });
  }
  void add(const std::string& text) { add(text.data(), text.size()); }
  void add(const char* text, std::size_t size) {
    attempt([&] {
      if (_file) _file->write(text, size);
    });
  }
  void commit() {
    attempt([&] {
      if (_file) _file->commit();
    });
  }

 private:
  template <class Work>
  void attempt(const Work& work) {
    try {
      work();
    } catch (const UserError& error) {
      Log::warning(error.what());
      _file.reset();
    }
  }
  std::optional<OutputFile> _file;
};

} // namespace

ScheduleTrace::ScheduleTrace(const Grid& grid) : _grid(grid), _clock(grid.world()) {}

ScheduleTrace::Span::Span(ScheduleTrace* trace, const ExecSpace& space, const char* what, std::int64_t number)
    : _trace(trace), _space(space), _what(what), _number(number) {
  if (_trace != nullptr) _begin = _trace->_clock.seconds();
}

ScheduleTrace::Span::~Span() {
  if (_trace == nullptr) return;
  fence(_space, "partita::ScheduleTrace");
  _trace->_events.push_back({_what, _number, _begin, _trace->_clock.seconds()});
}

std::string ScheduleTrace::ownEvents() const {
  std::string text;
  for (const Event& event : _events) {
    const std::string name =
        event.number < 0 ? event.what : std::string(event.what) + std::to_string(event.number);
    text += (text.empty() ? "" : ",\n") +
            formatted("{\"name\": \"%s\", \"cat\": \"%s\", \"ph\": \"X\", \"ts\": %.3f, \"dur\": %.3f, "
                      "\"pid\": %d, \"tid\": %d}",
                      name.c_str(), event.what, 1e6 * event.begin, 1e6 * (event.end - event.begin),
                      _grid.replica(), _grid.group() + _grid.plan().groups * _grid.part());
  }
  return text;
}

void ScheduleTrace::write(const std::string& path) const {
  const Communicator& world = _grid.world();
  const std::string own = ownEvents();
  const std::vector<std::int64_t> sizes = world.gather(static_cast<std::int64_t>(own.size()));
  if (world.rank() != 0) return sendChunks(world, Tag::trace, own.data(), own.size());
  TraceFile file(path);
  file.add("{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n" + own);
  bool some = !own.empty();
  for (int rank = 1; rank < world.size(); ++rank) {
    const auto size = static_cast<std::size_t>(sizes[static_cast<std::size_t>(rank)]);
    if (some && size > 0) file.add(",\n");
    some = some || size > 0;
    receiveChunks(world, rank, Tag::trace, size,
                  [&](const char* text, std::size_t count) { file.add(text, count); });
  }
  file.add("\n]}\n");
  file.commit();
}

} // namespace partita
