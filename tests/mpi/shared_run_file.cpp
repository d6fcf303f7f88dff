#include "partita/io/shared_run_file.hpp"

#include "partita/comm/agree.hpp"
#include "partita/io/stage_tensors.hpp"
#include "partita/io/write_run_file.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>

#include "shared_folder.hpp"
#include "small_run.hpp"
#include "support/catch.hpp"
#include "support/matrices.hpp"
#include "support/some_progress.hpp"

namespace partita::test::shared_run_file {

namespace {

namespace fs = std::filesystem;

/// As many replicas of two stages as the ranks allow.
SmallRun makeRun(int seed, const Overrides& more = {}) {
  return {everyone(), smallDeck(Overrides{"strategy/kind=pipeline", "strategy/stages=2",
                                          "strategy/replicas=0", "run/seed=" + std::to_string(seed)} +
                                more)};
}

/// Writes the parameters of a run, those of `copies` replicas, and the statistics of the first one.
/// Collective.
void write(const SmallRun& run, const std::string& path, const std::optional<RunProgress>& progress = {},
           int copies = 1) {
  RunFileContent content;
  content.facts = {"# a deck\n", 10, {4, 3}, {0.25F}, {4.0F}, {7, 9}, {{"version", "1"}, {"host", "here"}},
                   {0.75, 0.25}};
  content.progress = progress;
  content.tensors = networkTensors(run.partition, statistics_kind);
  for (int replica = 0; replica < copies; ++replica) {
    for (TensorRecord& tensor : networkTensors(run.partition, parameters_kind)) {
      tensor.kind = kindOfReplica(parameters_kind, replica);
      content.tensors.push_back(std::move(tensor));
    }
  }
  content.parts.assign(content.tensors.size(), {});
  const int own = run.grid.replica();
  std::vector<std::vector<Real>> values;
  for (const auto& local : run.stages) {
    const auto place = [&](const std::string& kind, const StoredVector& from) {
      values.push_back(from.values(ExecSpace()));
      placeValues(content, kind, local->stage, values.back().data());
    };
    if (own < copies) place(kindOfReplica(parameters_kind, own), local->stage.masters());
    if (own == 0) place(statistics_kind, StoredVector(local->stage.statistics()));
  }
  writeRunFile(everyone(), path, content, 0);
}

std::vector<Stage*> stagesOf(const SmallRun& run) {
  std::vector<Stage*> stages;
  for (const auto& local : run.stages) stages.push_back(&local->stage);
  return stages;
}

std::int64_t openFiles() {
  return H5Fget_obj_count(static_cast<hid_t>(H5F_OBJ_ALL), H5F_OBJ_FILE);
}

} // namespace

TEST_CASE("Every rank learns what rank 0 reads of a file", "[io]") {
  const SharedFolder folder;
  const std::string path = folder.file("file.h5");
  write(makeRun(1), path, someProgress());
  const RunFile own(path);
  everyone().barrier();
  const std::int64_t before = openFiles();
  const SharedRunFile shared(everyone(), path);
  CHECK(openFiles() - before == (everyone().rank() == 0 ? 1 : 0));
  CHECK(shared.isCheckpoint());
  REQUIRE(shared.tensors().size() == own.tensors().size());
  for (std::size_t i = 0; i < own.tensors().size(); ++i) {
    CHECK(shared.tensors()[i].path() == own.tensors()[i].path());
    CHECK(shared.tensors()[i].extents == own.tensors()[i].extents);
  }
  const RunFacts facts = own.facts();
  CHECK(shared.facts().deck == facts.deck);
  CHECK(shared.facts().classes == facts.classes);
  CHECK(shared.facts().shape == facts.shape);
  CHECK(shared.facts().shift == facts.shift);
  CHECK(shared.facts().scale == facts.scale);
  CHECK(shared.facts().label_values == facts.label_values);
  CHECK(shared.facts().provenance == facts.provenance);
  CHECK(shared.facts().exit_weights == facts.exit_weights);
}

TEST_CASE("Every rank learns the position of a run from rank 0", "[io]") {
  const SharedFolder folder;
  const std::string path = folder.file("file.h5");
  write(makeRun(1), path, someProgress());
  const SharedRunFile shared(everyone(), path);
  REQUIRE(shared.progress());
  checkSame(*shared.progress(), someProgress());
}

TEST_CASE("One replica of a stage opens a file, and all get its values", "[io]") {
  const SharedFolder folder;
  const std::string path = folder.file("file.h5");
  const SmallRun written = makeRun(1), run = makeRun(2);
  write(written, path);
  REQUIRE(run.ownParameters() != written.ownParameters());
  const std::int64_t before = openFiles();
  SharedRunFile file(everyone(), path);
  CHECK_FALSE(file.progress());
  file.open(&run.grid.peers(), run.grid.ownsStages());
  CHECK(openFiles() - before == (run.grid.ownsStages() && run.grid.replica() == 0 ? 1 : 0));
  everyone().barrier();
  if (everyone().rank() == 0) fs::remove(path); // who has not opened it cannot open it any more
  everyone().barrier();
  readParameters(file, stagesOf(run));
  CHECK(run.ownParameters() == written.ownParameters());
}

TEST_CASE("A file that was replaced after rank 0 had read its facts is refused", "[io]") {
  const SharedFolder folder;
  const std::string path = folder.file("file.h5");
  const SmallRun run = makeRun(1);
  write(run, path);
  SharedRunFile file(everyone(), path);
  RunFileContent other;
  other.facts = {"# a deck\n", 10, {4}, {0.0F}, {1.0F}, {}, {{"version", "1"}}};
  other.tensors = {{parameters_kind, "layer0.dense", "weight", {1, 3}, "outputs, inputs"}};
  other.parts.resize(1);
  const std::vector<Real> values{1, 2, 3};
  if (everyone().rank() == 0) other.place(0, values.data());
  writeRunFile(everyone(), folder.file("other.h5"), other, 0);
  if (everyone().rank() == 0)
    fs::rename(folder.file("other.h5"), path); // rank 0 still has the first one open
  everyone().barrier();
  const auto open = [&] { file.open(&run.grid.peers(), run.grid.ownsStages()); };
  if (run.grid.ownsStages() && run.grid.group() > 0 && run.grid.replica() == 0)
    CHECK_THROWS_WITH(open(), path + ": was replaced while ranks opened it");
  else
    CHECK_NOTHROW(open());
  if (run.grid.ownsStages() && run.grid.group() == 0) CHECK_NOTHROW(readParameters(file, stagesOf(run)));
  everyone().barrier(); // the folder vanishes
}

TEST_CASE("Replicas with values of their own open a file each", "[io]") {
  const SharedFolder folder;
  const std::string path = folder.file("file.h5");
  const SmallRun written = makeRun(1), run = makeRun(2);
  write(written, path);
  const std::int64_t before = openFiles();
  SharedRunFile file(everyone(), path);
  file.open(nullptr, run.grid.ownsStages());
  CHECK(openFiles() - before == (run.grid.ownsStages() ? 1 : 0));
  readParameters(file, stagesOf(run));
  CHECK(run.ownParameters() == written.ownParameters());
  everyone().barrier(); // the folder vanishes
}

TEST_CASE("Statistics come back from a file, and to each replica parameters of its own", "[io]") {
  const Overrides norms{"strategy/stages=1", "network/layers=[{type='dense',units=9},{type='batch-norm'},"
                                             "{type='dense'}]"};
  const SharedFolder folder;
  const std::string path = folder.file("file.h5");
  const SmallRun written = makeRun(1, norms), run = makeRun(2, norms);
  Stage &from = written.stages.front()->stage, &to = run.stages.front()->stage;
  std::vector<Real> values = written.ownParameters();
  for (Real& value : values) value *= static_cast<Real>(2 + everyone().rank());
  from.setParameters(ExecSpace(), values.data());
  assign(from.statistics(), normals(18, 5));
  write(written, path, {}, everyone().size());
  SharedRunFile file(everyone(), path);
  file.open(nullptr, run.grid.ownsStages());
  readParameters(file, stagesOf(run), run.grid.replica());
  CHECK(run.ownParameters() == values);
  CHECK(valuesOf(to.statistics()) == valuesOf(from.statistics()));
  everyone().barrier(); // the folder vanishes
}

TEST_CASE("What one replica cannot read, all replicas of its stage refuse", "[io]") {
  const SharedFolder folder;
  const std::string path = folder.file("file.h5");
  const SmallRun run = makeRun(1);
  write(run, path);
  SharedRunFile file(everyone(), path);
  file.open(&run.grid.peers(), run.grid.ownsStages());
  const bool fails = run.grid.group() == 0;
  std::vector<Real> values(3, static_cast<Real>(1));
  std::string message;
  try {
    file.fill(values, [&](const RunFile&) {
      if (fails) throw DamagedFile("the file is damaged");
      values = {2, 3, 4};
    });
  } catch (const AgreedError&) {
    FAIL("the ranks of other stages do not know of it");
  } catch (const UserError& error) {
    message = error.what();
  }
  CHECK(message == (fails ? "the file is damaged" : ""));
  if (!fails) CHECK(values == std::vector<Real>{2, 3, 4});
  everyone().barrier();
}

TEST_CASE("A file that rank 0 cannot open is refused by all ranks", "[io]") {
  const SharedFolder folder;
  CHECK_THROWS_AS(SharedRunFile(everyone(), folder.file("none.h5")), AgreedError);
}

TEST_CASE("A small file is verified by rank 0, a large one by more ranks", "[io]") {
  const SharedFolder folder;
  const std::string path = folder.file("file.h5");
  write(makeRun(1), path);
  CHECK(verifiersOf(everyone(), path) == 1);
  if (everyone().rank() == 0) CHECK_NOTHROW(verifyShare(everyone(), 1, path));
  if (everyone().rank() != 0) CHECK_NOTHROW(verifyShare(everyone(), 1, folder.file("none.h5")));
  verifyTogether(everyone(), path);
  CHECK_THROWS_AS(verifyTogether(everyone(), folder.file("none.h5")), AgreedError);
  if (everyone().rank() == 0) {
    std::ofstream(folder.file("large")).put('x');
    fs::resize_file(folder.file("large"), std::uintmax_t{150} << 20); // takes no room on the disk
  }
  CHECK(verifiersOf(everyone(), folder.file("large")) == std::min(2, everyone().size()));
}

TEST_CASE("Ranks that verify a file leave out none of its data sets", "[io]") {
  const SharedFolder folder;
  const std::string path = folder.file("file.h5");
  write(makeRun(1), path);
  if (everyone().rank() == 0) {
    const Hdf5File file(H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT));
    const Hdf5Dataset dataset(H5Dopen2(file.get(), "/input/scale", H5P_DEFAULT));
    changeAttribute(dataset.get(), "crc32", 1, path);
  }
  for (int verifiers = 1; verifiers <= everyone().size(); ++verifiers) {
    everyone().barrier();
    CHECK_THROWS_AS(collectively(everyone(), [&] { verifyShare(everyone(), verifiers, path); }), AgreedError);
  }
}

} // namespace partita::test::shared_run_file
