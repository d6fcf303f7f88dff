#include "partita/config/files.hpp"
#include "partita/config/text.hpp"
#include "partita/core/error.hpp"
#include "partita/core/log.hpp"
#include "partita/io/json.hpp"
#include "partita/io/output_file.hpp"
#include "partita/plan/placement/read_tasks.hpp"
#include "partita/plan/schedule/schedule_cache.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "commands.hpp"
#include "result_file.hpp"

namespace partita {

namespace {

JsonObject jsonOf(const ScheduleTask& task, const OperatorSchedule& schedule, const std::string& engine) {
  const double none = std::numeric_limits<double>::quiet_NaN();
  std::vector<JsonObject> operators;
  for (std::size_t i = 0; i < task.operators.size(); ++i) {
    const ScheduledOperator& op = schedule.operators[i];
    JsonObject object;
    object.add("id", task.operators[i].id);
    object.add("start", op.start);
    object.add("end", op.end);
    object.add("all_cores", op.all_cores);
    object.add("tc", op.tensor_core < 0 ? none : op.tensor_core);
    object.add("vc", op.vector_core < 0 ? none : op.vector_core);
    operators.push_back(object);
  }
  JsonObject object;
  object.add("makespan", schedule.makespan);
  object.add("lower_bound", schedule.lower_bound);
  object.add("gap", schedule.gap());
  object.add("engine", engine);
  object.add("schedule", operators);
  return object;
}

std::string coresOf(const ScheduledOperator& op) {
  if (op.all_cores) return "all";
  std::vector<std::string> cores;
  if (op.tensor_core >= 0) cores.push_back("TC " + std::to_string(op.tensor_core));
  if (op.vector_core >= 0) cores.push_back("VC " + std::to_string(op.vector_core));
  return joined(cores, ", ");
}

/// A line per operator, in the order of their starts.
void show(const ScheduleTask& task, const OperatorSchedule& schedule) {
  const std::vector<ScheduledOperator>& operators = schedule.operators;
  std::vector<std::size_t> order(operators.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return operators[a].start < operators[b].start; });
  Log::info(formatted("makespan %.9g, at least %.9g (gap %.2g %%)\n", schedule.makespan, schedule.lower_bound,
                      100.0 * schedule.gap()));
  Log::info(formatted("%12s %14s %14s  %s", "operator", "start", "end", "cores"));
  for (const std::size_t i : order) {
    const ScheduledOperator& op = operators[i];
    Log::info(formatted("%12lld %14.9g %14.9g  %s", static_cast<long long>(task.operators[i].id), op.start,
                        op.end, coresOf(op).c_str()));
  }
}

ScheduleEngine engineOf(const std::string& name) {
  const std::vector<std::string>& names = namesOf<ScheduleEngine>(); // the command line has checked it
  return static_cast<ScheduleEngine>(std::find(names.begin(), names.end(), name) - names.begin());
}

/// The schedules of a file, which need not exist yet. Several processes may use it at the same time.
class CacheFile {
 public:
  CacheFile(std::string path, const std::string& input) : _path(std::move(path)) {
    if (_path.empty()) return;
    refuseOutput(_path, {input});
    _cache = stored();
    _known = _cache.size();
    // A bad path is reported before the work. A file that is there may be one that is only read.
    if (!regularFileExists(_path)) OutputFile probe(_path);
  }

  ScheduleCache* cache() { return _path.empty() ? nullptr : &_cache; }

  /// Keeps what others have added to the file meanwhile.
  void write() const {
    if (_cache.size() == _known) return;
    const FolderLock lock(_path);
    ScheduleCache all = stored();
    all.add(_cache);
    OutputFile file(_path);
    file.write(all.text());
    file.commit();
  }

 private:
  ScheduleCache stored() const {
    constexpr std::uint64_t most_bytes = std::uint64_t{1} << 30;
    ScheduleCache cache;
    if (regularFileExists(_path)) cache.read(readTextFile(_path, most_bytes), _path);
    return cache;
  }

  std::string _path;
  ScheduleCache _cache;
  std::size_t _known = 0;
};

} // namespace

void runSchedule(const ScheduleArguments& arguments) {
  refuseSameOutput(arguments.cache, arguments.json);
  ResultFile file(arguments.json, {arguments.input}, jsonObject("makespan"), arguments.overwrite);
  CacheFile cache(arguments.cache, arguments.input);
  const ScheduleTask task = readScheduleTask(arguments.input);
  ScheduleOptions options;
  options.engine = engineOf(arguments.engine);
  options.seconds = static_cast<double>(arguments.time_limit_seconds);
  options.cache = cache.cache();
  const OperatorSchedule found = scheduleOperators(task, options);
  const std::string fault = faultOf(task, found);
  if (!fault.empty()) PARTITA_FAIL("engine '" + arguments.engine + "' made a wrong schedule: " + fault);
  file.write(jsonOf(task, found, arguments.engine).text());
  if (!file.isStandardOutput()) show(task, found);
  cache.write(); // last: the result does not depend on it
}

} // namespace partita
