#include "partita/nn/initialise.hpp"

#include "support/catch.hpp"
#include "support/matrices.hpp"

namespace partita::test::nn_initialise {

namespace {

Values weights(Initialisation kind, std::uint64_t seed, std::int64_t layer, std::int64_t outputs,
               std::int64_t inputs) {
  std::vector<Real> values(static_cast<std::size_t>(outputs * inputs));
  initialiseWeights(kind, {seed, layer, outputs, inputs}, wholeOf({outputs, inputs}), values.data());
  return {values.begin(), values.end()};
}

double meanSquare(const Values& values) {
  return dot(values, values) / static_cast<double>(values.size());
}

Values row(const Values& matrix, std::int64_t columns, std::int64_t i) {
  return {matrix.begin() + i * columns, matrix.begin() + (i + 1) * columns};
}

Values transposed(const Values& matrix, std::int64_t rows, std::int64_t columns) {
  Values out;
  for (std::int64_t j = 0; j < columns; ++j)
    for (std::int64_t i = 0; i < rows; ++i) out.push_back(matrix[static_cast<std::size_t>(i * columns + j)]);
  return out;
}

void checkOrthonormalRows(const Values& matrix, std::int64_t rows, std::int64_t columns) {
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j <= i; ++j)
      CHECK(dot(row(matrix, columns, i), row(matrix, columns, j)) == Approx(i == j ? 1.0 : 0.0).margin(1e-6));
}

} // namespace

TEST_CASE("Starting weights have the variance of their author", "[nn]") {
  const std::int64_t outputs = 150, inputs = 350;
  const auto variance = [&](Initialisation kind) { return meanSquare(weights(kind, 1, 0, outputs, inputs)); };
  CHECK(variance(Initialisation::he) == Approx(2.0 / 350).epsilon(0.03));
  CHECK(variance(Initialisation::xavier) == Approx(2.0 / 500).epsilon(0.03));
  CHECK(variance(Initialisation::lecun) == Approx(1.0 / 350).epsilon(0.03));
}

TEST_CASE("Orthogonal weights are orthonormal in their shorter direction", "[nn]") {
  checkOrthonormalRows(weights(Initialisation::orthogonal, 1, 0, 8, 13), 8, 13);
  checkOrthonormalRows(weights(Initialisation::orthogonal, 1, 0, 9, 9), 9, 9);
  checkOrthonormalRows(transposed(weights(Initialisation::orthogonal, 1, 0, 13, 8), 13, 8), 8, 13);
}

TEST_CASE("Orthonormal rows stay accurate where the rows were nearly parallel", "[nn]") {
  const std::int64_t rows = 6, columns = 10;
  Values m = normals(rows * columns, 4);
  for (std::int64_t i = columns; i < rows * columns; ++i)
    m[static_cast<std::size_t>(i)] =
        m[static_cast<std::size_t>(i % columns)] + 1e-6 * m[static_cast<std::size_t>(i)];
  orthonormaliseRows(m.data(), rows, columns);
  for (std::int64_t i = 1; i < rows; ++i)
    CHECK(std::abs(dot(row(m, columns, i), row(m, columns, 0))) < 1e-14);
}

TEST_CASE("Starting weights are a function of seed and place in the network", "[nn]") {
  for (const Initialisation kind : {Initialisation::he, Initialisation::orthogonal}) {
    const Values first = weights(kind, 1, 3, 8, 9);
    CHECK(weights(kind, 1, 3, 8, 9) == first);
    CHECK(weights(kind, 2, 3, 8, 9) != first);
    CHECK(weights(kind, 1, 4, 8, 9) != first);
  }
}

} // namespace partita::test::nn_initialise
