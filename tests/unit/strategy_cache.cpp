#include "partita/config/user_error.hpp"
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

ActivationCache cacheIn(const ScratchFolder& folder, Precision precision, std::int64_t samples) {
  return {std::make_shared<ActivationFile>(folder.path(), samples * width * bytesOf(precision)), precision,
          width};
}

std::vector<Real> rowOf(const ActivationCache& cache, std::size_t row) {
  std::vector<Real> out(width);
  cache.copyRow(row, 0, out.data());
  return out;
}

} // namespace

TEST_CASE("Spilled activations come back by their row", "[strategy]") {
  const ScratchFolder folder;
  ActivationCache cache = cacheIn(folder, Precision::single, 8);
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
    const Matrix values = matrixOf(2, width, normals(2 * width, 1));
    const TypedRows halves("partita::test::halves", precision, 2, width);
    copyValues(space, values, halves.top(2));
    roundTo(space, precision, values);
    const FileSizeLimit full(2 * width * bytesOf(precision)); // half of what floats take
    ActivationCache cache = cacheIn(folder, precision, 2);
    cache.put(space, halves.top(2), {1, 0});
    const Values expected = valuesOf(values);
    CHECK(rowOf(cache, 1) == std::vector<Real>(expected.begin(), expected.begin() + width));
    CHECK(rowOf(cache, 0) == std::vector<Real>(expected.begin() + width, expected.end()));
    CHECK_THROWS_AS(cache.put(space, values, {0, 1}), InternalError);
  }
}

TEST_CASE("The spilled file leaves nothing behind", "[strategy]") {
  const ScratchFolder folder;
  const ActivationCache cache = cacheIn(folder, Precision::single, 8);
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("A file for activations serves one stage after another", "[strategy]") {
  const ScratchFolder folder;
  const auto file = std::make_shared<const ActivationFile>(folder.path(), 3 * width * sizeof(Real));
  const Values first = normals(3 * width, 1), second = normals(2, 2);
  ActivationCache(file, Precision::single, width).put(space, matrixOf(3, width, first), {0, 1, 2});
  ActivationCache narrow(file, Precision::single, 1);
  narrow.put(space, matrixOf(2, 1, second), {1, 0});
  Real value = 0;
  narrow.copyRow(0, 0, &value);
  CHECK(value == static_cast<Real>(second[1]));
}

TEST_CASE("A folder that cannot hold the activations is named at the start", "[strategy]") {
  const ScratchFolder folder;
  const std::string missing = folder.path("missing"), end = "' for the activations of a frozen stage: ";
  CHECK(messageOf([&] { ActivationFile(missing, 1); }) ==
        "strategy/cache_directory: cannot create a file in '" + missing + end + "No such file or directory");

  const FileSizeLimit limit(100000);
  const auto tooMuch = [&] { ActivationFile(folder.path(), 2000000); };
  CHECK_THROWS_AS(tooMuch(), SystemError);
  CHECK(messageOf(tooMuch) == "strategy/cache_directory: not enough space for 2.00 MB in '" + folder.path() +
                                  end + "File too large");
  CHECK(std::filesystem::is_empty(folder.path()));
  ActivationFile(folder.path(), 100000);
}

TEST_CASE("Activations are written and read in pieces if the system does so", "[strategy]") {
  const ScratchFolder folder;
  const ActivationFile file(folder.path(), 0);
  const std::string text = "0123456789";
  {
    const FileSizeLimit within(5); // the first piece has five bytes, and the second none
    CHECK_THROWS_AS(file.write(text.data(), 10, 0), RunError);
    CHECK_THROWS_WITH(file.write(text.data(), 10, 0),
                      ContainsSubstring("cannot write in '" + folder.path() + "'") &&
                          ContainsSubstring("File too large"));
  }
  std::string found(10, ' ');
  file.read(found.data(), 5, 0);
  CHECK(found == "01234     ");
  CHECK_THROWS_WITH(file.read(found.data(), 10, 0), // of which five bytes exist
                    ContainsSubstring("cannot read in '" + folder.path() + "'") &&
                        ContainsSubstring("Input/output error"));
  file.write(text.data() + 5, 5, 5);
  file.read(found.data(), 10, 0);
  CHECK(found == text);
}

} // namespace partita::test::strategy_cache
