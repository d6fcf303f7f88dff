#include "partita/config/number_words.hpp"
#include "partita/config/user_error.hpp"
#include "partita/plan/schedule/operator_schedule.hpp"
#include "partita/plan/schedule/schedule_cache.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "support/catch.hpp"

namespace partita::test::plan_operator_schedule {

namespace {

/// Tries every order, mode and core: each operator starts when those before it in the order that it depends
/// on or competes with have ended.
class AllSchedules {
 public:
  explicit AllSchedules(const ScheduleTask& task) : _task(task), _placed(task.operators.size()) {}

  double best() {
    tryNext(0.0);
    return _best;
  }

 private:
  void tryNext(double makespan) {
    if (makespan >= _best) return;
    if (_order.size() == _placed.size()) {
      _best = makespan;
      return;
    }
    for (std::size_t i = 0; i < _placed.size(); ++i) {
      const bool done = std::find(_order.begin(), _order.end(), i) != _order.end();
      const bool ready = std::all_of(_task.edges.begin(), _task.edges.end(), [&](const auto& edge) {
        return edge.second != static_cast<int>(i) ||
               std::find(_order.begin(), _order.end(), static_cast<std::size_t>(edge.first)) != _order.end();
      });
      if (!done && ready) tryModes(i, makespan);
    }
  }

  void tryModes(std::size_t i, double makespan) {
    place(i, {0.0, 0.0, true, -1, -1}, makespan);
    const CoreType type = _task.operators[i].type;
    const int tensor = _task.tensor_cores, vector = _task.vector_cores;
    const int cores = type == CoreType::tensor   ? tensor
                      : type == CoreType::vector ? vector
                                                 : std::min(tensor, vector);
    for (int core = 0; core < cores; ++core)
      place(i, {0.0, 0.0, false, type == CoreType::vector ? -1 : core, type == CoreType::tensor ? -1 : core},
            makespan);
  }

  void place(std::size_t i, ScheduledOperator op, double makespan) {
    for (const std::size_t other : _order) {
      const ScheduledOperator& before = _placed[other];
      const bool depends =
          std::find(_task.edges.begin(), _task.edges.end(),
                    std::make_pair(static_cast<int>(other), static_cast<int>(i))) != _task.edges.end();
      const bool competes = op.all_cores || before.all_cores ||
                            (op.tensor_core >= 0 && op.tensor_core == before.tensor_core) ||
                            (op.vector_core >= 0 && op.vector_core == before.vector_core);
      if (depends || competes) op.start = std::max(op.start, before.end);
    }
    const Operator& kind = _task.operators[i];
    op.end = op.start + (op.all_cores ? kind.intra_op_latency : kind.latency);
    _placed[i] = op;
    _order.push_back(i);
    tryNext(std::max(makespan, op.end));
    _order.pop_back();
  }

  const ScheduleTask& _task;
  std::vector<ScheduledOperator> _placed;
  std::vector<std::size_t> _order;
  double _best = std::numeric_limits<double>::infinity();
};

ScheduleTask randomTask(std::mt19937_64& random, int most_operators, int most_cores) {
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<std::uint64_t>(n)); };
  ScheduleTask task;
  task.tensor_cores = 1 + below(most_cores);
  task.vector_cores = 1 + below(most_cores);
  const int count = 2 + below(most_operators - 1), density = 1 + below(4);
  const bool equal_modes = below(3) == 0;
  for (int i = 0; i < count; ++i) {
    const double latency = below(8) == 0 ? 0.0 : 1.0 + below(12);
    const double speedup = equal_modes ? 1.0 : 1.0 + 0.125 * below(16);
    task.operators.push_back({100 + i, static_cast<CoreType>(below(3)), latency, latency / speedup});
  }
  std::vector<int> order(count);
  std::iota(order.begin(), order.end(), 0);
  for (int i = count - 1; i > 0; --i) std::swap(order[i], order[below(i + 1)]);
  for (int i = 0; i < count; ++i)
    for (int j = 0; j < i; ++j)
      if (below(6) < density) task.edges.emplace_back(order[j], order[i]);
  return task;
}

