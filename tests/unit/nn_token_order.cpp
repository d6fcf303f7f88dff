#include "partita/core/loops.hpp"
#include "partita/nn/token_order.hpp"

#include <algorithm>
#include <numeric>

#include "support/catch.hpp"
#include "support/default_space.hpp"
#include "support/matrices.hpp"

namespace partita::test::nn_token_order {

/// Devices add up the gradients of equal tokens after sorting the places; a host can do the same.

namespace {

constexpr DefaultSpace space;

/// Tokens of which some are frequent, as in text, and some invalid.
Values tokensOf(std::int64_t places, std::int64_t table) {
  Values tokens = normals(places, 5);
  for (double& token : tokens) token = std::floor(std::abs(token) * static_cast<double>(table) / 3.0);
  if (places > 2) tokens[1] = -7.0;
  return tokens;
}

struct Sorted {
  Vector work;
  TokenOrder order;
  Sorted(const Vector& tokens, const TableRows& table)
      : work("partita::test::work", static_cast<std::size_t>(sortScratch(tokens.size()))),
        order(orderByToken(space, tokens.data(), tokens.size(), table, work)) {}
};

std::vector<std::int32_t> copyOf(const std::int32_t* values, std::int64_t size) {
  const Labels view(const_cast<std::int32_t*>(values), static_cast<std::size_t>(size));
  const Values copy = valuesOf(view);
  return {copy.begin(), copy.end()};
}

} // namespace

TEST_CASE("Places are sorted by token, and those of one token keep their order", "[nn]") {
  for (const std::int64_t places : {1, 2, 1000, 1024, 1025, 5000}) {
    for (const TableRows& table : {TableRows{65, 0, 65}, TableRows{1, 0, 1}, TableRows{50257, 0, 50257},
                                   TableRows{300, 100, 120}, TableRows{70000, 0, 70000}}) {
      const Vector tokens = vectorOf(tokensOf(places, table.all));
      const Values given = valuesOf(tokens);
      const auto row_of = [&](std::int32_t place) {
        return table.of(static_cast<Real>(given[static_cast<std::size_t>(place)]));
      };
      std::vector<std::int32_t> expected(static_cast<std::size_t>(places));
      std::iota(expected.begin(), expected.end(), 0);
      std::stable_sort(expected.begin(), expected.end(),
                       [&](std::int32_t a, std::int32_t b) { return row_of(a) < row_of(b); });
      const Sorted sorted(tokens, table);
      fence(space, "partita::test");
      INFO(places << " places, " << table.all << " tokens");
      CHECK(copyOf(sorted.order.places, places) == expected);
      std::vector<std::int32_t> rows;
      for (const std::int32_t place : expected) rows.push_back(static_cast<std::int32_t>(row_of(place)));
      CHECK(copyOf(sorted.order.rows, places) == rows);
    }
  }
}

TEST_CASE("Gradients of equal tokens are added up in the order of their places", "[nn]") {
  constexpr std::int64_t places = 3000, width = 5, all = 90;
  const Values tokens = tokensOf(places, all), gradient = normals(places * width, 6);
  for (const TableRows& table : {TableRows{all, 0, all}, TableRows{all, 20, 30}}) {
    const Vector device_tokens = vectorOf(tokens), grad = vectorOf(gradient);
    const Sorted sorted(device_tokens, table);
    for (const std::int64_t first : {0, 7}) { // a panel that begins later
      const std::int64_t rows = table.count - first;
      const Values before = normals(rows * width, 8);
      const Matrix panel = matrixOf(rows, width, before);
      std::vector<Real> expected(before.begin(), before.end());
      for (std::int64_t place = 0; place < places; ++place) {
        const std::int64_t row = table.of(static_cast<Real>(tokens[static_cast<std::size_t>(place)])) - first;
        if (row < 0 || row >= rows) continue;
        for (std::int64_t j = 0; j < width; ++j)
          expected[static_cast<std::size_t>(row * width + j)] +=
              static_cast<Real>(gradient[static_cast<std::size_t>(place * width + j)]);
      }
      forEachElement(space, "partita::test::add", places, width,
                     AddSorted<Real>{sorted.order, grad.data(), panel.data(), width, first, rows});
      fence(space, "partita::test");
      CHECK(valuesOf(panel) == Values(expected.begin(), expected.end())); // bit for bit
    }
  }
}

} // namespace partita::test::nn_token_order
