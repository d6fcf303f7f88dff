#include "partita/core/random.hpp"
#include "partita/core/sha256.hpp"
#include "partita/io/read_run_file.hpp"
#include "partita/io/stage_tensors.hpp"
#include "partita/io/write_run_file.hpp"

#include "data_files.hpp"
#include "support/catch.hpp"
#include "support/matrices.hpp"
#include "support/small_model.hpp"
#include "support/some_progress.hpp"
#include "support/stored_values.hpp"

namespace partita::test::io_run_file {

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

RunFacts someFacts() {
  return {"# the deck\n", classes, {1, 3, 4}, {0.25F}, {4.0F}, {}, {{"version", "1"}, {"host", "here"}}};
}

/// Writes the parameters of a model; for a checkpoint also as first moments.
void write(const SmallModel& model, const std::string& path, bool checkpoint = false, int compression = 0) {
  RunFileContent content;
  content.facts = someFacts();
  content.tensors = networkTensors(model.partition, parameters_kind);
  if (checkpoint) {
    content.progress = someProgress();
    for (const TensorRecord& tensor : networkTensors(model.partition, "first_moment"))
      content.tensors.push_back(tensor);
  }
  content.parts.assign(content.tensors.size(), {});
  std::vector<HostVector> copies;
  for (const auto& local : model.stages) {
    copies.push_back(Kokkos::create_mirror_view_and_copy(HostSpace(), local->stage.parameters()));
    placeValues(content, parameters_kind, local->stage, copies.back().data());
  }
  const std::size_t parameters = networkTensors(model.partition, parameters_kind).size();
  for (std::size_t i = parameters; i < content.tensors.size(); ++i)
    content.parts[i] = content.parts[i - parameters];
  writeRunFile(model.world, path, content, compression);
}

void read(const SmallModel& model, const std::string& path) {
  readParameters(RunFile(path), model.pointers<Stage*>());
}

/// Reads everything that a reader uses.
void readAll(const std::string& path, const SmallModel& model) {
  const RunFile file(path);
  file.verify();
  file.facts();
  if (file.isCheckpoint()) file.progress();
  checkParameters(file, model.partition, true);
}

std::string hashOf(const SmallModel& model) {
  return hashParameters(model.grid, model.pointers<const Stage*>());
}

} // namespace

TEST_CASE("Parameters come back from their file bit for bit, whatever the cuts", "[io]") {
  const ScratchFolder folder;
  const SmallModel written = makeModel(2, 1);
  for (const int compression : {0, 5}) {
    write(written, folder.path("p.h5"), compression > 0, compression);
    RunFile(folder.path("p.h5")).verify();
    for (const std::int64_t stages : {1, 2, 4}) {
      const SmallModel model = makeModel(stages, 2);
      REQUIRE(allParameters(model) != allParameters(written));
      read(model, folder.path("p.h5"));
      CHECK(allParameters(model) == allParameters(written));
      CHECK(hashOf(model) == hashOf(written));
    }
  }
}

TEST_CASE("The hash is SHA-256 over the parameters in layer order", "[io]") {
  const SmallModel model = makeModel(2, 1);
  std::vector<Real> values;
  for (const auto& local : model.stages) {
    for (const double value : packedOf(local->stage.plan().layers, valuesOf(local->stage.parameters())))
      values.push_back(static_cast<Real>(value));
  }
  Sha256 hash;
  hash.update(values.data(), values.size() * sizeof(Real));
  CHECK(hashOf(model) == hash.hex());
  CHECK(hashOf(model) != hashOf(makeModel(2, 2)));
}

