#include "partita/config/text.hpp"
#include "partita/config/user_error.hpp"
#include "partita/plan/search/search_spec.hpp"

#include <algorithm>
#include <array>

#include "search_models.hpp"
#include "support/catch.hpp"

namespace partita::test::plan_search {

namespace {

SearchModel modelOf(const Transformer& model) {
  SearchModel search;
  search.name = model.name;
  search.chains = [model](std::int64_t microbatch) {
    std::vector<ModelChain> chains;
    for (int parts = 1; parts <= 4; parts *= 2) chains.push_back(chainOf(model, parts, microbatch));
    return chains;
  };
  search.expert = FixedPlan{2, 2, 4, model.layers, 1};
  return search;
}

} // namespace

TEST_CASE("A search answers each accelerator alone, and none worse than the expert", "[plan][search]") {
  SearchTask task;
  const std::vector<Accelerator> space = acceleratorSpace();
  for (std::size_t i = 0; i < space.size(); i += 997) task.accelerators.push_back(space[i]);
  task.cases = {{1, 1e9, false}, {2, 1e9, true}, {1, 1e3, false}};
  task.models = {modelOf(smallModel())};
  task.devices = 16;
  task.batch = 64;
  ArchitectureSearch forward(task), backward(task);
  std::vector<SearchRow> rows(task.accelerators.size());
  for (std::size_t i = rows.size(); i-- > 0;) rows[i] = backward.price(i);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    INFO("accelerator " << i);
    const SearchRow row = forward.price(i);
    REQUIRE(row.size() == 3);
    for (std::size_t answer = 0; answer < 3; ++answer) {
      std::array<double, SearchAnswer::numbers> a{}, b{}, c{};
      row[answer].write(a.data());
      rows[i][answer].write(b.data());
      SearchAnswer::read(a.data()).write(c.data());
      REQUIRE(a == b);
      REQUIRE(a == c);
    }
    REQUIRE_FALSE(row[2].feasible);
    for (std::size_t answer = 0; answer < 2; ++answer) {
      REQUIRE(row[answer].feasible);
      REQUIRE(row[answer].lower_bound > 0.0);
      REQUIRE(row[answer].lower_bound <= row[answer].time);
      REQUIRE(row[answer].expert_time > 0.0);
      REQUIRE(row[answer].time <= row[answer].expert_time);
      REQUIRE(row[answer].utilisation > 0.0);
      REQUIRE(row[answer].utilisation <= 1.0);
    }
    const ArchitectureSearch::Plan plan = forward.planOf(i, 0);
    REQUIRE(plan.plan.time == row[0].time);
    REQUIRE(forward.planOf(i, 2).limit == "memory");
  }
}

TEST_CASE("Sums over devices that share layers have the width of values, and may be the limit",
          "[plan][search]") {
  SearchTask task;
  task.accelerators = {acceleratorSpace().front()};
  task.cases = {{1, 1e12, false}};
  task.models = {modelOf(smallModel())};
  const auto chains = task.models[0].chains;
  task.models[0].chains =
      [chains](std::int64_t microbatch) { // only the one in which most devices share layers
        std::vector<ModelChain> all = chains(microbatch);
        return std::vector<ModelChain>{all.back()};
      };
  task.devices = task.node_devices = task.models[0].chains(1)[0].tensor_degree;
  REQUIRE(task.devices > 1);
  task.batch = 4;
  task.bandwidth = task.node_bandwidth = 1e3;
  const auto solve = [&] { return ArchitectureSearch(task).planOf(0, 0); };
  const ArchitectureSearch::Plan plan = solve();
  CHECK(plan.limit == "bandwidth");
  task.latency.bytes_per_value = 4.0;
  const double ratio = solve().plan.time / plan.plan.time;
  CHECK(ratio > 1.9);
  CHECK(ratio < 2.1);
}

TEST_CASE("Nodes and choices of stages help in a search, and change nothing by default", "[plan][search]") {
  const std::string model = "[[model]]\nfile = \"a.toml\"\n", few = "[architectures]\nevery = 5000\n";
  const auto rowsOf = [&](const std::string& lines) {
    SearchTask task = parseSearchSpec(model + few + lines, "spec").task;
    task.models = {modelOf(smallModel())};
    ArchitectureSearch search(task);
    std::vector<SearchRow> rows;
    for (std::size_t i = 0; i < task.accelerators.size(); ++i) rows.push_back(search.price(i));
    return rows;
  };
  const std::string search = "[search]\ndevices = 16\nbatch = 64\nadam = true\n",
                    nodes = "node_devices = 4\nnode_bandwidth = 1e12\nhost_bandwidth = 1e9\n",
                    tight = "[[case]]\nmemory = 8e6\n",
                    choose = "choose_recompute = true\nchoose_shard = true\nchoose_offload = true\n";
  const std::vector<SearchRow> plain = rowsOf(search + tight),
                               same = rowsOf(search + "node_devices = 1\n" + tight),
                               near = rowsOf(search + nodes + tight),
                               chosen = rowsOf(search + nodes + tight + choose);
  int faster = 0, gained = 0;
  for (std::size_t i = 0; i < plain.size(); ++i) {
    INFO("accelerator " << i);
    REQUIRE(same[i][0].time == plain[i][0].time);
    REQUIRE(same[i][0].lower_bound == plain[i][0].lower_bound);
    REQUIRE(chosen[i][0].feasible);
    if (near[i][0].feasible) REQUIRE(chosen[i][0].time <= near[i][0].time);
    REQUIRE(chosen[i][0].lower_bound <= chosen[i][0].time);
    faster += near[i][0].feasible && near[i][0].time < plain[i][0].time ? 1 : 0;
    gained += !near[i][0].feasible || chosen[i][0].time < near[i][0].time ? 1 : 0;
  }
  REQUIRE(faster > 0);
  REQUIRE(gained > 0);
}

