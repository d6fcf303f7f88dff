#include "partita/kernels/sparse_products.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/default_space.hpp"
#include "support/matrices.hpp"
#include "support/small_model.hpp"

namespace partita::test::kernels_sparse_products {

/// Products with rows that are mostly zeros equal plain loops over all values.

namespace {

constexpr DefaultSpace space;
constexpr double tolerance = sizeof(Real) == 4 ? 1e-6 : 1e-14;

/// One value of `every` is set on average, at places that look random; some rows have none.
Values sparseValues(std::int64_t rows, std::int64_t columns, std::int64_t every, std::uint64_t seed) {
  Values values = normals(rows * columns, seed);
  const RandomStream random(seed, Stream::split);
  for (std::int64_t i = 0; i < rows * columns; ++i) {
    const bool kept = random.block(static_cast<std::uint64_t>(i)).word[0] % every == 0;
    if (!kept || i / columns % 7 == 3) values[static_cast<std::size_t>(i)] = 0.0;
  }
  return values;
}

/// a [n, k] times the transpose of b [m, k], added to c [n, m].
void addProduct(const Values& a, const Values& b, Values& c, std::int64_t n, std::int64_t m, std::int64_t k) {
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < m; ++j)
      for (std::int64_t l = 0; l < k; ++l)
        c[static_cast<std::size_t>(i * m + j)] +=
            a[static_cast<std::size_t>(i * k + l)] * b[static_cast<std::size_t>(j * k + l)];
}

Values transposed(const Values& a, std::int64_t rows, std::int64_t columns) {
  Values out;
  for (std::int64_t j = 0; j < columns; ++j)
    for (std::int64_t i = 0; i < rows; ++i) out.push_back(a[static_cast<std::size_t>(i * columns + j)]);
  return out;
}

struct Sizes {
  std::int64_t rows, inputs, units;
};
const std::vector<Sizes> all_sizes{{64, 300, 128}, {33, 129, 65}, {40, 7, 3}, {64, 64, 64}, {50, 1000, 290}};

/// The kernels that run during the life of the object.
class Kernels {
 public:
  Kernels() {
    names().clear();
    Kokkos::Tools::Experimental::set_begin_parallel_for_callback(
        [](const char* name, std::uint32_t, std::uint64_t*) { names().emplace_back(name); });
  }
  ~Kernels() { Kokkos::Tools::Experimental::set_begin_parallel_for_callback(nullptr); }
  Kernels(const Kernels&) = delete;
  Kernels& operator=(const Kernels&) = delete;

  int count(const std::string& name) const {
    return static_cast<int>(std::count(names().begin(), names().end(), name));
  }

 private:
  static std::vector<std::string>& names() {
    static std::vector<std::string> all;
    return all;
  }
};

} // namespace

TEST_CASE("Few rows, few units or few zeros are no sparse rows", "[sparse]") {
  const auto sparse = [](std::int64_t rows, std::int64_t every, std::int64_t units) {
    return isSparse(space, matrixOf(rows, 90, sparseValues(rows, 90, every, 1)), units);
  };
  const std::int64_t threads = ExecSpace().concurrency(), block = 8 * values_per_vector,
                     units = block * threads; // a block for each thread
  CHECK(sparse(64, 20, units) == device_is_host);
  CHECK_FALSE(sparse(63, 20, units));
  CHECK_FALSE(sparse(64, 4, units));
  CHECK_FALSE(sparse(64, 20, threads > 1 ? units - block : block / 2 - 1));
}

TEST_CASE("Products of sparse rows are those of all values", "[sparse]") {
  if (!device_is_host) return;
  for (const Sizes& s : all_sizes) {
    INFO(s.rows << " x " << s.inputs << " x " << s.units);
    const Values in = sparseValues(s.rows, s.inputs, 12, 2), weights = normals(s.units * s.inputs, 3);
    Values expected(static_cast<std::size_t>(s.rows * s.units), 0.0);
    addProduct(in, weights, expected, s.rows, s.units, s.inputs);
    const Matrix out = matrixOf(s.rows, s.units, normals(s.rows * s.units, 4)); // is overwritten
    sparseProduct(space, matrixOf(s.rows, s.inputs, in), matrixOf(s.units, s.inputs, weights), out);
    CHECK(relativeError(valuesOf(out), expected) < tolerance);
  }
}

TEST_CASE("Gradients by sparse rows are those by all values", "[sparse]") {
  if (!device_is_host) return;
  for (const Sizes& s : all_sizes) {
    for (const bool keep : {false, true}) {
      INFO(s.rows << " x " << s.inputs << " x " << s.units << (keep ? ", added" : ""));
      const Values in = sparseValues(s.rows, s.inputs, 12, 5), slopes = normals(s.rows * s.units, 6),
                   before = normals(s.units * s.inputs, 7);
      Values expected = keep ? before : Values(before.size(), 0.0);
      addProduct(transposed(slopes, s.rows, s.units), transposed(in, s.rows, s.inputs), expected, s.units,
                 s.inputs, s.rows);
      const Matrix gradient = matrixOf(s.units, s.inputs, before);
      sparseGradient(space, matrixOf(s.rows, s.inputs, in), matrixOf(s.rows, s.units, slopes), gradient,
                     keep);
      CHECK(relativeError(valuesOf(gradient), expected) < tolerance);
    }
  }
}

TEST_CASE("The first layer leaves out zeros, and later layers do not look for them", "[sparse]") {
  if (!device_is_host || ExecSpace().concurrency() > 1) return;
  constexpr std::int64_t rows = 70, inputs = 90, units = 100;
  const auto plans = planNetwork(denseNetwork({units, inputs}, Activation::identity), {inputs}, units);
  const Values features = sparseValues(rows, inputs, 15, 8), slopes = normals(rows * units, 9),
               weights = normals(units * inputs, 10);
  Values product(static_cast<std::size_t>(rows * units), 0.0), change(weights.size(), 0.0);
  addProduct(features, weights, product, rows, units, inputs);
  addProduct(transposed(slopes, rows, units), transposed(features, rows, inputs), change, units, inputs,
             rows);
  const Matrix in = matrixOf(rows, inputs, features), none;
  for (const std::size_t number : {0, 2}) {
    const auto layer = makeLayer(plans[number]);
    const auto size = static_cast<std::size_t>(plans[number].storedValues());
    const Vector values("partita::test::values", size), gradients("partita::test::gradients", size);
    assign(Vector(values.data(), weights.size()), weights);
    layer->bind({values, gradients});
    const Matrix out = makeMatrix("partita::test::out", rows, units), slope = matrixOf(rows, units, slopes);
    const Kernels kernels;
    layer->forward(space, Pass{}, in, out, none);
    layer->backward(space, Pass{}, in, out, none, slope, none);
    CHECK(relativeError(valuesOf(out), product) < tolerance);
    CHECK(relativeError(valuesOf(Vector(gradients.data(), weights.size())), change) < tolerance);
    CHECK(kernels.count("partita::sparseProduct_kernel") == (number == 0 ? 1 : 0));
    CHECK(kernels.count("partita::sparseGradient_kernel") == (number == 0 ? 1 : 0));
  }
}

} // namespace partita::test::kernels_sparse_products
