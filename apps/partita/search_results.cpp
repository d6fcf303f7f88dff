#include "search_results.hpp"

#include "partita/config/text.hpp"
#include "partita/core/log.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "placed_stages.hpp"

namespace partita {

namespace {

/// A row in a case.
struct Entry {
  std::size_t row, one_case;
};

/// All rows in all cases, the best first; of equal ones the first of the search.
std::vector<Entry> ranking(const SearchResults& results) {
  std::vector<Entry> places;
  std::vector<double> scores;
  for (std::size_t one = 0; one < results.task.cases.size(); ++one)
    for (std::size_t row = 0; row < results.rows.size(); ++row) {
      places.push_back({row, one});
      scores.push_back(results.score(row, one));
    }
  std::vector<std::size_t> order(places.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return scores[a] > scores[b]; });
  std::vector<Entry> sorted;
  sorted.reserve(places.size());
  for (const std::size_t i : order) sorted.push_back(places[i]);
  return sorted;
}

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN(); ///< null in JSON

double gapOf(const SearchAnswer& answer) {
  return answer.feasible ? (answer.time - answer.lower_bound) / answer.time : not_a_number;
}

JsonObject jsonOf(const Accelerator& accelerator) {
  JsonObject object;
  object.add("num_tc", std::int64_t{accelerator.tensor_cores});
  object.add("num_vc", std::int64_t{accelerator.vector_cores});
  object.add("width", std::int64_t{accelerator.width});
  object.add("depth", std::int64_t{accelerator.depth});
  object.add("width_vc", std::int64_t{accelerator.vector_width});
  object.add("GLB_Buffer", std::int64_t{accelerator.buffer_mib});
  object.add("area", acceleratorArea(accelerator));
  return object;
}

JsonObject jsonOf(const SearchAnswer& answer, double batch) {
  JsonObject object;
  const auto number = [&](double value) { return answer.feasible ? value : not_a_number; };
  object.add("dist_strategy", answer.feasible
                                  ? std::vector<double>{answer.stages, answer.tensor_degree, answer.replicas}
                                  : std::vector<double>{});
  object.add("throughput", number(batch / answer.time));
  object.add("fixed_strategy_throughput",
             answer.expert_time > 0.0 ? batch / answer.expert_time : not_a_number);
  object.add("utilization", number(answer.utilisation));
  object.add("time", number(answer.time));
  object.add("lower_bound", number(answer.lower_bound));
  object.add("gap", gapOf(answer));
  return object;
}

/// The options that the stages of a case may use.
std::vector<std::string> choicesOf(const StageOptions& choose) {
  std::vector<std::string> names;
  if (choose.recompute) names.emplace_back("recompute");
  if (choose.shard) names.emplace_back("shard");
  if (choose.offload) names.emplace_back("offload");
  return names;
}

std::size_t referenceRow(const std::vector<Accelerator>& accelerators) {
  const auto found = std::find(accelerators.begin(), accelerators.end(), referenceAccelerator());
  return static_cast<std::size_t>(found - accelerators.begin());
}

/// Seconds of the fastest plan of a model in these rows and all cases with this memory; infinite if there is
/// none.
double leastTime(const SearchResults& results, std::size_t begin, std::size_t end, double memory,
                 std::size_t model) {
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t one = 0; one < results.task.cases.size(); ++one) {
    if (results.task.cases[one].memory != memory) continue;
    for (std::size_t row = begin; row < end; ++row) {
      const SearchAnswer& answer = results.answer(row, one, model);
      if (answer.feasible) least = std::min(least, answer.time);
    }
  }
  return least;
}

} // namespace

SearchResults::SearchResults(const SearchTask& searched, std::vector<SearchRow> found)
    : task(searched), rows(std::move(found)), reference(referenceRow(task.accelerators)) {
  for (const SearchCase& one : task.cases)
    for (std::size_t model = 0; model < task.models.size(); ++model) {
      const double least = leastTime(*this, reference, reference + 1, one.memory, model);
      yardsticks.push_back(std::isfinite(least) ? least
                                                : leastTime(*this, 0, rows.size(), one.memory, model));
    }
}

double SearchResults::score(std::size_t row, std::size_t one_case) const {
  const std::size_t models = task.models.size();
  double sum = 0.0;
  for (std::size_t model = 0; model < models; ++model) {
    const SearchAnswer& own = answer(row, one_case, model);
    if (own.feasible) sum += yardsticks[one_case * models + model] / own.time;
  }
  return sum / static_cast<double>(models);
}

