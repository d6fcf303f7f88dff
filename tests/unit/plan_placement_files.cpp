#include "partita/config/user_error.hpp"
#include "partita/plan/placement/read_tasks.hpp"

#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <unistd.h>

#include "support/catch.hpp"

namespace partita::test::plan_placement_files {

namespace {

/// A file that is removed afterwards.
class TextFile {
 public:
  explicit TextFile(const std::string& text)
      : _path((std::filesystem::temp_directory_path() /
               ("partita-placement-" + std::to_string(getpid()) + ".json"))
                  .string()) {
    std::ofstream(_path, std::ios::binary) << text;
  }
  ~TextFile() { std::remove(_path.c_str()); }
  TextFile(const TextFile&) = delete;
  TextFile& operator=(const TextFile&) = delete;
  const std::string& path() const { return _path; }

 private:
  std::string _path;
};

const std::string schedule = R"({"num_tc": 2, "num_vc": 1, "unit": "ms", "ops": [
  {"id": 5, "op": "Linear", "core_type": "TC", "latency": 2.5, "intra_op_latency": 1.5},
  {"id": -3, "core_type": "TCandVC", "latency": 1, "intra_op_latency": 0}],
 "edges": [[5, -3]]})";

const std::string placement = R"({"maxMemoryPerDevice": 1e10, "maxDevices": 4, "bandwidth": 4294967296,
 "mbsInBatch": 8, "activationRecomputation": true, "optimizerAlgorithm": "Adam",
 "nodes": {"1": [{"id": -1, "parameterSize": 3, "activationSize": 4, "optimalLatencyFw": 0.5,
                  "optimalLatencyBw": 1.5, "isTensorParallelized": false},
                 {"id": 0, "parameterSize": 3, "activationSize": 4, "optimalLatencyFw": 0.5,
                  "optimalLatencyBw": 1.5, "isTensorParallelized": false}]},
 "edges": {"1": [{"sourceId": -1, "destId": 0, "communicationCost": 7}]}})";

/// The text with its first `from` replaced.
std::string with(const std::string& text, const std::string& from, const std::string& to) {
  const std::size_t place = text.find(from);
  REQUIRE(place != std::string::npos);
  return std::string(text).replace(place, from.size(), to);
}

/// The message without the path of the file.
template <class Read>
std::string refusal(const std::string& text, Read read) {
  const TextFile file(text);
  try {
    read(file.path());
  } catch (const UserError& error) {
    const std::string message = error.what();
    REQUIRE(message.rfind(file.path() + ":", 0) == 0);
    return message.substr(file.path().size());
  }
  return "accepted";
}

std::string scheduleRefusal(const std::string& from, const std::string& to) {
  return refusal(with(schedule, from, to), readScheduleTask);
}

std::string placementRefusal(const std::string& from, const std::string& to) {
  return refusal(with(placement, from, to), readPlacementTask);
}

} // namespace

TEST_CASE("Operators are read from JSON", "[plan][placement]") {
  const ScheduleTask task = readScheduleTask(TextFile(schedule).path());
  REQUIRE(task.tensor_cores == 2);
  REQUIRE(task.vector_cores == 1);
  REQUIRE(task.operators.size() == 2);
  REQUIRE(task.operators[0].id == 5);
  REQUIRE(task.operators[0].latency == 2.5);
  REQUIRE(task.operators[0].intra_op_latency == 1.5);
  REQUIRE(task.operators[1].type == CoreType::both);
  REQUIRE(task.edges == std::vector<std::pair<int, int>>{{0, 1}});
}

TEST_CASE("Layers are read from JSON", "[plan][placement]") {
  const PlacementTask task = readPlacementTask(TextFile(placement).path());
  REQUIRE(task.memory == 1e10);
  REQUIRE(task.devices == 4);
  REQUIRE(task.microbatches == 8);
  REQUIRE(task.recompute);
  REQUIRE(task.adam);
  REQUIRE(!task.fixed);
  REQUIRE(task.graphs.size() == 1);
  REQUIRE(task.graphs[0].layers[0].id == -1);
  REQUIRE(task.graphs[0].layers[1].backward == 1.5);
  REQUIRE(task.graphs[0].edges[0].to == 1);
  REQUIRE(task.graphs[0].edges[0].bytes == 7.0);
  const std::string fixed =
      with(placement, "{", R"({"fixedPP": 2, "fixedTMPC": 1, "fixedDP": 3.0, "numTransformerLayers": 2,)");
  REQUIRE(readPlacementTask(TextFile(fixed).path()).fixed->replicas == 3);
}

