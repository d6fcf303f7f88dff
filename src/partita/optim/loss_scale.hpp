#pragma once

#include "partita/core/types.hpp"

namespace partita {

/// The factor on the loss that keeps gradients within the range of fp16: it grows as long as nothing
/// overflows; a step whose gradients overflow is skipped and halves it (Micikevicius et al., arXiv
/// 1710.03740, section 3.2). It is a power of two, so that scaling does not round. For hosts and devices.
struct LossScale {
  static constexpr Real start = 65536, least = 1024, most = 16777216;
  static constexpr std::int64_t clean_steps = 200; ///< steps without overflow until it doubles

  Real value = 1, inverse = 1;
  std::int64_t clean = 0;     ///< steps without overflow since it changed
  std::int64_t overflows = 0; ///< consecutive steps skipped
  bool scales = false;        ///< false: it is always 1

  LossScale() = default;
  explicit LossScale(bool it_scales) : scales(it_scales) {
    if (scales) set(start);
  }

  /// After a step that was taken, or skipped.
  KOKKOS_INLINE_FUNCTION void count(bool taken) {
    overflows = taken ? 0 : overflows + 1;
    if (!scales) return;
    clean = taken ? clean + 1 : 0;
    if (taken && clean < clean_steps) return;
    clean = 0;
    set(taken ? 2 * value : value / 2);
  }
  /// Restores the scale of a checkpoint; a value of 1, from a run without scaling, is ignored.
  void resume(double its_value, std::int64_t its_clean) {
    if (!scales || its_value <= 1.0) return;
    set(static_cast<Real>(its_value));
    clean = its_clean;
  }

 private:
  KOKKOS_INLINE_FUNCTION void set(Real wanted) {
    value = wanted < least ? Real{least} : wanted > most ? Real{most} : wanted;
    inverse = 1 / value;
  }
};

} // namespace partita
