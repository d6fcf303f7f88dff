#include "partita/config/user_error.hpp"
#include "partita/core/error.hpp"
#include "partita/optim/bucket_stream.hpp"
#include "partita/optim/optimiser.hpp"
#include "partita/plan/network_plan.hpp"
#include "partita/strategy/stage_trainer.hpp"

#include <filesystem>

#include "support/allocations.hpp"
#include "support/catch.hpp"
#include "support/default_space.hpp"
#include "support/file_size_limit.hpp"
#include "support/matrices.hpp"
#include "support/small_model.hpp"

namespace partita::test::optim_offload {

namespace {

constexpr DefaultSpace space;
constexpr std::int64_t size = 3 * 4096 + 1001;
const std::string folder = std::filesystem::temp_directory_path().string();

std::vector<Real> realNormals(std::int64_t count, std::uint64_t seed) {
  const Values values = normals(count, seed);
  return {values.begin(), values.end()};
}

struct Ended {
  Values parameters;
  std::vector<std::vector<Real>> state;
  bool operator==(const Ended& other) const { return parameters == other.parameters && state == other.state; }
};

/// Parameters and state after some steps with a varying rate.
Ended train(const OptimiserSection& section, double factor) {
  const auto optimiser = makeOptimiser(section, size);
  const Vector parameters = vectorOf(normals(size, 1));
  const Vector device_factor = factor == 1.0 ? Vector() : vectorOf({factor});
  for (int t = 1; t <= 5; ++t) {
    const Vector gradients = vectorOf(normals(size, static_cast<std::uint64_t>(100 + t)));
    optimiser->step(space, {parameters, gradients, {}}, 0.01 * t, device_factor);
  }
  Ended ended{valuesOf(parameters), {}};
  for (const Optimiser::State& state : optimiser->state()) ended.state.push_back(state.values.values(space));
  return ended;
}

OptimiserSection offloaded(OptimiserSection section, Offload offload, std::int64_t bucket) {
  section.offload = offload;
  section.offload_bucket = bucket;
  section.offload_directory = folder;
  return section;
}

template <class Error>
std::string lineOf(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

} // namespace

TEST_CASE("A stored vector gives back what was put in, wherever it is", "[offload]") {
  const std::vector<Real> values = realNormals(size, 1);
  for (const Offload offload : {Offload::none, Offload::host, Offload::file}) {
    const StoredVector vector({offload, folder}, "partita::test::stored", size);
    CHECK(vector.size() == size);
    CHECK(vector.offloaded() == (offload != Offload::none));
    CHECK(vector.values(space) == std::vector<Real>(static_cast<std::size_t>(size), Real(0)));
    vector.copyIn(space, values.data());
    CHECK(vector.values(space) == values);
    std::vector<Real> middle(10);
    vector.copyOut(space, 5000, 10, middle.data());
    CHECK(middle == std::vector<Real>(values.begin() + 5000, values.begin() + 5010));
    vector.clear(space);
    CHECK(vector.values(space) == std::vector<Real>(static_cast<std::size_t>(size), Real(0)));
  }
}

TEST_CASE("A stream of buckets changes each value once, from the back", "[offload]") {
  for (const std::int64_t bucket : {std::int64_t{1000}, std::int64_t{4096}, size, 10 * size}) {
    const StoredVector there({Offload::file, folder}, "partita::test::there", size),
        here({Offload::none, {}}, "partita::test::here", size);
    BucketStream stream(size, {StoredVector(), there, here}, bucket);
    for (int run = 0; run < 2; ++run) {
      std::int64_t expected_end = size;
      stream.run(space, [&](const BucketStream::Bucket& part) {
        CHECK(part.end == expected_end);
        CHECK(part.values[0] == nullptr);
        expected_end = part.begin;
        Real *a = part.values[1], *b = part.values[2];
        const std::int64_t begin = part.begin;
        Kokkos::parallel_for(
            "partita::test::add", Range(space, 0, part.end - part.begin), KOKKOS_LAMBDA(std::int64_t i) {
              a[i] += static_cast<Real>(begin + i);
              b[i] += Real(1);
            });
      });
      CHECK(expected_end == 0);
    }
    const std::vector<Real> found = there.values(space);
    std::vector<Real> expected(static_cast<std::size_t>(size));
    for (std::size_t i = 0; i < expected.size(); ++i) expected[i] = static_cast<Real>(2 * i);
    CHECK(found == expected);
    CHECK(here.values(space) == std::vector<Real>(static_cast<std::size_t>(size), Real(2)));
  }
}

TEST_CASE("Buckets of a file are on their way out while the next one is worked on", "[offload]") {
  if (!device_is_host) return; // a GPU copies unpinned memory synchronously
  constexpr std::int64_t bucket = 1 << 20, count = 8;
  const StoredVector there({Offload::file, folder}, "partita::test::there", count * bucket);
  BucketStream stream(count * bucket, {there}, bucket);
  bool beside = false;
  for (int attempt = 1; attempt <= 5 && !beside; ++attempt) { // this thread may be the idle one
    stream.run(space, [&](const BucketStream::Bucket& part) {
      if (part.end < count * bucket) {
        const volatile Real& last_of_before = there.onHost()[part.end + bucket - 1];
        beside = beside || last_of_before < static_cast<Real>(attempt);
      }
      for (std::int64_t i = 0; i < bucket; ++i) part.values[0][i] += Real(1);
    });
    CHECK(there.onHost()[0] == static_cast<Real>(attempt));
    CHECK(there.onHost()[count * bucket - 1] == static_cast<Real>(attempt));
  }
  CHECK(beside);
}

TEST_CASE("An update in parts is bitwise that of the whole", "[offload]") {
  for (const OptimiserKind kind : {OptimiserKind::sgd, OptimiserKind::adamw}) {
    OptimiserSection section;
    section.kind = kind;
    section.weight_decay = 0.1;
    const auto optimiser = makeOptimiser(section, size);
    const Vector parameters = vectorOf(normals(size, 1));
    for (int t = 1; t <= 5; ++t) {
      const Vector gradients = vectorOf(normals(size, static_cast<std::uint64_t>(100 + t)));
      const ParameterBuffers trained{parameters, gradients, {}};
      optimiser->begin(trained);
      for (const auto& [begin, end] : {std::pair(7001, 9123), std::pair(0, 7001), std::pair(9123, int{size})})
        optimiser->stepPart(space, trained, 0.01 * t, begin, end);
    }
    Ended ended{valuesOf(parameters), {}};
    for (const Optimiser::State& state : optimiser->state())
      ended.state.push_back(state.values.values(space));
    CHECK(ended == train(section, 1.0));
    CHECK(optimiser->steps() == 5);
  }
  const auto elsewhere = makeOptimiser(offloaded({}, Offload::host, 1000), size);
  const Vector values = vectorOf(normals(size, 1));
  elsewhere->begin({values, values, {}});
  CHECK_THROWS_AS(elsewhere->stepPart(space, {values, values, {}}, 0.1, 0, 10), InternalError);
}

TEST_CASE("Offloaded steps are bitwise those of state on the device", "[offload]") {
  std::vector<OptimiserSection> sections(5);
  sections[0].kind = OptimiserKind::sgd;
  sections[0].momentum = 0.0;
  sections[1].kind = OptimiserKind::sgd;
  sections[2].kind = OptimiserKind::sgd;
  sections[2].nesterov = true;
  sections[3].kind = OptimiserKind::adam;
  sections[4].kind = OptimiserKind::adamw;
  for (OptimiserSection& section : sections) {
    section.weight_decay = 0.1;
    for (const double factor : {1.0, 0.37}) {
      const Ended expected = train(section, factor);
      for (const Offload offload : {Offload::host, Offload::file}) {
        for (const std::int64_t bucket : {std::int64_t{777}, std::int64_t{4096}, 2 * size}) {
          INFO("kind " << static_cast<int>(section.kind) << ", bucket " << bucket);
          CHECK(train(offloaded(section, offload, bucket), factor) == expected);
        }
      }
    }
  }
}

TEST_CASE("A folder that takes no file and a full disk are one line each", "[offload]") {
  const std::string wrong = "/nowhere/at/all";
  CHECK(lineOf<UserError>([&] {
          StoredVector({Offload::file, wrong}, "partita::test::stored", 1);
        }) == "optimiser/offload_directory: cannot create a file in '" + wrong +
                  "' for the optimiser state: No such file or directory");
  const FileSizeLimit limit(100000);
  const std::string line = lineOf<RunError>([&] {
    StoredVector({Offload::file, folder}, "partita::test::stored", 1000000);
  });
  const std::string megabytes = std::to_string(sizeof(Real)) + ".00 MB";
  CHECK(line == "optimiser/offload_directory: not enough space for " + megabytes + " in '" + folder +
                    "' for the optimiser state: File too large");
  CHECK(lineOf<SystemError>([&] {
          StoredVector::takeRoom({Offload::file, folder}, 1000000 * sizeof(Real));
        }) == line);
  CHECK(StoredVector::takeRoom({Offload::none, wrong}, 1) == nullptr);
}

TEST_CASE("Space for files stays reserved when vectors come and go", "[offload]") {
  const auto reserved = [] { // in the only open file: those of vectors are mapped
    std::uintmax_t bytes = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code ignored;
      const std::string file = std::filesystem::read_symlink(entry.path(), ignored).string();
      if (file.find("/partita-optimiser-") != std::string::npos)
        bytes += std::filesystem::file_size(entry.path());
    }
    return bytes;
  };
  constexpr std::int64_t count = 10000;
  constexpr std::uintmax_t bytes = count * sizeof(Real);
  const Placement files{Offload::file, folder};
  std::shared_ptr<void> room = StoredVector::takeRoom(files, 3 * bytes);
  CHECK(reserved() == 3 * bytes);
  for (int phase = 0; phase < 2; ++phase) {
    const StoredVector masters(files, "partita::test::stored", 2 * count);
    CHECK(reserved() == bytes);
    const StoredVector elsewhere({Offload::file, folder + "/."}, "partita::test::stored", count);
    CHECK(reserved() == bytes);
    const StoredVector moment(files, "partita::test::stored", count);
    const StoredVector beyond(files, "partita::test::stored", count);
    CHECK(reserved() == 0);
  }
  CHECK(reserved() == 3 * bytes);
  const StoredVector longer(files, "partita::test::stored", count);
  room.reset();
  CHECK(reserved() == 0);
}

namespace {

/// Bytes that a stage with its updater holds on the device after three steps, and the maximum since it was
/// made; and the planned values.
struct Held {
  double bytes, peak;
  StageMemory planned;
  double parameters; ///< of the stage, as stored
};

Held heldBy(Precision precision, const OptimiserSection& optimiser) {
  RunConfig config;
  config.network = denseNetwork({700, 900}, Activation::relu);
  config.training.batch = 1;
  config.run.precision = precision;
  config.optimiser = optimiser;
  constexpr std::int64_t classes = 10;
  const Partition partition = planPartition(config, planNetwork(config.network, {600}, classes), classes);
  const StagePlan& plan = partition.stages.front();
  const Communicator world = Communicator::world();
  Grid grid(world, planGrid(config.strategy, partition, 1));
  const Allocations before;
  const auto stages = makeLocalStages(config, partition, grid, classes);
  StageTrainer trainer(config, *stages.front(), grid, {10, 10});
  const Matrix in = matrixOf(1, 600, normals(600, 1));
  const Labels labels = labelsOf({3});
  for (int i = 0; i < 3; ++i) {
    trainer.step(space, in, {labels, Matrix()});
  }
  return {static_cast<double>(before.liveBytes()), static_cast<double>(before.peakBytes()),
          stageMemory(plan, config, {}, {sizeof(Real)}), static_cast<double>(plan.storedValues())};
}

} // namespace

TEST_CASE("A stage holds on the device what the plan says, and no more than the bounds", "[offload]") {
  constexpr std::int64_t bucket = 20000;
  constexpr double bytes = sizeof(Real);
  for (const Precision precision : {Precision::single, Precision::bf16, Precision::fp16}) {
    const bool halves = precision != Precision::single;
    for (const Offload offload : {Offload::none, Offload::file}) {
      OptimiserSection adam;
      const Held held = heldBy(precision, offloaded(adam, offload, bucket));
      INFO("precision " << static_cast<int>(precision) << ", offload " << static_cast<int>(offload));
      const double planned = static_cast<double>(held.planned.total() - held.planned.buffers -
                                                 held.planned.evaluation); // no batches are made here
      CHECK(held.bytes >= planned);
      CHECK(held.bytes <= 1.02 * planned);
      CHECK(held.peak == held.bytes); // nothing exists twice while it is made
      const double phi = held.parameters, state = held.bytes - static_cast<double>(held.planned.activations);
      const int vectors = halves ? 3 : 2;
      if (offload == Offload::none) {
        CHECK(held.planned.offloaded == 0);
        CHECK(state <= 1.02 * ((halves ? 4 : 2 * bytes) + vectors * bytes) * phi);
      } else {
        CHECK(static_cast<double>(held.planned.offloaded) == vectors * bytes * phi);
        CHECK(state <= 1.02 * ((halves ? 4 : 2 * bytes) * phi + 48.0 * bytes / 4 * bucket));
        CHECK(held.planned.optimiser == 3 * vectors * bucket * static_cast<std::int64_t>(sizeof(Real)));
      }
    }
  }
}

} // namespace partita::test::optim_offload