/// The longest path, each operator in its fastest mode.
double criticalPath(const ScheduleTask& task) {
  std::vector<double> ends(task.operators.size(), 0.0);
  const auto fastest = [&](std::size_t i) {
    return std::min(task.operators[i].latency, task.operators[i].intra_op_latency);
  };
  for (std::size_t round = 0; round < ends.size(); ++round) {
    std::vector<double> starts(ends.size(), 0.0);
    for (const auto& [from, to] : task.edges) starts[to] = std::max(starts[to], ends[from]);
    for (std::size_t i = 0; i < ends.size(); ++i) ends[i] = starts[i] + fastest(i);
  }
  return *std::max_element(ends.begin(), ends.end());
}

/// One kind of core does all its work; an operator on all cores fills them all.
double energyOf(const ScheduleTask& task, const OperatorSchedule& schedule, CoreType other, int cores) {
  double total = 0.0;
  for (std::size_t i = 0; i < task.operators.size(); ++i) {
    const Operator& op = task.operators[i];
    if (schedule.operators[i].all_cores)
      total += op.intra_op_latency;
    else if (op.type != other)
      total += op.latency / cores;
  }
  return total;
}

void checkBounds(const ScheduleTask& task, const OperatorSchedule& schedule) {
  double one = 0.0, all = 0.0;
  for (const Operator& op : task.operators) {
    one += op.latency;
    all += op.intra_op_latency;
  }
  const double makespan = schedule.makespan * (1.0 + 1e-12);
  REQUIRE(makespan >= criticalPath(task));
  REQUIRE(makespan >= energyOf(task, schedule, CoreType::vector, task.tensor_cores));
  REQUIRE(makespan >= energyOf(task, schedule, CoreType::tensor, task.vector_cores));
  REQUIRE(schedule.makespan <= std::min(one, all) * (1.0 + 1e-12));
}

OperatorSchedule checkedSchedule(const ScheduleTask& task) {
  const OperatorSchedule schedule = scheduleOperators(task);
  REQUIRE(faultOf(task, schedule).empty());
  REQUIRE(schedule.gap() < 1e-9);
  checkBounds(task, schedule);
  return schedule;
}

void compareWithAll(std::uint64_t seed, int cases) {
  std::mt19937_64 random(seed);
  for (int i = 0; i < cases; ++i) {
    const int most_cores = 1 + i % 3;
    const ScheduleTask task = randomTask(random, 8 - most_cores, most_cores);
    INFO("case " << i << " of seed " << seed);
    const double best = AllSchedules(task).best();
    REQUIRE(checkedSchedule(task).makespan == Approx(best).epsilon(1e-9).margin(1e-12));
  }
}

ScheduleTask taskOf(int tensor_cores, int vector_cores, std::vector<Operator> operators) {
  return {tensor_cores, vector_cores, std::move(operators), {}};
}

ScheduleOptions limited(double seconds) {
  ScheduleOptions options;
  options.seconds = seconds;
  return options;
}

bool same(const OperatorSchedule& a, const OperatorSchedule& b) {
  const auto equal = [](const ScheduledOperator& x, const ScheduledOperator& y) {
    return x.start == y.start && x.end == y.end && x.all_cores == y.all_cores &&
           x.tensor_core == y.tensor_core && x.vector_core == y.vector_core;
  };
  return a.makespan == b.makespan && a.lower_bound == b.lower_bound &&
         std::equal(a.operators.begin(), a.operators.end(), b.operators.begin(), b.operators.end(), equal);
}

} // namespace

TEST_CASE("Schedules are as short as the best of all", "[plan][placement][sweep]") {
  compareWithAll(20240713, 400);
}

TEST_CASE("A thousand schedules are as short as the best of all", "[.][placement_soak]") {
  compareWithAll(1, 1000);
}

TEST_CASE("Larger schedules are proven and valid; more cores never hurt", "[plan][placement][sweep]") {
  std::mt19937_64 random(7);
  for (int i = 0; i < 60; ++i) {
    INFO("case " << i);
    ScheduleTask task = randomTask(random, 12, 3);
    const double makespan = checkedSchedule(task).makespan;
    ++task.tensor_cores;
    ++task.vector_cores;
    REQUIRE(checkedSchedule(task).makespan <= makespan * (1.0 + 1e-12));
    task.tensor_cores = task.vector_cores = 4096;
    REQUIRE(checkedSchedule(task).makespan <= makespan * (1.0 + 1e-12));
  }
}

