#include "partita/core/error.hpp"
#include "partita/strategy/sil/activation_cache.hpp"

#include "data_files.hpp"
#include "support/catch.hpp"
#include "support/default_space.hpp"
#include "support/file_size_limit.hpp"
#include "support/matrices.hpp"

namespace partita::test::strategy_cache {

using Catch::Matchers::ContainsSubstring;

namespace {

constexpr DefaultSpace space;
constexpr std::int64_t width = 5;

std::vector<Real> rowOf(const ActivationCache& cache, std::size_t row) {
  std::vector<Real> out(width);
  cache.copyRow(row, 0, out.data());
  return out;
}

} // namespace

TEST_CASE("Spilled activations come back by their row", "[strategy]") {
  const ScratchFolder folder;
  ActivationCache cache(folder.path(), Precision::single, width);
  CHECK(cache.width() == width);
  const Values first = normals(3 * width, 1), second = normals(2 * width, 2);
  cache.put(space, matrixOf(3, width, first), {7, 0, 3});
  cache.put(space, matrixOf(2, width, second), {1, 7}); // row 7 again: the last value counts
  const auto expect = [&](std::size_t row, const Values& values, std::int64_t place) {
    const std::vector<Real> expected(values.begin() + place * width, values.begin() + (place + 1) * width);
    CHECK(rowOf(cache, row) == expected);
  };
  expect(0, first, 1);
  expect(3, first, 2);
  expect(1, second, 0);
  expect(7, second, 1);
}

TEST_CASE("Activations of 16 bits are spilled as they are", "[strategy][half]") {
  for (const Precision precision : {Precision::bf16, Precision::fp16}) {
    const ScratchFolder folder;
    ActivationCache cache(folder.path(), precision, width);
    const Matrix values = matrixOf(2, width, normals(2 * width, 1));
    const TypedRows halves("partita::test::halves", precision, 2, width);
    copyValues(space, values, halves.top(2));
    roundTo(space, precision, values);
    const FileSizeLimit full(2 * width * bytesOf(precision)); // half of what floats take
    cache.put(space, halves.top(2), {1, 0});
    const Values expected = valuesOf(values);
    CHECK(rowOf(cache, 1) == std::vector<Real>(expected.begin(), expected.begin() + width));
    CHECK(rowOf(cache, 0) == std::vector<Real>(expected.begin() + width, expected.end()));
    CHECK_THROWS_AS(cache.put(space, values, {0, 1}), InternalError);
  }
}

TEST_CASE("The spilled file leaves nothing behind", "[strategy]") {
  const ScratchFolder folder;
  const ActivationCache cache(folder.path(), Precision::single, width);
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("A folder that cannot hold the activations is named", "[strategy]") {
  const ScratchFolder folder;
  const std::string missing = folder.path("missing");
  CHECK(messageOf([&] { ActivationCache(missing, Precision::single, width); }) ==
        "strategy/cache_directory: cannot create a file in '" + missing +
            "' for the activations of a frozen stage: No such file or directory");

  ActivationCache cache(folder.path(), Precision::single, width);
  const Matrix values = matrixOf(1, width, normals(width, 1));
  const FileSizeLimit full(width * sizeof(Real));
  cache.put(space, values, {0});
  CHECK_THROWS_AS(cache.put(space, values, {1}), RunError);
  CHECK_THROWS_WITH(cache.put(space, values, {1}),
                    ContainsSubstring("cannot write in '" + folder.path() + "'") &&
                        ContainsSubstring("File too large"));
  const FileSizeLimit within_a_row(width * sizeof(Real) + 1);
  CHECK_THROWS_WITH(cache.put(space, values, {1}), ContainsSubstring("No space left on device"));
}

} // namespace partita::test::strategy_cache
