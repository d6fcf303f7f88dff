#include "partita/plan/search/accelerator.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <string>
#include <tuple>
#include <vector>

#include "data_files.hpp"
#include "support/catch.hpp"

namespace partita::test::plan_accelerator {

namespace {

auto rank(const Accelerator& a) {
  return std::make_tuple(a.tensor_cores, a.vector_cores, a.width, a.depth, a.buffer_mib);
}

/// The numbers that follow a colon in a JSON text.
std::vector<double> numbersIn(const std::string& text) {
  std::vector<double> numbers;
  for (std::size_t colon = text.find(':'); colon != std::string::npos; colon = text.find(':', colon + 1))
    numbers.push_back(std::strtod(text.c_str() + colon + 1, nullptr));
  return numbers;
}

} // namespace

TEST_CASE("The area of the reference and of published accelerators", "[plan][placement]") {
  REQUIRE(acceleratorArea(referenceAccelerator()) == Approx(278826676.31216).epsilon(1e-12));
  // Rows of the published table: the first, the smallest buffer beside it, and the largest core memory.
  REQUIRE(acceleratorArea({4096, 4096, 16, 2, 16, 32}) == Approx(246416424.736).epsilon(1e-12));
  REQUIRE(acceleratorArea({4096, 4096, 16, 2, 16, 16}) == Approx(223410724.736).epsilon(1e-12));
}

TEST_CASE("The space has the 29,360 published accelerators in their order", "[plan][placement]") {
  const std::vector<Accelerator> space = acceleratorSpace();
  REQUIRE(space.size() == 29360);
  REQUIRE(rank(space.front()) == std::make_tuple(4096, 4096, 16, 2, 32));
  REQUIRE(std::is_sorted(space.begin(), space.end(),
                         [](const Accelerator& a, const Accelerator& b) { return rank(a) > rank(b); }));
  const double largest = acceleratorArea(referenceAccelerator());
  REQUIRE(std::all_of(space.begin(), space.end(), [&](const Accelerator& a) {
    const bool alone = a.tensor_cores == 1 || a.vector_cores == 1;
    const double share = acceleratorArea(a) / largest;
    return share <= 1.0 && (alone || share >= 0.3) && a.vector_width == a.width;
  }));
  REQUIRE(std::any_of(space.begin(), space.end(),
                      [](const Accelerator& a) { return rank(a) == rank(referenceAccelerator()); }));
}

TEST_CASE("All areas are the published ones", "[plan][placement]") {
  const std::string folder = realData("phaze");
  if (folder.empty()) {
    WARN("skipped: PARTITA_DATA holds no folder phaze");
    return;
  }
  std::ifstream file(folder + "/phaze/cores.json");
  const std::vector<double> rows = numbersIn({std::istreambuf_iterator<char>(file), {}});
  const std::vector<Accelerator> space = acceleratorSpace();
  constexpr std::size_t columns = 7;
  REQUIRE(rows.size() == columns * space.size());
  double worst = 0.0;
  std::size_t different = 0;
  for (std::size_t i = 0; i < space.size(); ++i) {
    const double* row = &rows[columns * i];
    const Accelerator& a = space[i];
    const std::vector<double> own = {1.0 * a.tensor_cores, 1.0 * a.vector_cores, 1.0 * a.width,
                                     1.0 * a.depth,        1.0 * a.vector_width, a.buffer_mib * 1048576.0};
    different += std::equal(own.begin(), own.end(), row) ? 0 : 1;
    worst = std::max(worst, std::fabs(acceleratorArea(a) / row[columns - 1] - 1.0));
  }
  REQUIRE(different == 0);
  REQUIRE(worst < 1e-12);
}

} // namespace partita::test::plan_accelerator