namespace {

void showAccelerator(const SearchResults& results, const Entry& place) {
  const Accelerator& accelerator = results.task.accelerators[place.row];
  const SearchCase& one = results.task.cases[place.one_case];
  const std::string shape = formatted(
      "%d, %d, %d x %d, %d MiB%s", accelerator.tensor_cores, accelerator.vector_cores, accelerator.width,
      accelerator.depth, accelerator.buffer_mib, accelerator == referenceAccelerator() ? " (ref)" : "");
  const std::string setting =
      formatted("%lld, %s%s", static_cast<long long>(one.microbatch), formatBytes(one.memory).c_str(),
                one.recompute      ? ", recompute"
                : one.choose.any() ? ", options"
                                   : "");
  Log::info(formatted("%-34s %6.1f %-26s %5.3f", shape.c_str(), 1e-6 * acceleratorArea(accelerator),
                      setting.c_str(), results.score(place.row, place.one_case)));
}

/// `limit`: what the model's placement is limited by.
void showModel(const SearchResults& results, const Entry& place, std::size_t model,
               const std::string& limit) {
  const SearchAnswer& answer = results.answer(place.row, place.one_case, model);
  const std::string& name = results.task.models[model].name;
  if (answer.feasible)
    Log::info(formatted("  %s: %s, %g x %g x %g, %.2g %%, %s", name.c_str(),
                        formatCount(static_cast<double>(results.task.batch) / answer.time).c_str(),
                        answer.stages, answer.tensor_degree, answer.replicas, 100.0 * gapOf(answer),
                        limit.c_str()));
  else
    Log::info(formatted("  %s: does not fit, %s", name.c_str(), limit.c_str()));
}

} // namespace

void showBest(const SearchResults& results, ArchitectureSearch& search, std::size_t count) {
  const std::vector<Entry> places = ranking(results);
  Log::info(formatted("%-34s %6s %-26s %5s", "accelerator: TC, VC, array, buffer", "mm2",
                      "microbatch, memory", "score"));
  Log::info("  model: samples/s, stages x tensor x data parallel, gap to the lower bound, limit");
  if (!places.empty() && !(results.score(places.front().row, places.front().one_case) > 0.0))
    return Log::info("no model fits on the devices, whatever the accelerator and the placement");
  const std::size_t models = results.task.models.size();
  for (std::size_t i = 0; i < std::min(count, places.size()); ++i) {
    showAccelerator(results, places[i]);
    for (std::size_t model = 0; model < models; ++model)
      showModel(results, places[i], model,
                search.planOf(places[i].row, places[i].one_case * models + model).limit);
  }
}

namespace {

JsonObject jsonOf(const ArchitectureSearch::Plan& plan) {
  JsonObject object;
  object.add("stages", stageObjects(plan.task, plan.plan));
  object.add("limit", plan.limit);
  return object;
}

} // namespace

JsonObject jsonOf(const SearchResults& results, ArchitectureSearch& search) {
  const SearchTask& task = results.task;
  const Entry best = ranking(results).front();
  std::vector<JsonObject> cases;
  for (std::size_t one = 0; one < task.cases.size(); ++one) {
    JsonObject answers, object;
    for (std::size_t row = 0; row < results.rows.size(); ++row) {
      JsonObject entry;
      entry.add("acc_config", jsonOf(task.accelerators[row]));
      for (std::size_t model = 0; model < task.models.size(); ++model)
        entry.add(task.models[model].name,
                  jsonOf(results.answer(row, one, model), static_cast<double>(task.batch)));
      answers.add(std::to_string(row), entry);
    }
    object.add("microbatch", task.cases[one].microbatch);
    object.add("memory", task.cases[one].memory);
    object.add("recompute", task.cases[one].recompute);
    if (task.cases[one].choose.any()) object.add("choose", choicesOf(task.cases[one].choose));
    object.add("answers", answers);
    cases.push_back(object);
  }
  JsonObject top, plans;
  for (std::size_t model = 0; model < task.models.size(); ++model)
    plans.add(task.models[model].name,
              jsonOf(search.planOf(best.row, best.one_case * task.models.size() + model)));
  top.add("case", static_cast<std::int64_t>(best.one_case));
  top.add("answer", static_cast<std::int64_t>(best.row));
  top.add("score", results.score(best.row, best.one_case));
  top.add("plans", plans);
  JsonObject object;
  object.add("reference", static_cast<std::int64_t>(results.reference));
  object.add("best", top);
  object.add("cases", cases);
  return object;
}

} // namespace partita
