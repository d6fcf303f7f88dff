#include "partita/nn/attention_teams.hpp"

#include "support/catch.hpp"
#include "support/default_space.hpp"
#include "support/matrices.hpp"

namespace partita::test::nn_attention_teams {

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
             AttentionAlong{heads.shape, heads.out.data(), heads.grad_out.data(), heads.along.data()});
}

template <int Bound>
Heads byThreads(const AttentionShape& shape) {
  Heads heads(shape);
  Kokkos::parallel_for("forward", Range(space, 0, heads.items()),
                       AttentionForward<Bound>{shape, heads.qkv.data(), heads.out.data(),
                                               heads.log_sums.data(), heads.work.data()});
  measureAlong(heads);
  Kokkos::parallel_for("backward", Range(space, 0, heads.items()),
                       AttentionBackward<Bound>{shape, heads.qkv.data(), heads.log_sums.data(),
                                                heads.grad_out.data(), heads.along.data(),
                                                heads.grad_qkv.data()});
  return heads;
}

template <class Kernel, int Bound>
void launch(const Heads& heads, const Kernel& kernel) {
  Kokkos::parallel_for("kernel", attention_teams::teams<Bound>(space, heads.shape, Kernel::scratch), kernel);
}

template <bool OfQueries, int Bound>
void backByTeams(const Heads& heads) {
  using Kernel = attention_teams::Backward<OfQueries, Bound>;
  launch<Kernel, Bound>(heads, {heads.shape, heads.qkv.data(), heads.log_sums.data(), heads.grad_out.data(),
                                heads.along.data(), heads.grad_qkv.data()});
}

template <int Bound>
Heads byTeams(const AttentionShape& shape) {
  Heads heads(shape);
  using Kernel = attention_teams::Forward<Bound>;
  launch<Kernel, Bound>(heads, {shape, heads.qkv.data(), heads.out.data(), heads.log_sums.data()});
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

TEST_CASE("Attention: teams come to the numbers of threads", "[nn]") {
  compare<64>({2, 150, 3, 60}); // partly filled tiles, heads of 20
  compare<64>({1, 1, 2, 10});
  compare<64>({1, 33, 1, 64});
  compare<64>({3, 40, 2, 6}); // an odd width
  compare<128>({1, 50, 2, 200});
  compare<256>({1, 20, 1, 150});
}

TEST_CASE("Attention: a team's memory is within what every GPU has", "[nn]") {
  CHECK(attention_teams::Forward<64>::scratch * sizeof(Real) <= 48 * 1024);
  CHECK(attention_teams::Backward<true, 64>::scratch * sizeof(Real) <= 48 * 1024);
  CHECK(attention_teams::Backward<false, 256>::scratch * sizeof(Real) <= 48 * 1024);
}

} // namespace partita::test::nn_attention_teams
