#include "support/catch.hpp"
#include "support/divisions.hpp"

namespace partita::test::plan_slices {

TEST_CASE("Runs of a slice are its values in order, and as long as can be", "[plan]") {
  const std::vector<std::vector<std::int64_t>> tensors{{7}, {5, 6}, {4, 3, 5}, {6, 5, 2, 3}, {1, 9}, {9, 1}};
  for (const auto& extents : tensors) {
    std::vector<std::int64_t> places;
    for (std::int64_t i = 0; i < wholeOf(extents).size(); ++i) places.push_back(i);
    for (const Division& division : someDivisions()) {
      INFO(division.text() << " of " << extents.size() << " axes, the first of " << extents[0]);
      for (const TensorSlice& slice : slicesOf(division, extents)) {
        std::vector<std::int64_t> found;
        const std::vector<SliceRun> runs = runsOf(slice);
        for (std::size_t r = 0; r < runs.size(); ++r) {
          CHECK(runs[r].in_slice == static_cast<std::int64_t>(found.size()));
          for (std::int64_t i = 0; i < runs[r].count; ++i) found.push_back(runs[r].in_whole + i);
          if (r > 0) CHECK(runs[r - 1].in_whole + runs[r - 1].count < runs[r].in_whole);
        }
        CHECK(found == partOf(places, slice));
        CHECK(slice.size() == static_cast<std::int64_t>(found.size()));
      }
    }
  }
  CHECK(runsOf(wholeOf({3, 4})).size() == 1);
  CHECK(runsOf({{3, 4}, {1, 0}, {2, 4}}).size() == 1); // whole rows
  CHECK(runsOf({{3, 4}, {0, 1}, {3, 2}}).size() == 3);
  CHECK(runsOf({{3, 4}, {0, 1}, {3, 0}}).empty());
  const TensorSlice rows = TensorSlice{{9, 4}, {2, 1}, {5, 2}}.rows(1, 3);
  CHECK(rows.offset == std::vector<std::int64_t>{3, 1});
  CHECK(rows.extents == std::vector<std::int64_t>{3, 2});
}

} // namespace partita::test::plan_slices