TEST_CASE("A specification chooses accelerators, and the reference is always among them", "[plan][search]") {
  const auto text = [](const std::string& lines) { return "[[model]]\nfile = \"a.toml\"\n" + lines; };
  REQUIRE(parseSearchSpec(text(""), "spec").task.accelerators.size() == 29360);
  const SearchSpec spec = parseSearchSpec(
      text(
          "[architectures]\nevery = 100\ntensor_cores = 8\n[search]\nbatch = 64\n[[case]]\nmicrobatch = 4\n"),
      "spec");
  const std::vector<Accelerator> chosen = spec.task.accelerators;
  REQUIRE(chosen.size() > 10);
  REQUIRE(std::all_of(chosen.begin(), chosen.end(),
                      [](const Accelerator& one) { return one.tensor_cores == 8; }));
  REQUIRE(std::count_if(chosen.begin(), chosen.end(), [](const Accelerator& one) {
            return acceleratorArea(one) == acceleratorArea(referenceAccelerator());
          }) == 1);

  const auto refusal = [](const std::string& lines) -> std::string {
    try {
      parseSearchSpec(lines, "spec");
    } catch (const UserError& error) {
      return error.what();
    }
    return "accepted";
  };
  REQUIRE(refusal("").find("1 to 64 rows [[model]]") != std::string::npos);
  REQUIRE(refusal(text("[serach]\n")).find("did you mean 'search'?") != std::string::npos);
  REQUIRE(refusal(text("[search]\ndevices = 0\n")).find("spec:4:11: search/devices") != std::string::npos);
  REQUIRE(refusal(text("[search]\nengine = \"higs\"\n")).find("did you mean 'highs'?") != std::string::npos);
  REQUIRE(refusal(text("[[case]]\nmicrobatch = 3\n")).find("cannot be divided into microbatches of 3") !=
          std::string::npos);
  REQUIRE(refusal(text("[architectures]\nwidth = 3\n")).find("no accelerator of the search space") !=
          std::string::npos);
  REQUIRE(refusal("[[model]]\n").find("`file` is missing") != std::string::npos);
  REQUIRE(refusal(text("[search]\nnode_devices = 3\n")).find("must divide the 1024 devices") !=
          std::string::npos);
  REQUIRE(refusal(text("[search]\nnode_bandwidth = 1e9\n")).find("at least as fast") != std::string::npos);
  REQUIRE(refusal(text("[search]\nnode_bandwidth = 1e18\n")).find("`node_devices` is more than 1") !=
          std::string::npos);
  REQUIRE(refusal(text("[[case]]\nchoose_shard = true\n")).find("unless `adam` is true") !=
          std::string::npos);
  REQUIRE(refusal(text("[[case]]\nrecompute = true\nchoose_recompute = true\n")).find("has no effect") !=
          std::string::npos);
  for (const std::string key : {"bandwidth", "node_bandwidth", "host_bandwidth"})
    for (const std::string rate : {"0", "1e-292", "1e19"})
      REQUIRE(refusal(text("[search]\n" + key + " = " + rate + "\n")).find("search/" + key + ": ") !=
              std::string::npos);
}

TEST_CASE("Mistakes in the description of a transformer are all reported", "[plan][search]") {
  const auto refusal = [](const std::string& lines) -> std::string {
    try {
      parseTransformer(lines, "m");
    } catch (const UserError& error) {
      return joined(error.messages(), "\n");
    }
    return "accepted";
  };
  const std::string good = "[model]\nname = \"m\"\nlayers = 2\nwidth = 64\nheads = 4\nfeed_forward = 128\n"
                           "vocabulary = 10\nsequence = 8\n";
  REQUIRE(refusal(good) == "accepted");
  REQUIRE(refusal("").find("the section [model] is missing") != std::string::npos);
  REQUIRE(refusal(good + "norm = \"batch\"\n").find("m:9:8: model/norm") != std::string::npos);
  REQUIRE(refusal(good + "least_parts = 3\n").find("4 heads or 128 units are not divisible by 3") !=
          std::string::npos);
  REQUIRE(
      refusal(
          "[model]\nname = \"m\"\nlayers = 2\nwidth = 96\nheads = 12\nfeed_forward = 3072\nvocabulary = 10\n"
          "sequence = 8\nleast_parts = 3\nmost_parts = 8\n")
          .find("model/least_parts: 3 is not a power of two") != std::string::npos);
  REQUIRE(refusal(good + "[expert]\nstages = 2\n").find("`replicas` is missing") != std::string::npos);
  const auto expert = [&](const std::string& stages, const std::string& parts) {
    return refusal(good + "least_parts = 2\nmost_parts = 4\n[expert]\nreplicas = 8\nstages = " + stages +
                   "\nparts = " + parts + "\n");
  };
  REQUIRE(expert("2", "4") == "accepted");
  REQUIRE(expert("3", "4").find("expert/stages: must be at most the number of layers, 2") !=
          std::string::npos);
  for (const char* const parts : {"1", "8"})
    REQUIRE(expert("2", parts).find("expert/parts: must be from least_parts to most_parts, 2 to 4") !=
            std::string::npos);
  REQUIRE(expert("2", "3").find("expert/parts: 3 is not a power of two") != std::string::npos);
  REQUIRE(expert("3", "8").find("expert/parts: 4 heads or 128 units are not divisible by 8") !=
          std::string::npos);
  REQUIRE(expert("3", "8").find("expert/stages") != std::string::npos); // both are reported
  REQUIRE(refusal("[model]\nname = \"m\"\n").find("`layers` is missing") != std::string::npos);
}

} // namespace partita::test::plan_search
