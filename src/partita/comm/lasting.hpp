#pragma once

#include <exception>
#include <memory>
#include <utility>

namespace partita {

/// A value that MPI reads or writes during a wait. If an exception ends the wait, the value is never freed,
/// as MPI may still use it later.
template <class T>
class Lasting {
 public:
  explicit Lasting(T value = {}) : _value(std::make_unique<T>(std::move(value))) {}
  ~Lasting() {
    if (std::uncaught_exceptions() > 0) static_cast<void>(_value.release());
  }
  Lasting(const Lasting&) = delete;
  Lasting& operator=(const Lasting&) = delete;
  T& operator*() const { return *_value; }
  T* operator->() const { return _value.get(); }

 private:
  std::unique_ptr<T> _value;
};

} // namespace partita