TEST_CASE("Parts in a row take as long as each by itself", "[plan][placement]") {
  std::mt19937_64 random(11);
  for (int i = 0; i < 40; ++i) {
    INFO("case " << i);
    const ScheduleTask first = randomTask(random, 6, 2);
    ScheduleTask second = randomTask(random, 6, 2);
    second.tensor_cores = first.tensor_cores;
    second.vector_cores = first.vector_cores;
    ScheduleTask both = first;
    const int shift = static_cast<int>(first.operators.size());
    both.operators.insert(both.operators.end(), second.operators.begin(), second.operators.end());
    for (const auto& [from, to] : second.edges) both.edges.emplace_back(from + shift, to + shift);
    for (int a = 0; a < shift; ++a)
      for (int b = shift; b < static_cast<int>(both.operators.size()); ++b) both.edges.emplace_back(a, b);
    const double separate = checkedSchedule(first).makespan + checkedSchedule(second).makespan;
    REQUIRE(checkedSchedule(both).makespan == Approx(separate).epsilon(1e-12));
  }
}

TEST_CASE("Fused operators need cores of the same number", "[plan][placement]") {
  // Two tensor and two vector cores: each operator alone on its core. The pair has to find one number free.
  const ScheduleTask pair =
      taskOf(2, 2, {{1, CoreType::tensor, 5, 5}, {2, CoreType::vector, 5, 5}, {3, CoreType::both, 5, 5}});
  REQUIRE(checkedSchedule(pair).makespan == 5.0);
  // One pair only: fused operators follow one another, whatever the number of tensor cores.
  const ScheduleTask one = taskOf(3, 1, {{1, CoreType::both, 4, 4}, {2, CoreType::both, 3, 3}});
  REQUIRE(checkedSchedule(one).makespan == 7.0);
}

TEST_CASE("An operator on all cores excludes all others", "[plan][placement]") {
  const ScheduleTask task = taskOf(2, 1, {{1, CoreType::tensor, 8, 4}, {2, CoreType::vector, 5, 5}});
  REQUIRE(checkedSchedule(task).makespan == 8.0); // not 4 + 5
}

TEST_CASE("Partial schedules that differ in the ends of predecessors are both kept", "[plan][placement]") {
  constexpr CoreType tensor = CoreType::tensor, vector = CoreType::vector;
  ScheduleTask task = taskOf(1, 2,
                             {{0, vector, 18, 18},
                              {1, vector, 11, 11},
                              {2, tensor, 11, 11},
                              {3, vector, 9, 9},
                              {4, vector, 16, 16},
                              {5, vector, 18, 18},
                              {6, vector, 16, 16},
                              {7, tensor, 9, 9},
                              {8, vector, 10, 10}});
  task.edges = {{0, 4}, {0, 5}, {2, 5}, {1, 6}, {0, 7}, {5, 7}, {6, 7}, {1, 8}, {2, 8}, {5, 8}};
  REQUIRE(checkedSchedule(task).makespan == 50.0); // 52 if only the times of free cores counted
}

TEST_CASE("The search that has no time returns a valid schedule and a bound", "[plan][placement]") {
  std::mt19937_64 random(3);
  const ScheduleTask task = randomTask(random, 40, 3);
  const OperatorSchedule schedule = scheduleOperators(task, limited(0.0));
  REQUIRE(faultOf(task, schedule).empty());
  REQUIRE(schedule.lower_bound > 0.0);
  REQUIRE(schedule.lower_bound <= scheduleOperators(task, limited(1.0)).makespan * (1.0 + 1e-12));
}

TEST_CASE("A limited width gives a valid schedule and a bound", "[plan][placement]") {
  std::mt19937_64 random(5);
  for (int i = 0; i < 20; ++i) {
    INFO("case " << i);
    const ScheduleTask task = randomTask(random, 12, 3);
    ScheduleOptions options;
    options.width = 1;
    const OperatorSchedule narrow = scheduleOperators(task, options);
    const double best = checkedSchedule(task).makespan;
    REQUIRE(faultOf(task, narrow).empty());
    REQUIRE(narrow.lower_bound <= best * (1.0 + 1e-12));
    REQUIRE(narrow.makespan >= best * (1.0 - 1e-12));
    REQUIRE(same(narrow, scheduleOperators(task, options)));
  }
}

