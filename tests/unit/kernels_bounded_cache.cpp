#include "partita/kernels/bounded_cache.hpp"

#include <memory>
#include <stdexcept>

#include "support/catch.hpp"

namespace partita::test::kernels_bounded_cache {

TEST_CASE("A full cache keeps what is wanted again, and begins anew for what is new", "[kernels]") {
  BoundedCache<int, std::unique_ptr<int>> cache(3);
  int made = 0;
  const auto get = [&](int key) {
    return *cache.get(key, [&] {
      ++made;
      return std::make_unique<int>(10 * key);
    });
  };
  for (const int key : {1, 2, 3}) CHECK(get(key) == 10 * key);
  CHECK(made == 3);
  for (const int key : {1, 2, 3, 1}) CHECK(get(key) == 10 * key);
  CHECK(made == 3);
  CHECK(get(4) == 40); // the others are dropped
  CHECK(get(1) == 10);
  CHECK(get(4) == 40);
  CHECK(made == 5);
  cache.clear();
  CHECK(get(4) == 40);
  CHECK(made == 6);
}

TEST_CASE("What could not be made is made when it is wanted again", "[kernels]") {
  BoundedCache<int, int> cache(3);
  const auto fail = []() -> int { throw std::runtime_error("of no kind that a library has"); };
  CHECK_THROWS_AS(cache.get(1, fail), std::runtime_error);
  CHECK(cache.get(1, [] { return 7; }) == 7);
}

} // namespace partita::test::kernels_bounded_cache
