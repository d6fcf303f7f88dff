#include "partita/core/subnormals.hpp"

#include <cstdint>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace partita {

void flushSubnormals() {
#if defined(__SSE__)
  constexpr unsigned flush_results = 0x8000, flush_operands = 0x0040; // FTZ and DAZ of MXCSR
  _mm_setcsr(_mm_getcsr() | flush_results | flush_operands);
#elif defined(__aarch64__)
  constexpr std::uint64_t flush_all = std::uint64_t{1} << 24U; // FZ of FPCR
  std::uint64_t control = 0;
  asm volatile("mrs %0, fpcr" : "=r"(control));
  asm volatile("msr fpcr, %0" : : "r"(control | flush_all));
#endif
}

} // namespace partita
