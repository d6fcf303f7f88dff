#include "partita/strategy/pipeline/schedule_trace.hpp"

#include "partita/comm/link.hpp"
#include "partita/config/user_error.hpp"
#include "partita/core/log.hpp"
#include "partita/io/output_file.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>

namespace partita {

namespace {

constexpr int trace_tag = 9;
constexpr std::size_t piece_size = std::size_t{1} << 24;

void sendText(const Communicator& comm, const std::string& text) {
  auto size = static_cast<std::int64_t>(text.size());
  PARTITA_MPI(MPI_Send(&size, 1, MPI_INT64_T, 0, trace_tag, comm.get()));
  for (std::size_t begin = 0; begin < text.size(); begin += piece_size) {
    const auto count = static_cast<int>(std::min(piece_size, text.size() - begin));
    PARTITA_MPI(MPI_Send(text.data() + begin, count, MPI_CHAR, 0, trace_tag, comm.get()));
  }
}

/// Calls take(is it the first, piece).
template <class Take>
void receiveText(const Communicator& comm, int rank, const Take& take) {
  std::int64_t size = 0;
  PARTITA_MPI(MPI_Recv(&size, 1, MPI_INT64_T, rank, trace_tag, comm.get(), MPI_STATUS_IGNORE));
  std::string piece;
  for (std::size_t begin = 0, end = static_cast<std::size_t>(size); begin < end; begin += piece_size) {
    piece.resize(std::min(piece_size, end - begin));
    PARTITA_MPI(MPI_Recv(piece.data(), static_cast<int>(piece.size()), MPI_CHAR, rank, trace_tag, comm.get(),
                         MPI_STATUS_IGNORE));
    take(begin == 0, piece);
  }
}

/// A file that is not worth the run: where it cannot be written that is told, and the rest of it is dropped.
class TraceFile {
 public:
  explicit TraceFile(const std::string& path) {
    attempt([&] {
      if (!path.empty()) _file.emplace(path);
    });
  }
  void add(const std::string& text) {
    attempt([&] {
      if (_file) _file->write(text);
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
                  "\"pid\": %d, \"tid\": %d}",
                  name.c_str(), event.what, 1e6 * event.begin, 1e6 * (event.end - event.begin),
                  _grid.replica(), _grid.group());
    text += (text.empty() ? "" : ",\n") + std::string(line.data());
  }
  return text;
}

void ScheduleTrace::write(const std::string& path) const {
  const Communicator& world = _grid.world();
  const std::string own = ownEvents();
  if (world.rank() != 0) return sendText(world, own);
  TraceFile file(path);
  file.add("{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n" + own);
  bool some = !own.empty();
  for (int rank = 1; rank < world.size(); ++rank) {
    receiveText(world, rank, [&](bool first, const std::string& piece) {
      if (first && some && !piece.empty()) file.add(",\n");
      some = some || !piece.empty();
      file.add(piece);
    });
  }
  file.add("\n]}\n");
  file.commit();
}

} // namespace partita
