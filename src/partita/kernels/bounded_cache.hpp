#pragma once

#include <cstddef>
#include <map>

namespace partita {

/// What a library has compiled, by what it depends on besides addresses. An entry is some ten kB, so a full
/// cache begins anew: that happens if batches or sequences change their sizes all the time. An entry that
/// is made may thus drop all others. Callers hold a mutex.
template <class Key, class Compiled>
class BoundedCache {
 public:
  explicit BoundedCache(std::size_t most) : _most(most) {}

  /// The entry of this key, or compile(), which is kept.
  template <class Compile>
  Compiled& get(const Key& key, const Compile& compile) {
    auto found = _compiled.find(key);
    if (found == _compiled.end()) {
      if (_compiled.size() >= _most) _compiled.clear();
      found = _compiled.emplace(key, compile()).first;
    }
    return found->second;
  }
  void clear() { _compiled.clear(); }

 private:
  std::size_t _most;
  std::map<Key, Compiled> _compiled;
};

} // namespace partita
