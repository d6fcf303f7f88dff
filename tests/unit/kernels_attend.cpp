#include "partita/config/names.hpp"
#include "partita/kernels/attend_teams.hpp"
#include "partita/kernels/cudnn_attend.hpp"
#include "partita/kernels/onednn_attend.hpp"
#include "partita/kernels/onednn_products.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "support/catch.hpp"
#include "support/default_space.hpp"
#include "support/matrices.hpp"

namespace partita::test::kernels_attend {

/// Devices compute attention by teams with a tile each, hosts one head per thread. Both must come to the same
/// numbers.

namespace {

constexpr DefaultSpace space;

struct Heads {
  explicit Heads(const AttentionShape& sizes)
      : shape(sizes), qkv(vectorOf(normals(places() * 3 * shape.width, 1))),
        grad_out(vectorOf(normals(places() * shape.width, 2))), out("out", places() * shape.width),
        grad_qkv("grad_qkv", places() * 3 * shape.width), log_sums("log_sums", places() * shape.heads),
        work("work", places() * shape.heads), along("along", places() * shape.heads) {}

  std::int64_t places() const { return shape.samples * shape.positions; }
  std::int64_t items() const { return shape.samples * shape.heads; }

  AttentionShape shape;
  Vector qkv, grad_out, out, grad_qkv, log_sums, work, along;
};

void measureAlong(const Heads& heads) {
  forEachRun(space, "along", heads.items(), heads.shape.positions,
             AttentionAlong<Real>{heads.shape, heads.out.data(), heads.grad_out.data(), heads.along.data()});
}

/// Runs on the host in every build: a thread of a device would need up to 144 KiB of stack.
template <class Kernel>
void onHost(const Heads& heads, const Kernel& kernel) {
  using Host = Kokkos::DefaultHostExecutionSpace;
  Kokkos::parallel_for("by_threads",
                       Kokkos::RangePolicy<Host, Kokkos::IndexType<std::int64_t>>(0, heads.items()), kernel);
  Host().fence();
}

template <int Bound>
Heads byThreads(const AttentionShape& shape) {
  Heads heads(shape);
  const auto host = [](const Vector& values) {
    return Kokkos::create_mirror_view_and_copy(HostSpace(), values);
  };
  const auto qkv = host(heads.qkv), grad_out = host(heads.grad_out), out = host(heads.out),
             grad_qkv = host(heads.grad_qkv), log_sums = host(heads.log_sums), work = host(heads.work);
  onHost(heads, AttentionForward<Bound>{shape, qkv.data(), out.data(), log_sums.data(), work.data()});
  Kokkos::deep_copy(heads.out, out);
  Kokkos::deep_copy(heads.log_sums, log_sums);
  measureAlong(heads);
  const auto along = host(heads.along);
  onHost(heads, AttentionBackward<Bound>{shape, qkv.data(), log_sums.data(), grad_out.data(), along.data(),
                                         grad_qkv.data()});
  Kokkos::deep_copy(heads.grad_qkv, grad_qkv);
  return heads;
}

template <class Kernel, int Bound>
void launch(const Heads& heads, const Kernel& kernel) {
  Kokkos::parallel_for("kernel", attention_teams::teams<Kernel, Bound>(space, heads.shape), kernel);
}

template <bool OfQueries, int Bound>
void backByTeams(const Heads& heads) {
  using Kernel = attention_teams::Backward<OfQueries, Bound>;
  launch<Kernel, Bound>(heads, {heads.shape, heads.qkv.data(), heads.log_sums.data(), heads.grad_out.data(),
                                heads.along.data(), heads.grad_qkv.data()});
}

template <int Bound>
void forwardByTeams(const Heads& heads) {
  using Kernel = attention_teams::Forward<Bound>;
  launch<Kernel, Bound>(heads, {heads.shape, heads.qkv.data(), heads.out.data(), heads.log_sums.data()});
}

template <int Bound>
Heads byTeams(const AttentionShape& shape) {
  Heads heads(shape);
  forwardByTeams<Bound>(heads);
  measureAlong(heads);
  backByTeams<true, Bound>(heads);
  backByTeams<false, Bound>(heads);
  return heads;
}

template <int Bound>
void compare(const AttentionShape& shape) {
  const Heads threads = byThreads<Bound>(shape), teams = byTeams<Bound>(shape), again = byTeams<Bound>(shape);
  INFO(shape.positions << " positions, heads of " << shape.headWidth());
  CHECK(relativeError(valuesOf(teams.out), valuesOf(threads.out)) < 1e-6);
  CHECK(relativeError(valuesOf(teams.log_sums), valuesOf(threads.log_sums)) < 1e-6);
  CHECK(relativeError(valuesOf(teams.grad_qkv), valuesOf(threads.grad_qkv)) < 2e-6);
  CHECK(valuesOf(teams.grad_qkv) == valuesOf(again.grad_qkv));
}

} // namespace

TEST_CASE("Attention: teams come to the numbers of threads", "[kernels]") {
  compare<64>({2, 150, 3, 60}); // partly filled tiles, heads of 20
  compare<64>({1, 1, 2, 10});
  compare<64>({1, 33, 1, 64});
  compare<64>({3, 40, 2, 6}); // an odd width
  compare<128>({1, 50, 2, 200});
  compare<256>({1, 20, 1, 150});
}

TEST_CASE("Attention: teams do not leave out a key that is not a number", "[kernels]") {
  constexpr std::size_t positions = 80, width = 8;
  for (const std::size_t key : {5, 70}) { // in the first and in a later tile
    const Heads heads({1, positions, 1, width});
    Values qkv = valuesOf(heads.qkv);
    qkv[key * 3 * width + width] = std::numeric_limits<double>::quiet_NaN();
    assign(heads.qkv, qkv);
    forwardByTeams<64>(heads);
    const Values out = valuesOf(heads.out), log_sums = valuesOf(heads.log_sums);
    for (std::size_t position = 0; position < positions; ++position) {
      CAPTURE(key, position);
      CHECK(std::isnan(out[position * width]) == (position >= key)); // earlier queries do not see it
      CHECK(std::isnan(log_sums[position]) == (position >= key));
    }
  }
}

namespace {

/// Both passes for values that are stored in some precision; all results as `Real`.
struct Attended {
  std::vector<double> out, log_sums, grad_qkv;
};

Matrix converted(const TypedMatrix& values) {
  Matrix real = makeMatrix("partita::test::real", values.rows, values.columns);
  copyValues(space, values, real);
  return real;
}

/// Queries, keys and values are `scale` times normal numbers. They are rounded to `rounded`, whatever they
/// are stored in. Nothing is written beyond the scratch.
Attended attended(const AttentionShape& shape, Precision stored, Precision rounded, double scale = 1.0) {
  constexpr std::int64_t beyond = 32;
  const std::int64_t places = shape.places(), width = shape.width;
  const Vector saved("partita::test::saved", 4 * places * width),
      log_sums("partita::test::sums", shape.rows()),
      scratch("partita::test::scratch", attentionBackScratch(shape, stored) + beyond);
  Kokkos::deep_copy(scratch, Real(7));
  const TypedMatrix all(stored, saved.data(), 4 * places, width);
  const AttentionValues call{shape, all.rowsFrom(0, 3 * places).inRowsOf(3 * width),
                             all.rowsFrom(3 * places, places), log_sums.data()};
  const auto fill = [&](const TypedMatrix& to, int seed, double factor) {
    Values numbers = normals(to.rows * to.columns, seed);
    for (double& number : numbers) number *= factor;
    const Matrix from = matrixOf(to.rows, to.columns, numbers);
    roundTo(space, rounded, from);
    copyValues(space, from, to);
  };
  fill(call.qkv, 1, scale);
  attend(space, call, scratch.data());
  Attended results{valuesOf(converted(call.out)), valuesOf(log_sums), {}};
  const AttentionGradients gradients = gradientsIn(scratch.data(), call);
  fill(gradients.out, 2, 1.0);
  attendBack(space, call, gradients);
  results.grad_qkv = valuesOf(converted(gradients.qkv));
  const std::vector<double> used = valuesOf(scratch);
  CHECK(std::all_of(used.end() - beyond, used.end(), [](double value) { return value == 7; }));
  return results;
}

/// On hosts the last three, of which a library computes a few samples or heads at a time, would take too
/// long. The first three fill blocks of queries partly or exactly; the next two are too narrow or too short
/// for a library on hosts.
std::vector<AttentionShape> shapesToAttend() {
  std::vector<AttentionShape> shapes{{3, 150, 2, 64}, {1, 128, 12, 192}, {2, 33, 1, 128},
                                     {1, 40, 5, 60},  {2, 20, 2, 64},    {1, 400, 5, 160}};
  if (!device_is_host) shapes.insert(shapes.end(), {{2, 1024, 2, 64}, {1, 1024, 4, 64}, {2, 1001, 2, 64}});
  return shapes;
}

} // namespace

TEST_CASE("Attention of values stored in 16 bits comes to that of Real", "[kernels]") {
  for (const AttentionShape& shape : shapesToAttend())
    for (const Precision precision : {Precision::bf16, Precision::fp16}) {
      INFO(shape.positions << " positions, heads of " << shape.headWidth() << ", " << nameOf(precision));
      const Attended real = attended(shape, Precision::single, precision),
                     half = attended(shape, precision, precision),
                     again = attended(shape, precision, precision);
      const double rounding = precision == Precision::bf16 ? 8e-3 : 1e-3;
      CHECK(relativeError(half.out, real.out) < rounding);
      CHECK(relativeError(half.log_sums, real.log_sums) < 1e-4);
      CHECK(relativeError(half.grad_qkv, real.grad_qkv) < 2 * rounding);
      CHECK(half.grad_qkv == again.grad_qkv);
    }
}

/// Outputs are means of values; the exponential of a score would be beyond the range of a double.
TEST_CASE("Attention of huge scores gives no infinities", "[kernels]") {
  constexpr double scale = 40.0;
  const AttentionShape shape{2, 70, 2, 64};
  const Values numbers = normals(shape.places() * 3 * shape.width, 1);
  const auto smaller = [](double a, double b) { return std::abs(a) < std::abs(b); };
  const double most = 1.01 * scale * std::abs(*std::max_element(numbers.begin(), numbers.end(), smaller));
  for (const Precision precision : {Precision::single, Precision::bf16, Precision::fp16}) {
    INFO(nameOf(precision));
    const Attended found = attended(shape, precision, precision, scale);
    const double largest_sum = *std::max_element(found.log_sums.begin(), found.log_sums.end());
    CHECK((largest_sum > 1e3 && largest_sum < 1e5)); // log_sums are logarithms of sums
    CHECK(std::all_of(found.out.begin(), found.out.end(), [&](double x) { return std::abs(x) <= most; }));
    CHECK(
        std::all_of(found.grad_qkv.begin(), found.grad_qkv.end(), [](double x) { return std::isfinite(x); }));
  }
}

TEST_CASE("Attention: bits of a head depend on neither its sample nor the other heads", "[kernels]") {
  const AttentionShape three{3, 150, 4, 128}, one{1, 150, 4, 128};
  for (const Precision precision : {Precision::single, Precision::bf16}) {
    const Attended all = attended(three, precision, precision), first = attended(one, precision, precision);
    CHECK(std::equal(first.out.begin(), first.out.end(), all.out.begin()));
    CHECK(std::equal(first.log_sums.begin(), first.log_sums.end(), all.log_sums.begin()));
  }
}

TEST_CASE("oneDNN takes the attention of training where it multiplies bf16 numbers", "[kernels]") {
  const bool shown = attentionPath().rfind("oneDNN", 0) == 0;
  CHECK(onednn::attends({4, 128, 4, 256}, Precision::bf16) == shown);
  CHECK((!shown || onednn::multiplies(Precision::bf16)));
  CHECK_FALSE(onednn::attends({4, 128, 4, 256}, Precision::single));
  CHECK_FALSE(onednn::attends({4, 16, 4, 256}, Precision::bf16));
  CHECK_FALSE(onednn::attends({4, 128, 1, 32}, Precision::bf16)); // whose scratch is too small
}

TEST_CASE("cuDNN takes the attention of training where its frontend is there", "[kernels]") {
  const bool there = !cudnn::attentionVersion().empty() && sizeof(Real) == sizeof(float);
  const AttentionShape shape{4, 128, 4, 256};
  const Vector memory("partita::test::memory", 2 * shape.places() * shape.width);
  const TypedMatrix all(Precision::bf16, memory.data(), 4 * shape.places(), shape.width);
  AttentionValues values{shape, all.rowsFrom(0, 3 * shape.places()).inRowsOf(3 * shape.width),
                         all.rowsFrom(3 * shape.places(), shape.places()), nullptr};
  for (const bool back : {false, true}) CHECK(cudnn::attends(values, back) == there);
  values.shape.heads = 64; // of 4 values
  CHECK_FALSE(cudnn::attends(values, false));
}

TEST_CASE("Attention: 16-bit gradients begin where libraries want them, wherever scratch begins",
          "[kernels]") {
  const AttentionShape shape{2, 33, 2, 16};
  const Vector saved("partita::test::saved", 4 * shape.places() * shape.width),
      scratch("partita::test::scratch", attentionBackScratch(shape, Precision::bf16) + 16);
  const TypedMatrix all(Precision::bf16, saved.data(), 4 * shape.places(), shape.width);
  const AttentionValues values{shape, all.rowsFrom(0, 3 * shape.places()).inRowsOf(3 * shape.width),
                               all.rowsFrom(3 * shape.places(), shape.places()), nullptr};
  for (int offset = 0; offset < 16; ++offset) {
    Real* const memory = scratch.data() + offset;
    const AttentionGradients gradients = gradientsIn(memory, values);
    CHECK(reinterpret_cast<std::uintptr_t>(gradients.qkv.data) % 64 == 0);
    CHECK(gradients.qkv.data >= memory);
    CHECK(gradients.scratch + attentionScratch(shape, Precision::bf16) <=
          memory + attentionBackScratch(shape, Precision::bf16));
  }
}

} // namespace partita::test::kernels_attend
