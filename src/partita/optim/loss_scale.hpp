#pragma once

#include <algorithm>
#include <cstdint>

namespace partita {

/// The factor on the loss that keeps gradients within the range of fp16: it grows as long as nothing
/// overflows, and a step whose gradients did is left out and halves it (Micikevicius et al., arXiv
/// 1710.03740, section 3.2). Powers of two: scaling rounds nothing.
class LossScale {
 public:
  static constexpr double start = 65536.0, least = 1024.0, most = 16777216.0;
  static constexpr std::int64_t clean_steps = 200; ///< until it doubles

  /// Without `scales` it is always 1.
  explicit LossScale(bool scales) : _scales(scales), _value(scales ? start : 1.0) {}

  double value() const { return _value; }
  std::int64_t clean() const { return _clean; }         ///< steps since it changed
  std::int64_t overflows() const { return _overflows; } ///< steps left out, one after another

  void stepTaken() {
    _overflows = 0;
    if (!_scales || ++_clean < clean_steps) return;
    _clean = 0;
    _value = std::min(most, 2.0 * _value);
  }
  void stepLeftOut() {
    ++_overflows;
    _clean = 0;
    if (_scales) _value = std::max(least, 0.5 * _value);
  }
  /// As it was; a run that did not scale says 1, and has nothing to go on from.
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
