#include "partita/core/error.hpp"

#include <new>

#include "support/catch.hpp"

namespace partita::test::core_error {

TEST_CASE("An error for lack of memory says so, whoever has found it", "[core]") {
  const std::string no_memory = "not enough memory; -n shows what each rank needs";
  CHECK(textForUser(std::bad_alloc()) == no_memory);
  CHECK(textForUser(std::bad_array_new_length()) == no_memory);
  CHECK(textForUser(std::runtime_error("Kokkos failed to allocate 3 GiB.\nMore lines")) == no_memory);
  CHECK(textForUser(RunError("the disk is full")) == "the disk is full");
}

} // namespace partita::test::core_error