TEST_CASE("Solvers find schedules as short as the built-in engine does", "[plan][placement]") {
  for (const ScheduleEngine engine : {ScheduleEngine::highs, ScheduleEngine::cbc}) {
    ScheduleOptions options;
    options.engine = engine;
    if (engineVersion(engine).empty()) {
      REQUIRE_THROWS_AS(scheduleOperators(taskOf(1, 1, {{1, CoreType::tensor, 1, 1}}), options), UserError);
      continue;
    }
    std::mt19937_64 random(13);
    for (int i = 0; i < 25; ++i) {
      INFO(nameOf(engine) << ", case " << i);
      const ScheduleTask task = randomTask(random, 8, 3);
      const OperatorSchedule schedule = scheduleOperators(task, options);
      REQUIRE(faultOf(task, schedule).empty());
      REQUIRE(schedule.makespan == Approx(checkedSchedule(task).makespan).epsilon(1e-5).margin(1e-12));
      REQUIRE(schedule.gap() < 1e-5);
    }
  }
}

TEST_CASE("A cache returns the same schedules, also from its text", "[plan][placement]") {
  std::mt19937_64 random(17);
  ScheduleCache cache, copy;
  ScheduleOptions options;
  options.cache = &cache;
  std::vector<ScheduleTask> tasks;
  for (int i = 0; i < 20; ++i) tasks.push_back(randomTask(random, 9, 2));
  for (const ScheduleTask& task : tasks)
    REQUIRE(same(scheduleOperators(task, options), scheduleOperators(task)));
  const std::size_t known = cache.size();
  REQUIRE(known > 0);
  copy.read(cache.text(), "schedules");
  REQUIRE(copy.text() == cache.text());
  options.cache = &copy;
  for (const ScheduleTask& task : tasks)
    REQUIRE(same(scheduleOperators(task, options), scheduleOperators(task)));
  REQUIRE(copy.size() == known);

  // It depends on latencies, cores and edges, and on the width of the search.
  const ScheduleTask task = taskOf(2, 1, {{1, CoreType::tensor, 8, 4}, {2, CoreType::vector, 5, 5}});
  ScheduleTask other = task;
  const ScheduleCache::Key key = ScheduleCache::keyOf(task, options);
  other.operators[0].id = 7;
  REQUIRE(ScheduleCache::keyOf(other, options) == key);
  other.operators[0].latency = 9;
  REQUIRE(ScheduleCache::keyOf(other, options) != key);
  other = task;
  other.edges = {{0, 1}};
  REQUIRE(ScheduleCache::keyOf(other, options) != key);
  other = task;
  other.vector_cores = 2;
  REQUIRE(ScheduleCache::keyOf(other, options) != key);
  options.width = 3;
  REQUIRE(ScheduleCache::keyOf(task, options) != key);
}

TEST_CASE("The schedules of another cache replace those of the same task", "[plan][placement]") {
  OperatorSchedule one, other;
  one.operators.resize(1);
  other = one;
  other.makespan = 2.0;
  ScheduleCache cache, newer;
  cache.add({1, 1}, one);
  cache.add({2, 2}, one);
  newer.add({2, 2}, other);
  newer.add({3, 3}, other);
  cache.add(newer);
  REQUIRE(cache.size() == 3);
  REQUIRE(same(*cache.find({1, 1}), one));
  REQUIRE(same(*cache.find({2, 2}), other));
  REQUIRE(same(*cache.find({3, 3}), other));
}

TEST_CASE("Schedules in a cache that do not fit are not used", "[plan][placement]") {
  const ScheduleTask task = taskOf(2, 1, {{1, CoreType::tensor, 8, 4}, {2, CoreType::vector, 5, 5}});
  ScheduleCache cache;
  ScheduleOptions options;
  options.cache = &cache;
  const OperatorSchedule schedule = scheduleOperators(task, options);
  OperatorSchedule wrong = schedule;
  wrong.operators[0].end += 1.0;
  cache.add(ScheduleCache::keyOf(task, options), wrong);
  REQUIRE(same(scheduleOperators(task, options), schedule));
}