TEST_CASE("Nodes and choices of stages are read from JSON", "[plan][placement]") {
  const PlacementTask plain = readPlacementTask(TextFile(placement).path());
  REQUIRE(plain.node_devices == 1);
  REQUIRE_FALSE(plain.choose.any());
  const std::string keys = R"({"devicesPerNode": 2, "bandwidthInNode": 1e10, "hostBandwidth": 1e9,
    "chooseRecomputation": true, "chooseShardedOptimizer": true, "chooseOffload": true,)";
  const std::string text = with(with(placement, "{", keys), "\"activationRecomputation\": true",
                                "\"activationRecomputation\": false");
  const PlacementTask task = readPlacementTask(TextFile(text).path());
  REQUIRE(task.node_devices == 2);
  REQUIRE(task.node_bandwidth == 1e10);
  REQUIRE(task.host_bandwidth == 1e9);
  REQUIRE(task.choose == StageOptions{true, true, true});

  const auto refused = [&](const std::string& from, const std::string& to) {
    return refusal(with(text, from, to), readPlacementTask);
  };
  REQUIRE(refused("\"devicesPerNode\": 2", "\"devicesPerNode\": 3") ==
          ": /devicesPerNode: must divide maxDevices, 4");
  REQUIRE(refused("1e10", "1e9") == ": /bandwidthInNode: must be a number from 4294967296 to 1e+18");
  REQUIRE(refused("\"bandwidthInNode\": 1e10,", "") == ": 'bandwidthInNode' is missing");
  REQUIRE(refused("\"hostBandwidth\": 1e9,", "") == ": 'hostBandwidth' is missing");
  REQUIRE(refused("\"hostBandwidth\": 1e9", "\"hostBandwidth\": -1") ==
          ": /hostBandwidth: must be a number from 1 to 1e+18");
  REQUIRE(refused("\"chooseOffload\": true", "\"chooseOffload\": 1") ==
          ": /chooseOffload: must be true or false, not a number");
  REQUIRE(refused("\"activationRecomputation\": false", "\"activationRecomputation\": true") ==
          ": /chooseRecomputation: has no effect where activationRecomputation is true");
  REQUIRE(refused("\"devicesPerNode\": 2", "\"devicesPerNode\": 1") ==
          ": /bandwidthInNode: has no effect unless devicesPerNode is more than 1");
  REQUIRE(refused("\"Adam\"", "\"SGD\"") ==
          ": /chooseShardedOptimizer: has no effect unless optimizerAlgorithm is Adam");
}

TEST_CASE("Mistakes in files of operators are refused with their place", "[plan][placement]") {
  REQUIRE(scheduleRefusal("2.5", "-2.5") == ": /ops/0/latency: must be a number from 0 to 1e+18");
  REQUIRE(scheduleRefusal("2.5", "\"2.5\"") == ": /ops/0/latency: must be a number, not a string");
  REQUIRE(scheduleRefusal("2.5", "null") == ": /ops/0/latency: must be a number, not null");
  REQUIRE(scheduleRefusal("2.5", "1e400") == ":2:63: the number is too large");
  REQUIRE(scheduleRefusal("2.5", "NaN") == ":2:59: is not JSON");
  REQUIRE(scheduleRefusal("\"latency\": 2.5, ", "") == ": /ops/0: 'latency' is missing");
  REQUIRE(scheduleRefusal("\"TC\"", "\"CT\"") == ": /ops/0/core_type: 'CT' is not valid; did you mean 'TC'?");
  REQUIRE(scheduleRefusal("\"TC\"", "4") == ": /ops/0/core_type: must be a string, not a number");
  REQUIRE(scheduleRefusal("-3", "5") == ": /ops/1/id: 5 is also the id of element 0");
  REQUIRE(scheduleRefusal("-3", "0.5") == ": /ops/1/id: must be a whole number");
  REQUIRE(scheduleRefusal("[5, -3]", "[5, 4]") == ": /edges/0/1: nothing has the id 4");
  REQUIRE(scheduleRefusal("[5, -3]", "[5]") == ": /edges/0: must be a list of two ids");
  REQUIRE(scheduleRefusal("[5, -3]", "[5, -3], [-3, 5]") == ": /edges: the edges form a cycle through id 5");
  REQUIRE(scheduleRefusal("[5, -3]", "[-3, -3]") == ": /edges: the edges form a cycle through id -3");
  REQUIRE(scheduleRefusal("[5, -3]", "5") == ": /edges/0: must be a list, not a number");
  REQUIRE(scheduleRefusal("\"num_tc\": 2", "\"num_tc\": 0") ==
          ": /num_tc: must be a number from 1 to 16777216");
  REQUIRE(scheduleRefusal("\"num_tc\": 2,", "") == ": 'num_tc' is missing");
  REQUIRE(scheduleRefusal("\"num_vc\": 1", "\"num_vc\": 1, \"num_tc\": 3") ==
          ": the name 'num_tc' occurs twice in an object");
  REQUIRE(refusal(R"({"num_tc": 2, "num_vc": 1, "ops": [], "edges": []})", readScheduleTask) ==
          ": /ops: has no operator");
  REQUIRE(refusal("[]", readScheduleTask) == ": must be an object, not a list");
}

