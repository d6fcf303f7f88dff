#include "partita/plan/schedule/schedule_cache.hpp"

#include "partita/config/number_words.hpp"
#include "partita/config/row_reader.hpp"
#include "partita/config/text.hpp"

#include <algorithm>
#include <cstring>

namespace partita {

namespace {

const RowFormat format{"partita schedules", 2, "is not a file of schedules", "is not a schedule"};

/// Two hashes of the same words with different mixing (the finaliser of splitmix64).
class Hash {
 public:
  void add(std::uint64_t word) {
    for (std::size_t i = 0; i < _sums.size(); ++i) {
      std::uint64_t mixed = _sums[i] + word + (i + 1) * 0x9e3779b97f4a7c15ULL;
      mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9ULL;
      mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebULL;
      _sums[i] = mixed ^ mixed >> 31;
    }
  }
  void add(double value) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    add(bits);
  }
  const ScheduleCache::Key& key() const { return _sums; }

 private:
  ScheduleCache::Key _sums{1, 2};
};

std::string hexText(double value) {
  return formatted(" %a", value);
}

} // namespace

ScheduleCache::Key ScheduleCache::keyOf(const ScheduleTask& task, const ScheduleOptions& options) {
  Hash hash;
  hash.add(static_cast<std::uint64_t>(options.engine));
  hash.add(static_cast<std::uint64_t>(options.width));
  hash.add(static_cast<std::uint64_t>(task.tensor_cores));
  hash.add(static_cast<std::uint64_t>(task.vector_cores));
  hash.add(static_cast<std::uint64_t>(task.operators.size()));
  for (const Operator& op : task.operators) {
    hash.add(static_cast<std::uint64_t>(op.type));
    hash.add(op.latency);
    hash.add(op.intra_op_latency);
  }
  std::vector<std::pair<int, int>> edges = task.edges;
  std::sort(edges.begin(), edges.end());
  for (const auto& [from, to] : edges)
    hash.add(static_cast<std::uint64_t>(from) << 32 | static_cast<std::uint64_t>(to));
  return hash.key();
}

std::optional<OperatorSchedule> ScheduleCache::find(const Key& key) const {
  const auto found = _schedules.find(key);
  if (found == _schedules.end()) return std::nullopt;
  return found->second;
}

std::string ScheduleCache::text() const {
  std::string text = format.mark() + "\n";
  for (const auto& [key, schedule] : _schedules) {
    std::string line = formatted("%016llx %016llx", static_cast<unsigned long long>(key[0]),
                                 static_cast<unsigned long long>(key[1])) +
                       hexText(schedule.makespan) + hexText(schedule.lower_bound) + " " +
                       std::to_string(schedule.operators.size());
    for (const ScheduledOperator& op : schedule.operators)
      line += hexText(op.start) + hexText(op.end) + (op.all_cores ? " 1 " : " 0 ") +
              std::to_string(op.tensor_core) + " " + std::to_string(op.vector_core);
    text += withCheckWord(line) + "\n";
  }
  return text;
}

void ScheduleCache::read(const std::string& text, const std::string& name) {
  constexpr std::int64_t most_cores = 1 << 24, most_operators = 4096;
  RowReader(text, name, format).readRows([&](const std::string& row) {
    NumberWords words(row);
    Key key{};
    for (std::uint64_t& half : key) half = words.bits();
    OperatorSchedule schedule;
    schedule.makespan = words.real();
    schedule.lower_bound = words.real();
    schedule.operators.resize(static_cast<std::size_t>(words.integer(1, most_operators)));
    for (ScheduledOperator& op : schedule.operators) {
      op.start = words.real();
      op.end = words.real();
      op.all_cores = words.integer(0, 1) == 1;
      op.tensor_core = static_cast<int>(words.integer(-1, most_cores));
      op.vector_core = static_cast<int>(words.integer(-1, most_cores));
      if (!words.good()) break;
    }
    if (!words.checked()) return false;
    _schedules[key] = schedule;
    return true;
  });
}

} // namespace partita