TEST_CASE("A file returns its facts and its tensors", "[io]") {
  const ScratchFolder folder;
  write(makeModel(2, 1), folder.path("p.h5"));
  const RunFile file(folder.path("p.h5"));
  CHECK_FALSE(file.isCheckpoint());
  const RunFacts facts = file.facts();
  CHECK(facts.deck == "# the deck\n");
  CHECK(facts.classes == classes);
  CHECK(facts.shape == std::vector<std::int64_t>{1, 3, 4});
  CHECK(facts.shift == std::vector<float>{0.25F});
  CHECK(facts.scale == std::vector<float>{4.0F});
  CHECK(facts.provenance == Provenance{{"host", "here"}, {"version", "1"}});
  REQUIRE(file.tensors().size() == 8);
  CHECK(file.tensors()[0].path() == "/parameters/layer0.dense/weight");
  CHECK(file.tensors()[0].extents == std::vector<std::int64_t>{24, inputs});
  CHECK(file.tensors()[7].path() == "/parameters/layer3.dense/bias");
  CHECK(file.tensors()[7].extents == std::vector<std::int64_t>{classes});
}

TEST_CASE("A checkpoint returns the position of the run", "[io]") {
  const ScratchFolder folder;
  const SmallModel model = makeModel(2, 1);
  write(model, folder.path("c.h5"), true);
  const RunFile file(folder.path("c.h5"));
  CHECK(file.isCheckpoint());
  checkSame(file.progress(), someProgress());
  CHECK(file.tensors().size() == 16);
  const Stage& stage = model.stages[0]->stage;
  const Vector values("partita::test::values", stage.parameters().extent(0));
  CHECK(readStageTensors(file, "first_moment", stage, StoredVector(values)));
  CHECK(valuesOf(values) == valuesOf(stage.parameters()));
  CHECK_FALSE(readStageTensors(file, "second_moment", stage, StoredVector(values)));
}

TEST_CASE("Tensors are listed in the order of the layers, also after the tenth", "[io]") {
  const ScratchFolder folder;
  RunConfig config = smallConfig(1);
  config.network = denseNetwork(std::vector<std::int64_t>(11, 6), Activation::relu);
  write(SmallModel(config, inputs, classes), folder.path("p.h5"));
  const RunFile file(folder.path("p.h5"));
  REQUIRE(file.tensors().size() == 24);
  for (std::size_t i = 0; i < 24; ++i)
    CHECK(file.tensors()[i].layer == "layer" + std::to_string(i / 2) + ".dense");
}

TEST_CASE("Files that do not fit are refused with the tensor's name", "[io]") {
  const ScratchFolder folder;
  const std::string path = folder.path("p.h5");
  write(makeModel(1, 1, 17), path);
  CHECK(messageOf([&] { checkParameters(RunFile(path), makeModel(1, 1).partition, true); }) ==
        path +
            ": '/parameters/layer2.dense/weight' has a different shape in the deck: 16x20 instead of 17x20");

  RunConfig deeper = smallConfig(1);
  deeper.network = denseNetwork({24, 20, 17, 5}, Activation::relu);
  const SmallModel model(deeper, inputs, classes);
  CHECK(messageOf([&] { checkParameters(RunFile(path), model.partition, true); }) ==
        path + ": has no '/parameters/layer4.dense/weight', which the network of the deck has");
}

TEST_CASE("Files that are not there or something else are refused", "[io]") {
  const ScratchFolder folder;
  const SmallModel model = makeModel(1, 1);
  const std::string missing = folder.path("missing.h5"), text = folder.write("text.h5", "hello"),
                    nowhere = folder.path("no/folder/p.h5");
  CHECK(messageOf([&] { RunFile{missing}; }) == missing + ": no such file; its folder has 'text.h5'");
  CHECK(messageOf([&] { RunFile{text}; }) == text + ": cannot be read as HDF5");
  CHECK(messageOf([&] { write(model, nowhere); }) == nowhere + ": cannot be written");
}