TEST_CASE("Mistakes in files of layers are refused with their place", "[plan][placement]") {
  REQUIRE(placementRefusal("\"1\": [{\"id\"", "\"x\": [{\"id\"") ==
          ": /nodes: 'x' is not a degree of tensor parallelism such as '4'");
  REQUIRE(placementRefusal("\"1\": [{\"id\"", "\"2\": [{\"id\"") == ": /edges: '2' is missing");
  REQUIRE(placementRefusal("\"Adam\"", "\"adam\"") ==
          ": /optimizerAlgorithm: 'adam' is not valid; did you mean 'Adam'?");
  REQUIRE(placementRefusal("false", "0") ==
          ": /nodes/1/0/isTensorParallelized: must be true or false, not a number");
  REQUIRE(placementRefusal("\"bandwidth\": 4294967296", "\"bandwidth\": 0") ==
          ": /bandwidth: must be a number from 1 to 1e+18");
  REQUIRE(placementRefusal("\"sourceId\": -1", "\"sourceId\": 9") ==
          ": /edges/1/0/sourceId: nothing has the id 9");
  REQUIRE(placementRefusal("\"sourceId\": -1", "\"sourceId\": 0") ==
          ": /edges/1: the edges form a cycle through id 0");
  REQUIRE(placementRefusal("{", "{\"fixedPP\": 2,") == ": 'fixedTMPC' is missing");
  REQUIRE(
      placementRefusal("{", R"({"fixedPP": 2, "fixedTMPC": 8, "fixedDP": 1, "numTransformerLayers": 2,)") ==
      ": /fixedTMPC: is not one of the degrees in nodes");
  REQUIRE(
      placementRefusal("{", R"({"fixedPP": 2, "fixedTMPC": 1, "fixedDP": 1, "numTransformerLayers": 1,)") ==
      ": /numTransformerLayers: must be at least fixedPP, 2");
  REQUIRE(refusal(with(with(placement,
                            placement.substr(placement.find("\"1\": [{\"id\""),
                                             placement.find("]},") - placement.find("\"1\": [{\"id\"")),
                            "\"1\": ["),
                       "{\"sourceId\": -1, \"destId\": 0, \"communicationCost\": 7}", ""),
                  readPlacementTask) == ": /nodes/1: has no layer");
}

TEST_CASE("What is not JSON is refused with its line and column", "[plan][placement]") {
  REQUIRE(refusal("", readScheduleTask) == ":1:1: is not JSON");
  REQUIRE(refusal("{\n  \"num_tc\": 1,\n  x}", readScheduleTask) == ":3:3: is not JSON");
  REQUIRE(refusal("{\"a\": \"\xff\"}", readScheduleTask) == ":1:8: is not JSON");
  REQUIRE(refusal("{} {}", readScheduleTask) == ":1:4: is not JSON");
  REQUIRE(refusal(std::string(200000, '['), readScheduleTask) == ": is nested more than 100 levels deep");
  // In a second of the processor, not in time that grows with the square of their number.
  std::string objects = "[";
  for (int i = 0; i < 1000000; ++i) objects += "{},";
  const std::clock_t start = std::clock();
  REQUIRE(refusal(objects + "1]", readScheduleTask) == ": must be an object, not a list");
  REQUIRE(std::clock() - start < 60 * CLOCKS_PER_SEC);
  REQUIRE(refusal(std::string((1 << 24) + 1, ' '), readScheduleTask) == ": is larger than 16777216 bytes");
  REQUIRE_THROWS_WITH(readScheduleTask("/nowhere/x.json"),
                      "/nowhere/x.json: cannot be read: No such file or directory");
  REQUIRE_THROWS_WITH(readPlacementTask("/tmp"), "/tmp: is a folder, not a file");
}

} // namespace partita::test::plan_placement_files
