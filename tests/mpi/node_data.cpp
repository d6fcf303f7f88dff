#include "partita/train/node_data.hpp"

#include "partita/comm/agree.hpp"
#include "partita/comm/node_memory.hpp"
#include "partita/config/user_error.hpp"
#include "partita/core/log.hpp"
#include "partita/data/load_data.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <sstream>

#include "shared_folder.hpp"
#include "small_run.hpp"
#include "support/catch.hpp"
#include "support/file_size_limit.hpp"

namespace partita::test::node_data {

namespace {

/// Is the address in memory that has, or had, a name of `shareOnNode`?
bool isShared(const void* address) {
  std::ifstream maps("/proc/self/maps");
  const auto wanted = reinterpret_cast<std::uintptr_t>(address);
  for (std::string line; std::getline(maps, line);) {
    std::istringstream fields(line);
    std::uintptr_t begin = 0, end = 0;
    char dash = ' ';
    fields >> std::hex >> begin >> dash >> end;
    if (wanted >= begin && wanted < end) return line.find("/partita-") != std::string::npos;
  }
  return false;
}

std::vector<float> rowOf(const Samples& samples, std::size_t row) {
  std::vector<float> values(samples.width());
  samples.copyRow(row, {0.0F}, {1.0F}, values.data());
  return values;
}

void requireSameSet(const Dataset& found, const Dataset& own) {
  CHECK(found.labels == own.labels);
  CHECK(found.labels_per_sample == own.labels_per_sample);
  CHECK(found.features.width() == own.features.width());
  CHECK((found.features.sparse() == nullptr) == (own.features.sparse() == nullptr));
  REQUIRE(found.features.rows() == own.features.rows());
  for (std::size_t row = 0; row < own.features.rows(); ++row)
    REQUIRE(rowOf(found.features, row) == rowOf(own.features, row));
}

void requireSameSets(const DataSets& found, const DataSets& own) {
  requireSameSet(found.train, own.train);
  requireSameSet(found.validation, own.validation);
  requireSameSet(found.test, own.test);
  CHECK(found.shape == own.shape);
  CHECK(found.classes == own.classes);
  CHECK(found.shift == own.shift);
  CHECK(found.scale == own.scale);
  CHECK(found.label_values == own.label_values);
}

DataSection glyphs() {
  DataSection section;
  section.kind = DataKind::glyphs;
  section.samples = 50;
  section.test_samples = 7;
  section.validation = 0.2;
  return section;
}

DataSection grammar() {
  DataSection section;
  section.kind = DataKind::grammar;
  section.samples = 20;
  section.test_samples = 5;
  section.sequence = 8;
  return section;
}

/// Three samples, two of them with few of the many features, and labels that are not class numbers.
DataSection sparse(const SharedFolder& folder) {
  if (everyone().rank() == 0)
    std::ofstream(folder.file("sparse.txt")) << "-1 1:0.5 40:2\n7 3:1\n-1 2:0.25 9:4 33:8\n";
  everyone().barrier();
  DataSection section;
  section.kind = DataKind::libsvm;
  section.train_file = section.test_file = folder.file("sparse.txt");
  section.standardise = Standardise::feature;
  return section;
}

} // namespace

TEST_CASE("Ranks of a node share what one of them has loaded", "[data]") {
  const SharedFolder folder;
  for (const DataSection& section : {glyphs(), grammar(), sparse(folder)}) {
    for (const Need need : {Need::everything, Need::labels_only}) {
      int loads = 0;
      const DataSets sets = loadOnNode(everyone(), &everyone(), [&] {
        ++loads;
        return loadData(section, 3, need);
      });
      CHECK(loads == (everyone().rank() == 0 ? 1 : 0));
      requireSameSets(sets, loadData(section, 3, need));
      CHECK(isShared(sets.train.labels.data()) == (everyone().size() > 1));
      if (const std::uint8_t* bytes = sets.train.features.bytesOf(0))
        CHECK(isShared(bytes) == (everyone().size() > 1));
    }
  }
  everyone().barrier(); // the folder goes with rank 0
}

TEST_CASE("Ranks that need no data take no part in the sharing", "[data]") {
  const bool wanted = everyone().rank() % 2 == 0;
  const Communicator half = everyone().split(wanted ? 1 : 0, everyone().rank());
  const DataSets sets = loadOnNode(everyone(), wanted ? &half : nullptr,
                                   [&] { return loadData(glyphs(), 3, Need::everything); });
  CHECK(sets.train.size() == (wanted ? 40 : 0));
}

TEST_CASE("A rank that cannot load the data stops all ranks", "[data]") {
  const auto load = []() -> DataSets { throw UserError("no such data"); };
  CHECK_THROWS_MATCHES(loadOnNode(everyone(), &everyone(), load), AgreedError,
                       Catch::Message("no such data"));
}

namespace {

/// In its scope, this process can open no file; those that are open can be used as before.
class NoFiles {
 public:
  NoFiles() {
    const int next = open("/dev/null", O_RDONLY); // the lowest number that is free
    REQUIRE(next >= 0);
    close(next);
    REQUIRE(getrlimit(RLIMIT_NOFILE, &_before) == 0);
    rlimit limit = _before;
    limit.rlim_cur = next;
    REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0);
  }
  ~NoFiles() { setrlimit(RLIMIT_NOFILE, &_before); }
  NoFiles(const NoFiles&) = delete;
  NoFiles& operator=(const NoFiles&) = delete;