TEST_CASE("A checkpoint that was removed is refused with those that are there", "[io]") {
  const ScratchFolder folder;
  const std::string missing = folder.path("step-000000005.h5");
  CHECK(messageOf([&] { RunFile{missing}; }) == missing + ": no such file");
  for (const std::string step : {"10", "20", "30", "40"}) folder.write("step-0000000" + step + ".h5", "");
  folder.write("step-000000050.h5.partial", "");
  CHECK(messageOf([&] { RunFile{missing}; }) ==
        missing + ": no such file; its folder has 'step-000000040.h5', 'step-000000030.h5', "
                  "'step-000000020.h5' and 1 more");
  const std::string nowhere = folder.path("none/p.h5");
  CHECK(messageOf([&] { RunFile{nowhere}; }) ==
        nowhere + ": no such file; there is no folder '" + folder.path("none") + "'");
}

TEST_CASE("A file whose values are not finite is not left behind", "[io]") {
  const ScratchFolder folder;
  const SmallModel model = makeModel(1, 1);
  const Vector parameters = model.stages[0]->stage.parameters();
  Kokkos::deep_copy(Kokkos::subview(parameters, std::make_pair<std::size_t, std::size_t>(3, 4)),
                    std::numeric_limits<Real>::quiet_NaN());
  const std::string path = folder.path("p.h5");
  for (const int compression : {0, 4}) {
    CHECK(messageOf([&] { write(model, path, false, compression); }) ==
          path + ": '/parameters/layer0.dense/weight' contains values that are not finite");
    CHECK_FALSE(std::filesystem::exists(path));
  }
}

TEST_CASE("Another character in the deck of a file is damage", "[io]") {
  const ScratchFolder folder;
  const std::string path = folder.path("p.h5");
  write(makeModel(1, 1), path);
  std::string bytes = folder.read("p.h5");
  const std::size_t place = bytes.find("# the deck");
  REQUIRE(place != std::string::npos);
  bytes.replace(place, 10, "# the neck");
  folder.write("p.h5", bytes);
  CHECK_THROWS_AS(RunFile(path).facts(), DamagedFile);
  CHECK(messageOf([&] { RunFile(path).facts(); }) == path + ": the deck in this file is damaged");
}

TEST_CASE("A file whose writing was interrupted is incomplete", "[io]") {
  const ScratchFolder folder;
  const std::string path = folder.path("p.h5");
  write(makeModel(1, 1), path);
  {
    const Hdf5File file(H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT));
    changeAttribute(file.get(), "complete", 0, path);
  }
  CHECK(messageOf([&] { RunFile{path}; }) == path + ": is incomplete, because writing it was interrupted");
}

TEST_CASE("Damage is noticed wherever it is", "[io]") {
  const ScratchFolder folder;
  const SmallModel model = makeModel(2, 1);
  write(model, folder.path("whole.h5"), true);
  const std::string whole = folder.read("whole.h5");
  const Values wanted = allParameters(model);
  const RandomStream random(5, Stream::shuffle, 0);

  SECTION("cut short") {
    for (std::uint32_t i = 0; i < 40; ++i) {
      const std::string path =
          folder.write("cut.h5", whole.substr(0, random.below(i, static_cast<std::uint32_t>(whole.size()))));
      CHECK_THROWS_AS(readAll(path, model), UserError);
    }
  }
  SECTION("a bit flipped") {
    int noticed = 0;
    for (std::uint32_t i = 0; i < 400; ++i) {
      std::string damaged = whole;
      damaged[random.below(2 * i, static_cast<std::uint32_t>(whole.size()))] ^=
          static_cast<char>(1U << random.below(2 * i + 1, 8));
      const std::string path = folder.write("flipped.h5", damaged);
      try {
        readAll(path, model);
        const SmallModel other = makeModel(1, 9); // gaps between the parts of a file are ignored
        read(other, path);
        CHECK(allParameters(other) == wanted);
      } catch (const UserError& error) {
        ++noticed;
        CHECK(std::string(error.what()).rfind(path, 0) == 0);
      }
    }
    CHECK(noticed > 200);
  }
}

} // namespace partita::test::io_run_file
