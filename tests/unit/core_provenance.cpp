#include "partita/core/provenance.hpp"

#include "support/catch.hpp"

namespace partita::test::core_provenance {

TEST_CASE("Bf16 numbers are multiplied as such only where that is faster", "[core]") {
  const char* const zen_4 = "avx2 avx512f avx512_bf16";
  const char* const cooper_lake = "avx512_bf16 avx512_vnni";
  const char* const sapphire_rapids = "avx512_bf16 avx512_fp16 amx_bf16 amx_tile";
  const char* const without_amx = "avx512_bf16 avx512_fp16";
  CHECK(multipliesBf16Fast("AuthenticAMD", zen_4));
  CHECK(multipliesBf16Fast("AuthenticAMD", without_amx));
  CHECK(multipliesBf16Fast("GenuineIntel", cooper_lake));
  CHECK(multipliesBf16Fast("GenuineIntel", sapphire_rapids));
  CHECK_FALSE(multipliesBf16Fast("GenuineIntel", without_amx));
  CHECK_FALSE(multipliesBf16Fast("GenuineIntel", "avx2 avx512f"));
  CHECK_FALSE(multipliesBf16Fast("", ""));
}

} // namespace partita::test::core_provenance
