#include "partita/core/packs.hpp"
#include "partita/core/rows.hpp"

#include <algorithm>
#include <vector>

#include "support/catch.hpp"
#include "support/default_space.hpp"
#include "support/matrices.hpp"

namespace partita::test::core_packs {

/// Devices compute values in packs; a host can do that too.

namespace {

constexpr DefaultSpace space;

/// out = a b + a
template <class Stored>
struct Combine {
  const Stored* a;
  const Real* b;
  Stored* out;

  template <class P>
  KOKKOS_INLINE_FUNCTION void operator()(P, std::int64_t i) const {
    P::store(out + i, P::map([](Real x, Real y) { return x * y + x; }, P::load(a + i), P::load(b + i)));
  }
};

template <class Stored>
struct ScaleColumns {
  const Stored* in;
  const Real* factor;
  Stored* out;
  std::int64_t columns, places;

  template <class P>
  KOKKOS_INLINE_FUNCTION void operator()(P, std::int64_t row, std::int64_t column) const {
    const std::int64_t i = row * columns + column;
    P::store(out + i,
             P::map([](Real x, Real f) { return x * f; }, P::load(in + i), P::load(factor + column)));
  }
  template <class P>
  KOKKOS_INLINE_FUNCTION void operator()(P pack, std::int64_t row, std::int64_t place,
                                         std::int64_t channel) const {
    (*this)(pack, row * places + place, channel);
  }
};

/// Numbers in the type that stores them, in memory that begins at a multiple of 16 bytes.
template <class Stored, class Space = MemSpace>
class Stock {
 public:
  Stock(std::int64_t size, unsigned seed) : _view("stock", size) {
    const auto host = Kokkos::create_mirror_view(_view);
    const Values values = normals(size, seed);
    for (std::int64_t i = 0; i < size; ++i)
      host(i) = fromReal<Stored>(static_cast<Real>(values[static_cast<std::size_t>(i)]));
    Kokkos::deep_copy(_view, host);
  }
  Stored* data() const { return _view.data(); }
  Values values() const {
    const auto host = Kokkos::create_mirror_view_and_copy(HostSpace(), _view);
    Values all;
    for (std::size_t i = 0; i < host.extent(0); ++i) all.push_back(toReal(host(i)));
    return all;
  }

 private:
  Kokkos::View<Stored*, Space> _view;
};

} // namespace

TEMPLATE_TEST_CASE("Packs compute what single values do, bit for bit", "[core]", Real, BFloat16, Float16) {
  for (const std::int64_t size : {1, 7, 8, 16, 29}) {
    INFO(size << " values");
    const Stock<TestType> a(size, 1), packed(size, 3), single(size, 4);
    const Stock<Real> b(size, 2);
    REQUIRE(alignedForPacks(a.data(), b.data(), packed.data(), single.data()));
    const std::int64_t packs = (size + values_per_pack - 1) / values_per_pack;
    using Body = Combine<TestType>;
    Kokkos::parallel_for("packs", Range(space, 0, packs),
                         detail::FlatPacks<Body>{Body{a.data(), b.data(), packed.data()}, size});
    forEachValue(space, "values", size, detail::OneByOne<Body>{Body{a.data(), b.data(), single.data()}});
    Kokkos::fence();
    CHECK(packed.values() == single.values());
  }
}

TEMPLATE_TEST_CASE("Packs have their rows, places and columns", "[core]", Real, BFloat16, Float16) {
  constexpr std::int64_t rows = 3, places = 5, columns = 24;
  const Stock<TestType> in(rows * places * columns, 1), by_row(rows * places * columns, 2),
      by_place(rows * places * columns, 3);
  const Stock<Real> factor(columns, 4);
  using Body = ScaleColumns<TestType>;
  const Body to_rows{in.data(), factor.data(), by_row.data(), columns, places},
      to_places{in.data(), factor.data(), by_place.data(), columns, places};
  const std::int64_t packs = columns / values_per_pack;
  Kokkos::parallel_for("rows", Range(space, 0, rows * places * packs),
                       detail::RowPacks<Body>{to_rows, packs});
  using OfPlaces = detail::PackOfPlace<Body>;
  Kokkos::parallel_for("places", Range(space, 0, rows * places * packs),
                       detail::RowPacks<OfPlaces>{OfPlaces{to_places, places}, packs});
  Kokkos::fence();
  const Values values = in.values(), factors = factor.values(), found = by_row.values();
  for (std::size_t i = 0; i < values.size(); ++i)
    REQUIRE(found[i] == toReal(fromReal<TestType>(static_cast<Real>(values[i]) *
                                                  static_cast<Real>(factors[i % columns]))));
  CHECK(by_place.values() == found);
}

TEMPLATE_TEST_CASE("A row in packs has each of its values once", "[core]", Real, BFloat16, Float16) {
  for (const std::int64_t size : {1, 8, 21, 64}) {
    for (const bool aligned : {false, true}) {
      INFO(size << " values, " << (aligned ? "in packs" : "one by one"));
      const Stock<TestType, HostSpace> in(size, 1), out(size, 2);
      const detail::PackedRow<TestType> row(in.data(), size, aligned);
      CHECK(row.items() == (aligned ? size / 8 + size % 8 : size));
      const Values values = in.values();
      std::vector<int> seen(static_cast<std::size_t>(size));
      for (std::int64_t item = 0; item < row.items(); ++item) {
        row.visit(item, [&](Real value, std::int64_t place) {
          CHECK(value == values[static_cast<std::size_t>(place)]);
          ++seen[static_cast<std::size_t>(place)];
        });
        row.map(item, out.data(),
                [](Real value, std::int64_t place) { return place % 2 == 0 ? value : -value; });
      }
      CHECK(seen == std::vector<int>(static_cast<std::size_t>(size), 1));
      const Values mapped = out.values();
      for (std::size_t i = 0; i < mapped.size(); ++i)
        CHECK(mapped[i] == (i % 2 == 0 ? values[i] : -values[i]));
    }
  }
}

TEMPLATE_TEST_CASE("A row of sums has the same packs at every address", "[core]", Real, BFloat16, Float16) {
  for (const std::int64_t size : {1, 8, 21, 64}) {
    const Stock<TestType, HostSpace> stock(size, 1);
    for (const std::int64_t first : {0, 1}) {
      INFO(size << " values from " << first);
      std::vector<TestType> moved(static_cast<std::size_t>(size + 16));
      TestType* from = moved.data();
      while (!alignedForPacks(from)) ++from;
      from += first;
      std::copy_n(stock.data(), size, from);
      const detail::PackedRow<TestType> row(from, size);
      REQUIRE(row.items() == size / 8 + size % 8);
      std::int64_t next = 0;
      for (std::int64_t item = 0; item < row.items(); ++item) {
        std::int64_t seen = 0;
        row.visit(item, [&](Real value, std::int64_t place) {
          CHECK(place == next);
          CHECK(value == toReal(stock.data()[next]));
          ++next;
          ++seen;
        });
        CHECK(seen == (item < size / 8 ? 8 : 1));
      }
      CHECK(next == size);
    }
  }
}

} // namespace partita::test::core_packs
