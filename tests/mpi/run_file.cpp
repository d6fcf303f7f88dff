#include "partita/comm/agree.hpp"
#include "partita/io/read_run_file.hpp"
#include "partita/io/stage_tensors.hpp"
#include "partita/io/write_run_file.hpp"

#include <filesystem>
#include <limits>

#include "pmpi.hpp"
#include "shared_folder.hpp"
#include "small_run.hpp"
#include "support/catch.hpp"
#include "support/file_size_limit.hpp"

namespace partita::test::run_file {

namespace {

namespace fs = std::filesystem;

constexpr std::int64_t bytes_per_call = 1 << 20;

/// Tensors assigned to ranks in turn: if there are more ranks than tensors, the last ranks have nothing to
/// write.
struct Content {
  explicit Content(const std::vector<std::vector<std::int64_t>>& shapes) {
    content.facts = {"# a deck\n", 10, {4}, {0.0F}, {1.0F}, {}, {{"version", "1"}}};
    for (const std::vector<std::int64_t>& extents : shapes) {
      const int number = static_cast<int>(content.tensors.size());
      content.tensors.push_back({parameters_kind, "layer" + std::to_string(number) + ".dense", "weight",
                                 extents, "outputs, inputs"});
      const bool mine = number % everyone().size() == everyone().rank();
      values.push_back(mine ? valuesOf(number) : std::vector<Real>());
      content.parts.emplace_back();
      if (mine) content.place(content.parts.size() - 1, values.back().data());
    }
  }

  std::vector<Real> valuesOf(int number) const {
    std::vector<Real> all(static_cast<std::size_t>(content.tensors[static_cast<std::size_t>(number)].size()));
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<Real>((i + 7) % 1000 + 1000 * number);
    return all;
  }

  RunFileContent content;
  std::vector<std::vector<Real>> values; // moving keeps the addresses in `content` valid
};

/// Every rank reads the whole file. Collective.
void checkValues(const std::string& path, const Content& wanted) {
  const RunFile found(path);
  found.verify();
  REQUIRE(found.tensors().size() == wanted.content.tensors.size());
  for (int number = 0; number < static_cast<int>(found.tensors().size()); ++number) {
    const TensorRecord& tensor = found.tensors()[static_cast<std::size_t>(number)];
    std::vector<Real> values(static_cast<std::size_t>(tensor.size()));
    found.read(tensor, values.data());
    CHECK(values == wanted.valuesOf(number));
  }
  everyone().barrier(); // the file may be written again afterwards
}

} // namespace

TEST_CASE("Ranks that have nothing to write take part all the same", "[io]") {
  const SharedFolder folder;
  const Content wanted({{30, 17}, {1, 5}, {12, 3}});
  for (const int compression : {0, 4}) {
    writeRunFile(everyone(), folder.file("file.h5"), wanted.content, compression);
    checkValues(folder.file("file.h5"), wanted);
  }
}

TEST_CASE("Compressed tensors come from many ranks, chunk by chunk", "[io]") {
  const SharedFolder folder;
  // Chunks of 4 MiB: three chunks of which the last is not full, one, four in a row, one, two of a bias.
  const Content wanted({{3000, 701}, {12, 3}, {4, 1100000}, {5, 3, 2, 2}, {1500000}});
  const MpiRecording recording;
  writeRunFile(everyone(), folder.file("file.h5"), wanted.content, 1);
  for (const MpiRecord& record : recording.all()) CHECK(record.call != MpiCall::file_write);
  checkValues(folder.file("file.h5"), wanted);
}

TEST_CASE("What one rank cannot write, no rank takes for written", "[io]") {
  const SharedFolder folder;
  Content content({{30, 17}, {1, 5}});
  if (!content.values[1].empty()) content.values[1][3] = std::numeric_limits<Real>::quiet_NaN();
  for (const int compression : {0, 4}) {
    CHECK_THROWS_AS(writeRunFile(everyone(), folder.file("file.h5"), content.content, compression),
                    AgreedError);
    everyone().barrier(); // rank 0 has removed it
    CHECK_FALSE(fs::exists(folder.file("file.h5")));
  }
}

TEST_CASE("Where a disk is full, every rank comes out of a compressed file", "[io]") {
  const SharedFolder folder;
  const Content content({{3000, 701}, {12, 3}, {3000, 701}, {3000, 701}});
  {
    const FileSizeLimit full(60000); // within the first chunk
    CHECK_THROWS_AS(writeRunFile(everyone(), folder.file("file.h5"), content.content, 1), AgreedError);
  }
  everyone().barrier(); // rank 0 has removed it
  CHECK_FALSE(fs::exists(folder.file("file.h5")));
  writeRunFile(everyone(), folder.file("file.h5"), content.content, 1);
  checkValues(folder.file("file.h5"), content);
}

TEST_CASE("No call writes more than a megabyte, whatever the size of a tensor", "[io]") {
  const SharedFolder folder;
  const Content content({{3000, 3500}}); // 42 MB in single precision
  const MpiRecording recording;
  writeRunFile(everyone(), folder.file("file.h5"), content.content, 0);
  std::int64_t largest = 0, sum = 0;
  for (const MpiRecord& record : recording.all()) {
    if (record.call != MpiCall::file_write) continue;
    largest = std::max(largest, record.bytes);
    sum += record.bytes;
  }
  CHECK(largest <= bytes_per_call);
  CHECK(everyone().total(sum) >= content.content.tensors[0].size() * static_cast<std::int64_t>(sizeof(Real)));
}

} // namespace partita::test::run_file
