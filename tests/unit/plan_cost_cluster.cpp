#include "partita/config/deck.hpp"
#include "partita/config/user_error.hpp"
#include "partita/core/log.hpp"
#include "partita/plan/cost/cluster_file.hpp"
#include "partita/plan/cost/cost_model.hpp"
#include "partita/plan/cost/prediction_notes.hpp"

#include <cmath>
#include <string>
#include <vector>

#include "support/catch.hpp"

namespace partita::test::plan_cost_cluster {

namespace {

using Catch::Matchers::ContainsSubstring;

std::vector<std::string> errorsOf(const std::string& text) {
  try {
    parseCluster(text, "c.toml");
  } catch (const UserError& error) {
    return error.messages();
  }
  return {};
}

void checkOnlyError(const std::string& text, const std::string& expected) {
  const std::vector<std::string> errors = errorsOf(text);
  INFO(text << " should give: " << expected);
  REQUIRE(errors.size() == 1);
  CHECK_THAT(errors.front(), ContainsSubstring(expected));
}

/// Two equal beginnings of rows, with different times behind them.
struct Repeated {
  std::string section, identity, first, second, expected;

  std::string text() const {
    const std::string row = "[[" + section + "]]\n" + identity;
    return row + first + row + second;
  }
};

const std::string rates = "forward = 1e9\nbackward = 1e9\n";

} // namespace

TEST_CASE("Numbers of a cluster file that no machine has are refused", "[cost]") {
  const std::string rate = " is out of range (allowed [1, 1e+18]";
  const std::string time = " is out of range (allowed [0, 1000000000]";
  for (const std::string number : {"1e-300", "1e300", "0", "-1"}) {
    checkOnlyError("[compute]\nflops = " + number + "\n", "c.toml:2:9: compute/flops: ");
    checkOnlyError("[compute]\nflops = " + number + "\n", rate);
    checkOnlyError("[offload]\nhost_bandwidth = " + number + "\n", rate);
    checkOnlyError("[offload]\nfile_bandwidth = " + number + "\n", rate);
    checkOnlyError("[[link]]\nbandwidth = " + number + "\n", rate);
    checkOnlyError("[[kernel]]\ntype = 'dense'\nbackward = 1\nforward = " + number + "\n", rate);
    checkOnlyError("[[worker]]\ndeck = 'a'\nrank = 1\nsamples_per_second = " + number + "\n",
                   "is out of range");
    checkOnlyError("[[concurrency]]\nranks = 2\nfactor = " + number + "\n", "is out of range");
    checkOnlyError("[[message]]\nbytes = 1\nseconds = " + number + "\n", "is out of range");
  }
  for (const std::string number : {"1e308", "-1"}) {
    checkOnlyError("[compute]\nhalf_size = " + number + "\n", time);
    checkOnlyError("[compute]\nseconds_per_update = " + number + "\n", time);
    checkOnlyError("[compute]\nseconds_per_reduced_byte = " + number + "\n", time);
    checkOnlyError("[compute]\nseconds_per_copied_byte = " + number + "\n", time);
    checkOnlyError("[[link]]\nbandwidth = 1\nlatency = " + number + "\n", time);
    checkOnlyError("[[network]]\ndeck = 'a'\nseconds_per_sample = " + number + "\n",
                   "c.toml:3:22: network[0]/seconds_per_sample: ");
    checkOnlyError("[[network]]\ndeck = 'a'\nseconds_per_update = " + number + "\n", time);
    checkOnlyError("[[worker]]\ndeck = 'a'\nrank = 1\nsamples_per_second = 1\noverhead = " + number + "\n",
                   time);
    checkOnlyError("[node]\nmemory = " + number + "\n", "is out of range");
    checkOnlyError("[contention]\nhalo = " + number + "\n", "is out of range");
    checkOnlyError("[[kernel]]\ntype = 'dense'\n" + rates + "rows = " + number + "\n", "is out of range");
    checkOnlyError("[[message]]\nseconds = 1\nbytes = " + number + "\n", "is out of range");
  }
}

TEST_CASE("Predictions are finite at the ends of the ranges of a cluster file", "[cost]") {
  const RunConfig deck = parseDeck("[network]\nlayers = [{ type = \"dense\", units = 4096, repeat = 4 }, "
                                   "{ type = \"dense\" }]\n[training]\nbatch = 4096\n",
                                   "deck");
  const std::string slow =
      "[compute]\nflops = 1\nhalf_size = 1e9\nseconds_per_update = 1e9\n"
      "seconds_per_reduced_byte = 1e9\nseconds_per_copied_byte = 1e9\n"
      "[[link]]\nlatency = 1e9\nbandwidth = 1\n[[concurrency]]\nranks = 2\nfactor = 1e-6\n";
  const std::string fast = "[compute]\nflops = 1e18\nhalf_size = 0\n[[link]]\nbandwidth = 1e18\n";
  const std::string steep = "[[message]]\nbytes = 1\nseconds = 1e-18\n[[message]]\nbytes = 2\nseconds = 1e9\n"
                            "[[kernel]]\ntype = 'dense'\nforward = 1e18\nbackward = 1\n";
  const std::string known = "[[network]]\ndeck = 'a'\nseconds_per_sample = 1e9\n";
  for (const std::string& text : {slow, fast, steep, slow + known, fast + known}) {
    const Cluster cluster = parseCluster(text, "c.toml");
    for (const CostMode mode : {CostMode::exact, CostMode::paper}) {
      CostTask task = costTask(deck, {4096}, 10, 100000000);
      task.timing = cluster.timing("a", 0);
      const CostModel model(task, cluster, mode);
      for (const CostStrategy strategy : {CostStrategy::data, CostStrategy::filter, CostStrategy::pipeline}) {
        const Prediction prediction = model.predict(strategy, 4);
        INFO(text << nameOf(strategy) << " " << prediction.detail);
        REQUIRE(prediction.feasible());
        CHECK(std::isfinite(prediction.epochSeconds()));
        CHECK(prediction.stepSeconds() > 0.0);
      }
    }
  }
}

TEST_CASE("Times that hours cannot express are in days", "[cost]") {
  CHECK(formatSeconds(999999999) == "277777:46:39");
  CHECK(formatSeconds(1e9) == "1.2e+04 days");
  CHECK(formatSeconds(1e300) == "1.2e+295 days");
  CHECK(formatSeconds(HUGE_VAL) == "inf days");
}

TEST_CASE("A cluster file without a name has that of the file", "[cost]") {
  const std::string numbers = "[compute]\nflops = 5e13\n";
  const Cluster unnamed = parseCluster(numbers, "folder/mine.toml");
  CHECK(unnamed.name == "mine");
  CHECK(unnamed.source == "folder/mine.toml");
  const Cluster named = parseCluster("[cluster]\nname = 'ours'\n" + numbers, "folder/mine.toml");
  CHECK(named.name == "ours");
  CHECK(named.source == "folder/mine.toml");
  CHECK(parseCluster("[cluster]\nsource = 'a paper'\n", "mine.toml").source == "a paper");
  CHECK(parseCluster(clusterText(unnamed), "other.toml").name == "mine");
  CHECK(Cluster{}.source == "assumed");
}

TEST_CASE("A kernel needs a type of layer", "[cost]") {
  checkOnlyError("[[kernel]]\ntype = 'dens'\n" + rates,
                 "c.toml:2:8: kernel[0]/type: unknown choice 'dens' (allowed 'dense', ");
  checkOnlyError("[[kernel]]\ntype = 'dens'\n" + rates, "did you mean 'dense'?");
  checkOnlyError("[[kernel]]\ntype = 1\n" + rates, "kernel[0]/type: expected text, found the integer 1");
  CHECK(parseCluster("[[kernel]]\ntype = 'conv2d'\n" + rates, "c.toml").kernels.front().type == "conv2d");
}

TEST_CASE("Rows of a cluster file that contradict each other are refused", "[cost]") {
  const std::string cure = "; change or remove one of the rows";
  const std::vector<Repeated> all{
      {"link", "", "bandwidth = 1e9\n", "bandwidth = 1e8\n",
       "c.toml:3:1: link[1]: has the same `ranks` as link[0]"},
      {"link", "ranks = 4\n", "bandwidth = 1e9\n", "bandwidth = 1e8\n",
       "c.toml:4:1: link[1]: has the same `ranks` as link[0]"},
      {"staged_link", "ranks = 4\n", "bandwidth = 1e9\n", "bandwidth = 1e8\n",
       "staged_link[1]: has the same `ranks` as staged_link[0]"},
      {"message", "ranks = 2\nbytes = 64\n", "seconds = 1e-6\n", "seconds = 1e-5\n",
       "message[1]: has the same `ranks` and `bytes` as message[0]"},
      {"message", "bytes = 64\n", "seconds = 1e-6\n", "seconds = 1e-5\n",
       "message[1]: has the same `ranks` and `bytes` as message[0]"},
      {"network", "deck = 'base'\n", "seconds_per_sample = 1e-3\n", "seconds_per_sample = 2e-3\n",
       "c.toml:4:1: network[1]: has the same `deck`, `parameters`, `flops_per_sample` and `precision` as "
       "network[0]"},
      {"network", "deck = ''\nparameters = 7\n", "batch = 8\n", "batch = 16\n",
       "network[1]: has the same `deck`, `parameters`, `flops_per_sample` and `precision` as network[0]"},
      {"worker", "deck = 'a'\nrank = 1\n", "samples_per_second = 1\n", "samples_per_second = 2\n",
       "worker[1]: has the same `deck` and `rank` as worker[0]"},
      {"kernel", "type = 'dense'\nrows = 8\n", rates, rates,
       "kernel[1]: has the same `type`, `rows`, `inputs`, `outputs` and `window` as kernel[0]"},
      {"concurrency", "ranks = 2\n", "factor = 1\n", "factor = 2\n",
       "concurrency[1]: has the same `ranks` as concurrency[0]"}};
  for (const Repeated& rows : all) checkOnlyError(rows.text(), rows.expected + cure);
  // The third row is compared with the first.
  checkOnlyError("[[link]]\nbandwidth = 1\n[[link]]\nranks = 4\nbandwidth = 1\n[[link]]\nbandwidth = 1\n",
                 "c.toml:6:1: link[2]: has the same `ranks` as link[0]");
}

TEST_CASE("Rows of a cluster file that differ in a key are accepted", "[cost]") {
  const std::vector<Repeated> all{
      {"link", "bandwidth = 1e9\n", "ranks = 4\n", "ranks = 8\n", ""},
      {"staged_link", "bandwidth = 1e9\n", "ranks = 4\n", "", ""},
      {"message", "seconds = 1e-6\n", "bytes = 64\n", "bytes = 128\n", ""},
      {"message", "bytes = 64\nseconds = 1e-6\n", "ranks = 2\n", "ranks = 4\n", ""},
      {"network", "parameters = 7\n", "deck = 'a'\n", "deck = 'b'\n", ""},
      {"network", "deck = 'a'\n", "parameters = 7\n", "parameters = 8\n", ""},
      {"network", "deck = 'a'\n", "flops_per_sample = 1e9\n", "flops_per_sample = 2e9\n", ""},
      {"network", "deck = 'a'\n", "precision = 'float'\n", "precision = 'bf16'\n", ""},
      {"worker", "deck = 'a'\nsamples_per_second = 1\n", "rank = 1\n", "rank = 2\n", ""},
      {"kernel", "type = 'dense'\n" + rates, "inputs = 8\n", "inputs = 9\n", ""},
      {"kernel", "type = 'conv2d'\n" + rates, "window = 1\n", "window = 9\n", ""},
      {"concurrency", "factor = 2\n", "ranks = 2\n", "ranks = 4\n", ""}};
  for (const Repeated& rows : all) {
    INFO(rows.text());
    CHECK(errorsOf(rows.text()).empty());
  }
}

TEST_CASE("Larger messages that take less time are refused", "[cost]") {
  const auto row = [](int ranks, int bytes, const std::string& seconds) {
    return "[[message]]\nranks = " + std::to_string(ranks) + "\nbytes = " + std::to_string(bytes) +
           "\nseconds = " + seconds + "\n";
  };
  const std::string why = ", but takes less time; times of messages must not decrease with size";
  checkOnlyError(row(2, 64, "2e-6") + row(2, 128, "1e-6"),
                 "c.toml:5:1: message[1]: is of more bytes than message[0]" + why);
  checkOnlyError(row(2, 256, "1e-6") + row(2, 64, "1e-6") + row(2, 128, "2e-6"), // in any order
                 "c.toml:1:1: message[0]: is of more bytes than message[2]" + why);
  CHECK(errorsOf(row(2, 64, "1e-6") + row(2, 128, "1e-6")).empty());
  CHECK(errorsOf(row(2, 64, "2e-6") + row(4, 128, "1e-6")).empty());
  CHECK(parseCluster("[[link]]\nbandwidth = 1e9\n", "c.toml").links.of(2).latency == 0.0); // as documented
}

TEST_CASE("Rows without a key are not also refused as repeated", "[cost]") {
  const std::vector<std::string> errors = errorsOf("[[message]]\nseconds = 1\n[[message]]\nseconds = 1\n");
  REQUIRE(errors.size() == 2);
  for (const std::string& error : errors) CHECK_THAT(error, ContainsSubstring("`bytes` is missing"));
}

TEST_CASE("The time of a network is that of its own FLOPs and precision", "[cost]") {
  const Cluster cluster = parseCluster("[[network]]\ndeck = 'small'\nparameters = 7\nseconds_per_sample = 1\n"
                                       "seconds_per_update = 2\nflops_per_sample = 100\nprecision = 'float'\n"
                                       "[[network]]\ndeck = 'large'\nparameters = 7\nseconds_per_sample = 5\n"
                                       "flops_per_sample = 400\nprecision = 'float'\n"
                                       "[[network]]\ndeck = 'old'\nparameters = 8\nseconds_per_sample = 3\n",
                                       "c.toml");
  const auto seconds = [&](const std::string& deck, double flops, const std::string& precision) {
    return cluster.timing(deck, 7, flops, precision).seconds_per_sample;
  };
  CHECK(seconds("", 100, "float") == 1.0);
  CHECK(seconds("", 400, "float") == 5.0);
  CHECK(seconds("small", 400, "float") == 5.0); // its images are larger than in the calibration
  CHECK(seconds("small", 200, "float") == 2.0);
  CHECK(seconds("large", 200, "float") == 2.5);
  CHECK(seconds("", 0, "float") == 1.0);
  CHECK(seconds("", 100, "bf16") == 0.0);
  CHECK(cluster.timing("small", 7, 100, "bf16").seconds_per_update == 0.0);
  // A row that does not say what it has holds for all.
  CHECK(cluster.timing("", 8, 100, "bf16").seconds_per_sample == 3.0);
  const Cluster read = parseCluster(clusterText(cluster), "again.toml");
  REQUIRE(read.networks.size() == 3);
  CHECK(read.networks[1].flops_per_sample == 400.0);
  CHECK(read.networks[1].precision == "float");
  CHECK(read.networks[2].flops_per_sample == 0.0);
  CHECK(read.networks[2].precision.empty());
  checkOnlyError("[[network]]\ndeck = 'a'\nprecision = 'half'\n", "unknown choice 'half'");
  checkOnlyError("[[network]]\ndeck = 'a'\nflops_per_sample = -1\n", "is out of range");
}

TEST_CASE("A cluster file may have the rates of products in 16 bits", "[cost][half]") {
  const std::string given = "[compute]\nflops = 1e12\nfp16_flops = 3e12\n";
  const Cluster read = parseCluster(clusterText(parseCluster(given, "c.toml")), "c.toml");
  CHECK(read.knownFlops(Precision::single) == 1e12);
  CHECK(read.knownFlops(Precision::fp16) == 3e12);
  CHECK(read.knownFlops(Precision::bf16) == 0.0);
  checkOnlyError("[compute]\nbf16_flops = 0\n", "compute/bf16_flops: the integer 0 is out of range");
  const auto noted = [](const std::string& precision, const Cluster& cluster, double seconds = 0.0) {
    const RunConfig deck = parseDeck(
        "[network]\nlayers = [{ type = \"dense\" }]\n[run]\nprecision = \"" + precision + "\"\n", "d");
    CostTask task = costTask(deck, {4}, 10, 100);
    task.timing.seconds_per_sample = seconds;
    return noteOnProducts(task, cluster).value_or("");
  };
  CHECK(noted("float", read).empty());
  CHECK(noted("fp16", read).empty());
  CHECK_THAT(noted("bf16", read),
             ContainsSubstring("as fast as in float, because c has no compute/bf16_flops"));
  CHECK(noted("bf16", read, 1e-3).empty()); // the network was timed in bf16
}

TEST_CASE("Ranks beyond the nodes that a cluster file knows are announced", "[cost]") {
  const std::string node = "[node]\nranks = 2\n", inside = "[[link]]\nranks = 2\nbandwidth = 1e9\n",
                    message = "[[message]]\nranks = 2\nbytes = 64\nseconds = 1e-6\n";
  const auto note = [](const std::string& text, std::int64_t ranks) {
    return noteOnLinks(parseCluster(text, "c.toml"), ranks).value_or("");
  };
  for (const std::string& rows : {inside, message}) {
    CHECK(note(node + rows, 2).empty());
    CHECK_THAT(
        note(node + rows, 3),
        ContainsSubstring("node/ranks: 3 ranks need several nodes of 2 ranks, but c has messages of one"));
  }
  CHECK(note(node + inside + "[[link]]\nbandwidth = 1e8\n", 3).empty());
  CHECK(note(node + message + "[[message]]\nranks = 4\nbytes = 64\nseconds = 1e-5\n", 8).empty());
  CHECK(note(node, 3).empty()); // assumed, which is said elsewhere
  const Cluster cluster = parseCluster(node + inside, "c.toml");
  CHECK_FALSE(noteOnNode(cluster, 2));
  CHECK_THAT(noteOnNode(cluster, 4).value_or(""), ContainsSubstring("4 ranks of this run share a node"));
}

TEST_CASE("No row of a written cluster file contradicts another", "[cost]") {
  Cluster cluster;
  cluster.networks = {{"a", 1.0, 0, 7}, {"a", 2.0, 0, 7}, {"a", 3.0, 0, 8}, {"b", 4.0, 0, 7}};
  cluster.workers = {{"a", 1, 0.0, 1.0}, {"a", 1, 0.0, 2.0}, {"a", 2, 0.0, 3.0}};
  cluster.kernels = {{"dense", 12845056.0, 8.0, 8.0, 1.0, 1e9, 1e9},
                     {"dense", 12845057.0, 8.0, 8.0, 1.0, 1e9, 1e9}};
  const Cluster read = parseCluster(clusterText(cluster), "c.toml");
  REQUIRE(read.networks.size() == 3);
  CHECK(read.networks.front().seconds_per_sample == 1.0); // the one that was found before
  CHECK(read.networks.back().deck == "b");
  REQUIRE(read.workers.size() == 2);
  CHECK(read.workers.front().samples_per_second == 1.0);
  REQUIRE(read.kernels.size() == 2);
  CHECK(read.kernels.back().rows == 12845057.0);
}

} // namespace partita::test::plan_cost_cluster
