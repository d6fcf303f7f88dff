#pragma once

#include <algorithm>
#include <cstdint>

namespace partita {

/// The factor on the loss that keeps gradients within the range of fp16: it grows as long as nothing
/// overflows; a step whose gradients overflow is skipped and halves it (Micikevicius et al., arXiv
/// 1710.03740, section 3.2). It is a power of two, so that scaling does not round.
class LossScale {
 public:
  static constexpr double start = 65536.0, least = 1024.0, most = 16777216.0;
  static constexpr std::int64_t clean_steps = 200; ///< steps without overflow until it doubles

  /// Without `scales` it is always 1.
  explicit LossScale(bool scales) : _scales(scales), _value(scales ? start : 1.0) {}

  double value() const { return _value; }
  std::int64_t clean() const { return _clean; }         ///< steps without overflow since it changed
  std::int64_t overflows() const { return _overflows; } ///< consecutive steps skipped

  void stepTaken() {
    _overflows = 0;
    if (!_scales || ++_clean < clean_steps) return;
    _clean = 0;
    _value = std::min(most, 2.0 * _value);
  }
  void stepSkipped() {
    ++_overflows;
    _clean = 0;
    if (_scales) _value = std::max(least, 0.5 * _value);
  }
  /// Restores the scale of a checkpoint; a value of 1, from a run without scaling, is ignored.
  void resume(double value, std::int64_t clean) {
    if (!_scales || value <= 1.0) return;
    _value = std::clamp(value, least, most);
    _clean = clean;
  }

 private:
  bool _scales;
  double _value;
  std::int64_t _clean = 0, _overflows = 0;
};

} // namespace partita
