#pragma once

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

namespace partita {

/// Values that never change. Copies of an array share its memory, which may also be shared with other
/// processes.
template <class T>
class ConstArray {
 public:
  ConstArray() = default;
  ConstArray(std::vector<T> values) { // NOLINT(google-explicit-constructor): the array of these values
    auto owned = std::make_shared<const std::vector<T>>(std::move(values));
    _begin = owned->data();
    _size = owned->size();
    _owner = std::move(owned);
  }
  ConstArray(std::initializer_list<T> values) : ConstArray(std::vector<T>(values)) {}
  ConstArray(const ConstArray&) = default;
  ConstArray& operator=(const ConstArray&) = default;
  ConstArray(ConstArray&& other) noexcept { swap(other); }
  ConstArray& operator=(ConstArray&& other) noexcept {
    ConstArray(std::move(other)).swap(*this);
    return *this;
  }
  ~ConstArray() = default;
  /// `size` values at `begin` in memory that exists as long as `owner`.
  ConstArray(std::shared_ptr<const void> owner, const T* begin, std::size_t size)
      : _owner(std::move(owner)), _begin(begin), _size(size) {}

  const T* data() const { return _begin; }
  std::size_t size() const { return _size; }
  bool empty() const { return _size == 0; }
  const T* begin() const { return _begin; }
  const T* end() const { return _begin + _size; }
  const T& operator[](std::size_t i) const { return _begin[i]; }
  const T& front() const { return *_begin; }
  const T& back() const { return _begin[_size - 1]; }

  /// The first values, at most `size()`, in the same memory.
  ConstArray first(std::size_t count) const { return {_owner, _begin, std::min(count, _size)}; }

  friend bool operator==(const ConstArray& a, const ConstArray& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }
  friend bool operator!=(const ConstArray& a, const ConstArray& b) { return !(a == b); }

 private:
  void swap(ConstArray& other) noexcept {
    std::swap(_owner, other._owner);
    std::swap(_begin, other._begin);
    std::swap(_size, other._size);
  }

  std::shared_ptr<const void> _owner;
  const T* _begin = nullptr;
  std::size_t _size = 0;
};

} // namespace partita
