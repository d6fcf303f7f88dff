#include "partita/plan/search/architecture_search.hpp"

#include "partita/config/user_error.hpp"

#include <algorithm>

namespace partita {

void SearchAnswer::write(double* values) const {
  const double fields[numbers] = {feasible ? 1.0 : 0.0, time,     lower_bound, expert_time, stages,
                                  tensor_degree,        replicas, utilisation};
  std::copy(fields, fields + numbers, values);
}

SearchAnswer SearchAnswer::read(const double* values) {
  return {values[0] == 1.0, values[1], values[2], values[3], values[4], values[5], values[6], values[7]};
}

ArchitectureSearch::ArchitectureSearch(const SearchTask& task) : _task(task) {}

const std::vector<ModelChain>& ArchitectureSearch::chains(std::size_t model, std::int64_t microbatch) {
  const auto found = _chains.find({model, microbatch});
  if (found != _chains.end()) return found->second;
  return _chains[{model, microbatch}] = _task.models[model].chains(microbatch);
}

ArchitectureSearch::Times ArchitectureSearch::timesOf(std::size_t accelerator, std::size_t model,
                                                      std::int64_t microbatch) {
  return timesOf(accelerator, model, microbatch, _task.bandwidth, _task.node_bandwidth);
}

ArchitectureSearch::Times ArchitectureSearch::timesOf(std::size_t accelerator, std::size_t model,
                                                      std::int64_t microbatch, double bandwidth,
                                                      double node_bandwidth) {
  Times all;
  for (const ModelChain& chain : chains(model, microbatch)) {
    // Devices that share a layer are on one node if they fit.
    LatencyEstimator estimator(_task.accelerators[accelerator], _task.latency,
                               chain.tensor_degree > _task.node_devices ? bandwidth : node_bandwidth,
                               chain.tensor_degree);
    LayerTimes times;
    for (const GraphLayer& layer : chain.layers) {
      for (const Direction pass : {Direction::forward, Direction::backward}) {
        const ScheduleTask operators = estimator.task(layer.graph, pass);
        OperatorSchedule schedule;
        if (!operators.operators.empty()) schedule = scheduleOperators(operators, _task.schedule);
        (pass == Direction::forward ? times.forward : times.backward).push_back(schedule.makespan);
        (pass == Direction::forward ? times.least_forward : times.least_backward)
            .push_back(schedule.lower_bound);
      }
    }
    all.push_back(std::move(times));
  }
  return all;
}

PlacementTask ArchitectureSearch::placement(const Times& times, std::size_t model, const SearchCase& one,
                                            bool least) {
  PlacementTask task;
  task.memory = one.memory;
  task.bandwidth = _task.bandwidth;
  task.node_devices = _task.node_devices;
  task.node_bandwidth = _task.node_bandwidth;
  task.host_bandwidth = _task.host_bandwidth;
  task.devices = _task.devices;
  task.microbatches = std::max<std::int64_t>(1, _task.batch / one.microbatch);
  task.recompute = one.recompute;
  task.choose = one.choose;
  task.adam = _task.adam;
  task.fixed = _task.models[model].expert;
  const double bytes = _task.latency.bytes_per_value;
  const std::vector<ModelChain>& all = chains(model, one.microbatch);
  for (std::size_t c = 0; c < all.size(); ++c) {
    LayerGraph graph;
    graph.tensor_degree = all[c].tensor_degree;
    for (std::size_t i = 0; i < all[c].chain.size(); ++i) {
      const int kind = all[c].chain[i];
      const GraphLayer& layer = all[c].layers[kind];
      const LayerTimes& own = times[c];
      graph.layers.push_back({static_cast<std::int64_t>(i), bytes * layer.parameters,
                              bytes * layer.activations, least ? own.least_forward[kind] : own.forward[kind],
                              least ? own.least_backward[kind] : own.backward[kind], layer.tensor_parallel});
      if (i + 1 < all[c].chain.size())
        graph.edges.push_back({static_cast<int>(i), static_cast<int>(i) + 1, bytes * layer.output});
    }
    task.graphs.push_back(std::move(graph));
  }
  return task;
}

namespace {

/// Multiply-adds of a batch, forward and backward.
double workOf(const ModelChain& chain, double microbatches, const LatencyOptions& options) {
  double macs = 0.0;
  for (const int layer : chain.chain) macs += chain.layers[layer].macs();
  return (options.weight_gradients ? 3.0 : 2.0) * macs * chain.tensor_degree * microbatches;
}

} // namespace

SearchAnswer ArchitectureSearch::answer(const Accelerator& accelerator, const Times& times, std::size_t model,
                                        const SearchCase& one) {
  const PlacementTask task = placement(times, model, one, false);
  const DevicePlan plan = placeLayers(task);
  SearchAnswer answer;
  answer.feasible = plan.feasible;
  if (!plan.feasible) return answer;
  answer.time = plan.time;
  answer.lower_bound = std::min(plan.time, placeLayers(placement(times, model, one, true)).time);
  answer.expert_time = timeOfFixedPlan(task).value_or(0.0);
  answer.stages = static_cast<double>(plan.stages.size());
  answer.tensor_degree = task.graphs[plan.graph].tensor_degree;
  answer.replicas = static_cast<double>(plan.replicas);
  double devices = 0.0;
  for (const PlacedStage& stage : plan.stages) devices += static_cast<double>(stage.devices);
  const double elements =
      static_cast<double>(accelerator.tensor_cores) * accelerator.width * accelerator.depth;
  const ModelChain& chain = chains(model, one.microbatch)[plan.graph];
  answer.utilisation = workOf(chain, static_cast<double>(task.microbatches), _task.latency) /
                       (plan.time * _task.latency.frequency * elements * devices * answer.replicas);
  return answer;
}

SearchRow ArchitectureSearch::price(std::size_t accelerator) {
  std::map<std::pair<std::size_t, std::int64_t>, Times> known; // cases may share times
  SearchRow row;
  for (const SearchCase& one : _task.cases) {
    for (std::size_t model = 0; model < _task.models.size(); ++model) {
      const std::pair<std::size_t, std::int64_t> key{model, one.microbatch};
      if (known.count(key) == 0) known[key] = timesOf(accelerator, model, one.microbatch);
      row.push_back(answer(_task.accelerators[accelerator], known[key], model, one));
    }
  }
  return row;
}

ArchitectureSearch::Plan ArchitectureSearch::planOf(std::size_t accelerator, std::size_t answer) {
  const std::size_t model = answer % _task.models.size();
  const SearchCase& one = _task.cases[answer / _task.models.size()];
  Plan plan;
  plan.task = placement(timesOf(accelerator, model, one.microbatch), model, one, false);
  plan.plan = placeLayers(plan.task);
  plan.limit = plan.plan.feasible ? "computation" : "memory";
  constexpr double large = 1e18, faster = 0.999;
  const auto gains = [&](const PlacementTask& task) {
    try {
      const DevicePlan relaxed = placeLayers(task);
      return relaxed.feasible && (!plan.plan.feasible || relaxed.time < faster * plan.plan.time);
    } catch (const UserError&) {
      return false; // more devices than the search can hold
    }
  };
  const auto faster_links = [&] { // layers that devices share contain sums over these
    PlacementTask task =
        placement(timesOf(accelerator, model, one.microbatch, large, large), model, one, false);
    task.bandwidth = task.node_bandwidth = large;
    return task;
  };
  PlacementTask more_memory = plan.task, more_devices = plan.task;
  more_memory.memory = large;
  more_devices.devices *= 2;
  if (gains(more_memory))
    plan.limit = "memory";
  else if (gains(faster_links()))
    plan.limit = "bandwidth";
  else if (gains(more_devices))
    plan.limit = "devices";
  return plan;
}

} // namespace partita
