#include "partita/train/checkpoint_job.hpp"

#include <filesystem>

#include "data_files.hpp"
#include "support/catch.hpp"

namespace partita::test::train_checkpoint_job {

using Catch::Matchers::ContainsSubstring;

namespace {

/// A run directory whose checkpoint of step 20 is written and has no name yet.
struct WrittenCheckpoint {
  WrittenCheckpoint() {
    std::filesystem::create_directories(folder.path("checkpoints"));
    job.final_name = name("step-000000020.h5");
    job.partial = folder.write("checkpoints/step-000000020.h5.partial", "20");
    job.require_place = [] {};
    add("step-000000010.h5");
    job.own->add(name("step-000000010.h5"));
  }

  std::string name(const std::string& file) const { return folder.path("checkpoints/" + file); }
  void add(const std::string& file) const { folder.write("checkpoints/" + file, "earlier"); }
  bool has(const std::string& file) const { return std::filesystem::exists(name(file)); }

  ScratchFolder folder;
  CheckpointJob job;
};

} // namespace

TEST_CASE("A checkpoint gets its name, and older and later ones go", "[train]") {
  WrittenCheckpoint written;
  written.add("step-000000030.h5");
  written.job.publish(written.folder.path(), 1);
  CHECK(written.job.failure.empty());
  CHECK(written.folder.read("checkpoints/step-000000020.h5") == "20");
  CHECK(written.job.removed == std::vector<std::string>{written.name("step-000000010.h5")});
  CHECK(written.job.set_aside == std::vector<std::string>{written.name("step-000000030.h5.superseded")});
  CHECK_FALSE(written.has("step-000000010.h5"));
}

TEST_CASE("A checkpoint does not remove what somebody has put beside it since the run began", "[train]") {
  WrittenCheckpoint written;
  written.add("step-000000005.h5");
  written.add("step-000000015.h5");
  SECTION("under a name of its own") {
    written.job.publish(written.folder.path(), 2);
    CHECK(written.job.removed.empty()); // the one at step 15 does not count
    CHECK(written.has("step-000000010.h5"));
  }
  SECTION("in place of a checkpoint of the run") {
    std::filesystem::rename(written.name("step-000000005.h5"), written.name("step-000000010.h5"));
    written.job.publish(written.folder.path(), 1);
    CHECK(written.job.removed.empty());
    CHECK(written.has("step-000000010.h5"));
  }
  CHECK(written.has("step-000000015.h5"));
}

TEST_CASE("A checkpoint sets the one of its step aside, unless the run wrote both", "[train]") {
  WrittenCheckpoint written;
  written.add("step-000000020.h5");
  SECTION("of another course") {
    written.job.publish(written.folder.path(), 2);
    CHECK(written.job.set_aside == std::vector<std::string>{written.name("step-000000020.h5.superseded")});
  }
  SECTION("of this run") {
    written.job.again = true;
    written.job.publish(written.folder.path(), 2);
    CHECK(written.job.set_aside.empty());
    CHECK_FALSE(written.has("step-000000020.h5.superseded"));
  }
  CHECK(written.job.failure.empty());
  CHECK(written.folder.read("checkpoints/step-000000020.h5") == "20");
  CHECK(written.has("step-000000010.h5"));
}

TEST_CASE("A checkpoint of the same step stays if the new one cannot take its place", "[train]") {
  WrittenCheckpoint written;
  written.add("step-000000020.h5");
  written.job.again = true;
  std::filesystem::remove(written.job.partial);
  written.job.publish(written.folder.path(), 1);
  CHECK_THAT(written.job.failure, ContainsSubstring("cannot be written"));
  CHECK(written.folder.read("checkpoints/step-000000020.h5") == "earlier");
}

TEST_CASE("A checkpoint gets no name while a later one of another course stays", "[train]") {
  WrittenCheckpoint written;
  const std::string later = "step-" + std::string(240, '9') + ".h5"; // too long for a longer name
  written.add(later);
  written.job.publish(written.folder.path(), 1);
  CHECK_THAT(written.job.failure, ContainsSubstring("cannot be renamed"));
  CHECK_FALSE(written.has("step-000000020.h5"));
  CHECK(written.job.removed.empty());
  CHECK(written.has("step-000000010.h5"));
  CHECK(written.has(later));
}

TEST_CASE("A checkpoint that cannot get its name does not count, and older ones stay", "[train]") {
  WrittenCheckpoint written;
  std::filesystem::remove(written.job.partial);
  written.job.publish(written.folder.path(), 1);
  CHECK_THAT(written.job.failure, ContainsSubstring("cannot be written"));
  CHECK(written.job.removed.empty());
  CHECK(written.has("step-000000010.h5"));
}

} // namespace partita::test::train_checkpoint_job