TEST_CASE("Damaged files of schedules are refused with the line", "[plan][placement]") {
  const auto refusal = [](const std::string& text) -> std::string {
    ScheduleCache cache;
    try {
      cache.read(text, "schedules");
    } catch (const UserError& error) {
      return error.what();
    }
    return "accepted";
  };
  const std::string head = "partita schedules 2\n", numbers = "0a 0b 0x1p+1 0x1p+1 1 0x0p+0 0x1p+1 0 0 -1",
                    good = withCheckWord(numbers) + "\n";
  REQUIRE(refusal(head + good) == "accepted");
  REQUIRE(refusal("").find("schedules: is not a file of schedules") == 0);
  REQUIRE(refusal(head + good + good.substr(0, 30) + "\n") == "schedules:3: is not a schedule");
  for (const char* const bad :
       {"", "0a 0b", "x 0b 1 1 1 0 1 0 0 -1", "0a 0b 1 1 0", "0a 0b 1 1 99999999 0 1 0 0 -1",
        "0a 0b 1 1 1 0 nan 0 0 -1", "0a 0b 1 1 1 0 -1 0 0 -1", "0a 0b 1 1 1 0 1 2 0 -1",
        "0a 0b 1 1 1 0 1 0 -2 -1"})
    REQUIRE(refusal(head + withCheckWord(bad) + "\n") == "schedules:2: is not a schedule");
  REQUIRE(refusal(head + numbers + "\n") == "schedules:2: is not a schedule");
}

TEST_CASE("A last schedule that was cut off is left out of a cache", "[plan][placement]") {
  const std::string head = "partita schedules 2\n", rest = " 0x1p+1 0x1p+1 1 0x0p+0 0x1p+1 0 0 -1",
                    one = withCheckWord("0a 0b" + rest) + "\n", two = withCheckWord("0c 0d" + rest) + "\n";
  for (const std::size_t kept : {std::size_t{5}, two.size() - 9, two.size() - 1}) {
    INFO(kept);
    ScheduleCache cache;
    cache.read(head + one + two.substr(0, kept), "schedules");
    REQUIRE(cache.size() == 1);
    REQUIRE(cache.find({0x0a, 0x0b}));
  }
}

TEST_CASE("Faults of schedules are seen", "[plan][placement]") {
  ScheduleTask task =
      taskOf(2, 2, {{1, CoreType::tensor, 2, 1}, {2, CoreType::tensor, 2, 2}, {3, CoreType::both, 3, 3}});
  task.edges = {{0, 1}};
  const OperatorSchedule good = checkedSchedule(task);
  REQUIRE(faultOf(task, good).empty());
  const auto broken = [&](const auto& change) {
    OperatorSchedule schedule = good;
    change(schedule);
    return faultOf(task, schedule);
  };
  REQUIRE(broken([](OperatorSchedule& s) { s.operators.pop_back(); }) == "not every operator has a place");
  REQUIRE(broken([](OperatorSchedule& s) { s.makespan += 1.0; }) ==
          "the last operator does not end the schedule");
  REQUIRE(broken([](OperatorSchedule& s) { s.operators[1].end += 1.0; }) ==
          "operator 2 does not take as long as its mode");
  REQUIRE(broken([](OperatorSchedule& s) { s.operators[2].vector_core = -1; }) ==
          "operator 3 has the wrong cores");
  REQUIRE(broken([](OperatorSchedule& s) { s.operators[2].vector_core ^= 1; }) ==
          "operator 3 has cores of different numbers");
  REQUIRE(broken([](OperatorSchedule& s) { s.lower_bound = s.makespan + 1.0; }) ==
          "the lower bound exceeds the makespan");
  REQUIRE(broken([](OperatorSchedule& s) {
            std::swap(s.operators[0].start, s.operators[1].start);
            s.operators[0].all_cores = false;
            for (std::size_t i : {0, 1}) s.operators[i].end = s.operators[i].start + 2.0;
            s.operators[0].tensor_core = s.operators[1].tensor_core = 1 - s.operators[2].tensor_core;
          }).find("operator 2 starts before operator 1 has ended") == 0);
  REQUIRE(broken([](OperatorSchedule& s) {
            s.operators[1].tensor_core = s.operators[2].tensor_core;
            s.operators[2].start = s.operators[1].start;
            s.operators[2].end = s.operators[2].start + 3.0;
          }).find("overlaps") != std::string::npos);
}

} // namespace partita::test::plan_operator_schedule
