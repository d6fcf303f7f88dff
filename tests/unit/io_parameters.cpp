#include "partita/core/sha256.hpp"
#include "partita/io/parameters_file.hpp"

#include "data_files.hpp"
#include "support/catch.hpp"
#include "support/matrices.hpp"
#include "support/small_model.hpp"

using namespace partita;
using namespace partita::test;

namespace {

constexpr std::int64_t inputs = 12, classes = 5;

SmallModel makeModel(std::int64_t stages, std::int64_t seed, std::int64_t width = 16) {
  RunConfig config = smallConfig(stages);
  config.run.seed = seed;
  config.network = denseNetwork({24, 20, width}, Activation::relu);
  return {config, inputs, classes};
}

Values allParameters(const SmallModel& model) {
  Values all;
  for (const auto& local : model.stages) {
    const Values values = valuesOf(local->stage.parameters());
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

void write(const SmallModel& model, const std::string& path) {
  writeParameters(path, "# the deck\n", model.partition, model.grid, model.pointers<const Stage*>());
}

void read(const SmallModel& model, const std::string& path) {
  readParameters(path, model.grid, model.pointers<Stage*>());
}

std::string hashOf(const SmallModel& model) {
  return hashParameters(model.grid, model.pointers<const Stage*>());
}

} // namespace

TEST_CASE("Parameters come back from their file bit for bit, whatever the cuts", "[io]") {
  const ScratchFolder folder;
  const SmallModel written = makeModel(2, 1);
  write(written, folder.path("p.h5"));
  for (const std::int64_t stages : {1, 2, 4}) {
    const SmallModel model = makeModel(stages, 2);
    REQUIRE(allParameters(model) != allParameters(written));
    read(model, folder.path("p.h5"));
    CHECK(allParameters(model) == allParameters(written));
    CHECK(hashOf(model) == hashOf(written));
  }
}

TEST_CASE("The hash is SHA-256 over the parameters in layer order", "[io]") {
  const SmallModel model = makeModel(2, 1);
  std::vector<Real> values;
  for (const double value : allParameters(model)) values.push_back(static_cast<Real>(value));
  Sha256 hash;
  hash.update(values.data(), values.size() * sizeof(Real));
  CHECK(hashOf(model) == hash.hex());
  CHECK(hashOf(model) != hashOf(makeModel(2, 2)));
}

TEST_CASE("A file tells its deck and its tensors", "[io]") {
  const ScratchFolder folder;
  write(makeModel(2, 1), folder.path("p.h5"));
  const StoredParameters stored = inspectParameters(folder.path("p.h5"));
  CHECK(stored.deck == "# the deck\n");
  REQUIRE(stored.tensors.size() == 8);
  CHECK(stored.tensors[0].layer == "layer0.dense");
  CHECK(stored.tensors[0].name == "weight");
  CHECK(stored.tensors[0].extents == std::vector<std::int64_t>{24, inputs});
  CHECK(stored.tensors[7].layer == "layer3.dense");
  CHECK(stored.tensors[7].name == "bias");
  CHECK(stored.tensors[7].extents == std::vector<std::int64_t>{classes});
}

TEST_CASE("Tensors are told in the order of the layers, beyond the tenth too", "[io]") {
  const ScratchFolder folder;
  RunConfig config = smallConfig(1);
  config.network = denseNetwork(std::vector<std::int64_t>(11, 6), Activation::relu);
  write(SmallModel(config, inputs, classes), folder.path("p.h5"));
  const StoredParameters stored = inspectParameters(folder.path("p.h5"));
  REQUIRE(stored.tensors.size() == 24);
  for (std::size_t i = 0; i < 24; ++i)
    CHECK(stored.tensors[i].layer == "layer" + std::to_string(i / 2) + ".dense");
}

TEST_CASE("Files that do not fit are refused with the tensor's name", "[io]") {
  const ScratchFolder folder;
  const std::string path = folder.path("p.h5");
  write(makeModel(1, 1, 17), path);
  CHECK(messageOf([&] { read(makeModel(1, 1), path); }) ==
        path + ": '/layer2.dense/weight' has another shape than the deck");

  RunConfig deeper = smallConfig(1);
  deeper.network = denseNetwork({24, 20, 17, 5}, Activation::relu);
  const SmallModel model(deeper, inputs, classes);
  CHECK(messageOf([&] { read(model, path); }) == path + ": has no '/layer4.dense/weight'");
}

TEST_CASE("Files that are not there or something else are refused", "[io]") {
  const ScratchFolder folder;
  const SmallModel model = makeModel(1, 1);
  const std::string missing = folder.path("missing.h5"), text = folder.write("text.h5", "hello"),
                    nowhere = folder.path("no/folder/p.h5");
  for (const std::string& path : {missing, text}) {
    CHECK(messageOf([&] { read(model, path); }) == path + ": cannot be read as HDF5");
    CHECK(messageOf([&] { inspectParameters(path); }) == path + ": cannot be read as HDF5");
  }
  CHECK(messageOf([&] { write(model, nowhere); }) == nowhere + ": cannot be written");
}