 private:
  rlimit _before{};
};

/// Loads the glyphs on all ranks, of which those that call `limit` cannot share memory.
template <class Limit>
void requireCopies(bool limited, const std::string& reason) {
  const DataSets own = loadData(glyphs(), 3, Need::everything);
  std::unique_ptr<Limit> limit;
  Log::warning("there is another effect of this (" + reason + ")"); // must not hide the one about copies
  const std::size_t warnings = Log::warnings().size();
  DataSets sets;
  for (int turn = 0; turn < 2; ++turn) {
    if (limited) limit = std::make_unique<Limit>();
    sets = loadOnNode(everyone(), &everyone(), [] { return loadData(glyphs(), 3, Need::everything); });
    limit.reset();
  }
  requireSameSets(sets, own);
  CHECK_FALSE(isShared(sets.train.labels.data()));
  if (everyone().size() == 1) return;
  REQUIRE(Log::warnings().size() == warnings + 1);
  CHECK(Log::warnings().back() ==
        "the ranks of a node cannot share memory (" + reason + "): each holds a copy of the data");
}

struct SmallFiles : FileSizeLimit {
  SmallFiles() : FileSizeLimit(1024) {} // bytes
};

} // namespace

TEST_CASE("Without room for shared memory, each rank gets a copy", "[data]") {
  requireCopies<SmallFiles>(everyone().rank() == 0, std::strerror(EFBIG));
}

TEST_CASE("If a rank cannot open shared memory, each rank gets a copy", "[data]") {
  requireCopies<NoFiles>(everyone().rank() == everyone().size() - 1, std::strerror(EMFILE));
}

TEST_CASE("Shared memory has no name once all ranks have it", "[data]") {
  constexpr std::uint64_t bytes = 3000;
  const std::string maker = broadcast(everyone(), "partita-" + std::to_string(getpid()) + "-");
  const NodeMemory memory = shareOnNode(everyone(), bytes, [&](void* values) {
    for (const auto& entry : std::filesystem::directory_iterator("/dev/shm"))
      CHECK(entry.path().filename().string().rfind(maker, 0) != 0);
    std::memset(values, 'x', bytes);
  });
  REQUIRE(memory.values != nullptr);
  const char* const values = static_cast<const char*>(memory.values.get());
  CHECK(std::string(values, bytes) == std::string(bytes, 'x'));
  CHECK(isShared(values));
}

} // namespace partita::test::node_data
