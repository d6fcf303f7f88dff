#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace partita {

/// A set of the numbers 0..size-1. All operations expect sets of the same size.
class BitSet {
 public:
  BitSet() = default;
  explicit BitSet(std::size_t size) : _words((size + 63) / 64, 0) {}

  bool has(std::size_t i) const { return (_words[i / 64] >> (i % 64) & 1) != 0; }
  void add(std::size_t i) { _words[i / 64] |= std::uint64_t{1} << (i % 64); }
  void addAll(const BitSet& other) {
    for (std::size_t w = 0; w < _words.size(); ++w) _words[w] |= other._words[w];
  }
  bool holds(const BitSet& other) const {
    for (std::size_t w = 0; w < _words.size(); ++w)
      if ((other._words[w] & ~_words[w]) != 0) return false;
    return true;
  }
  std::size_t count() const {
    std::size_t total = 0;
    for (std::uint64_t word : _words)
      for (; word != 0; word &= word - 1) ++total;
    return total;
  }
  bool operator==(const BitSet& other) const { return _words == other._words; }

  /// For hash tables (FNV-1a over words).
  struct Hash {
    std::size_t operator()(const BitSet& set) const {
      std::uint64_t hash = 14695981039346656037ULL;
      for (const std::uint64_t word : set._words) hash = (hash ^ word ^ word >> 29) * 1099511628211ULL;
      return static_cast<std::size_t>(hash ^ hash >> 32);
    }
  };

 private:
  std::vector<std::uint64_t> _words;
};

} // namespace partita
