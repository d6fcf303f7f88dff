#include "partita/plan/search/search_spec.hpp"

#include "partita/config/files.hpp"
#include "partita/config/section_reader.hpp"
#include "partita/config/user_error.hpp"

#include <algorithm>

namespace partita {

namespace {

constexpr double most_count = 1 << 30;

constexpr double most_rate = 1e18; // per second

/// Which accelerators of the space a search evaluates. 0: any number.
struct ArchitectureChoice {
  double area = 0.0;      ///< largest, um^2; 0: that of the reference
  std::int64_t every = 1; ///< only every n-th
  std::int64_t tensor_cores = 0, vector_cores = 0, width = 0, depth = 0, buffer_mib = 0;
};

/// The keys that are no fields of a task.
struct OtherKeys {
  ArchitectureChoice architectures;
  std::int64_t schedule_width = 64; ///< of the built-in engine; 0: exact
};

std::vector<Section> describe(SearchTask& task, OtherKeys& others) {
  Section search{"search", ""}, architectures{"architectures", ""}, estimator{"estimator", ""};
  search.add("devices", &task.devices, within(1, most_count), "", "");
  search.add("batch", &task.batch, within(1, most_count), "samples", "");
  search.add("bandwidth", &task.bandwidth, within(1, most_rate), "bytes per second", "");
  search.add("node_devices", &task.node_devices, within(1, most_count), "devices", "");
  search.add("node_bandwidth", &task.node_bandwidth, within(1, most_rate), "bytes per second", "");
  search.add("host_bandwidth", &task.host_bandwidth, within(1, most_rate), "bytes per second", "");
  search.add("adam", &task.adam, "");
  search.add("engine", choice(task.schedule.engine), "");
  search.add("schedule_width", &others.schedule_width, within(0, 1 << 20), "partial schedules", "");
  ArchitectureChoice& one = others.architectures;
  architectures.add("area", &one.area, atLeast(0), "um^2", "");
  architectures.add("every", &one.every, within(1, 1 << 20), "", "");
  for (const auto& [key, field] : {std::pair<const char*, std::int64_t*>{"tensor_cores", &one.tensor_cores},
                                   {"vector_cores", &one.vector_cores},
                                   {"width", &one.width},
                                   {"depth", &one.depth},
                                   {"buffer_mib", &one.buffer_mib}})
    architectures.add(key, field, within(0, 1 << 20), "", "");
  LatencyOptions& latency = task.latency;
  estimator.add("frequency", &latency.frequency, within(1, most_rate), "cycles per second", "");
  estimator.add("bytes_per_value", &latency.bytes_per_value, within(1e-3, 1e6), "bytes", "");
  for (const auto& [key, field] : {std::pair<const char*, bool*>{"fuse", &latency.fuse},
                                   {"peak", &latency.peak},
                                   {"weight_gradients", &latency.weight_gradients},
                                   {"each_fused", &latency.each_fused},
                                   {"moves", &latency.moves}})
    estimator.add(key, field, "");
  return {search, architectures, estimator};
}

Section describeModel(SearchSpec::Model& row) {
  Section section{"model", ""};
  section.add("file", &row.file, "").required = Required::always;
  return section;
}

Section describeCase(SearchCase& row) {
  Section section{"case", ""};
  section.add("microbatch", &row.microbatch, within(1, most_count), "samples", "");
  section.add("memory", &row.memory, above(0), "bytes per device", "");
  section.add("recompute", &row.recompute, "");
  section.add("choose_recompute", &row.choose.recompute, "");
  section.add("choose_shard", &row.choose.shard, "");
  section.add("choose_offload", &row.choose.offload, "");
  return section;
}

/// What depends on several keys.
void check(const SearchTask& task, SectionReader& reader) {
  if (task.devices % task.node_devices != 0)
    reader.error("search/node_devices", "must divide the " + std::to_string(task.devices) + " devices");
  if (task.node_bandwidth > 0.0 && task.node_bandwidth < task.bandwidth)
    reader.error("search/node_bandwidth", "links inside a node must be at least as fast as `bandwidth`");
  for (const SearchCase& one : task.cases)
    if (one.recompute && one.choose.recompute)
      reader.error("case", "`choose_recompute` has no effect where `recompute` is true");
  if (task.node_bandwidth > 0.0 && task.node_devices == 1)
    reader.error("search/node_bandwidth", "has no effect unless `node_devices` is more than 1");
  for (const SearchCase& one : task.cases)
    if ((one.choose.shard || one.choose.offload) && !task.adam)
      reader.error("case", "`choose_shard` and `choose_offload` have no effect unless `adam` is true");
  for (const SearchCase& one : task.cases)
    if (task.batch % one.microbatch != 0)
      reader.error("case", "a batch of " + std::to_string(task.batch) +
                               " samples cannot be divided into microbatches of " +
                               std::to_string(one.microbatch));
  if (task.accelerators.empty())
    reader.error("architectures", "no accelerator of the search space matches these keys");
}

/// The selected accelerators, in the order of the space.
std::vector<Accelerator> accelerators(const ArchitectureChoice& choice) {
  const auto fits = [](std::int64_t wanted, int value) { return wanted == 0 || wanted == value; };
  std::vector<Accelerator> chosen;
  std::int64_t number = 0;
  for (const Accelerator& one : acceleratorSpace()) {
    if (fits(choice.tensor_cores, one.tensor_cores) && fits(choice.vector_cores, one.vector_cores) &&
        fits(choice.width, one.width) && fits(choice.depth, one.depth) &&
        fits(choice.buffer_mib, one.buffer_mib) &&
        (choice.area == 0.0 || acceleratorArea(one) <= choice.area) && number++ % choice.every == 0)
      chosen.push_back(one);
  }
  return chosen;
}

/// Adds what follows from other values.
void complete(SearchTask& task) {
  const Accelerator reference = referenceAccelerator();
  std::vector<Accelerator>& all = task.accelerators;
  if (std::find(all.begin(), all.end(), reference) == all.end()) all.push_back(reference);
  if (task.node_bandwidth == 0.0) task.node_bandwidth = task.bandwidth;
  if (task.host_bandwidth == 0.0) task.host_bandwidth = task.bandwidth;
}

} // namespace

SearchSpec parseSearchSpec(const std::string& text, const std::string& name) {
  constexpr std::size_t most_models = 64, most_cases = 256;
  SearchSpec spec;
  SectionReader reader(name);
  SearchTask& task = spec.task;
  task.node_bandwidth = task.host_bandwidth = 0.0; // as `bandwidth`
  OtherKeys others;
  std::vector<Section> sections = describe(task, others);
  std::vector<std::string> names{"model", "case"};
  for (const Section& section : sections) names.push_back(section.name);
  for (const TomlNode& node : reader.parse(text)) {
    const auto found = std::find_if(sections.begin(), sections.end(),
                                    [&](const Section& section) { return section.name == node.key; });
    if (node.key == "model")
      reader.readRows(node, spec.models, describeModel);
    else if (node.key == "case")
      reader.readRows(node, task.cases, describeCase);
    else if (found != sections.end())
      reader.readKeys(node, *found, node.key);
    else
      reader.unknownSection(node, names);
  }
  reader.throwIfAny();
  if (spec.models.empty() || spec.models.size() > most_models)
    reader.error("model", "there must be 1 to 64 rows [[model]]");
  if (task.cases.size() > most_cases) reader.error("case", "there must be at most 256 rows [[case]]");
  if (task.cases.empty()) task.cases.emplace_back();
  task.accelerators = accelerators(others.architectures);
  task.schedule.width = static_cast<std::size_t>(others.schedule_width);
  check(task, reader);
  reader.throwIfAny();
  complete(task);
  return spec;
}

SearchSpec loadSearchSpec(const std::string& path) {
  constexpr std::uint64_t most_bytes = 1 << 20;
  if (!regularFileExists(path, ", not a specification")) throw UserError(path + ": no such specification");
  return parseSearchSpec(readTextFile(path, most_bytes), path);
}

} // namespace partita
