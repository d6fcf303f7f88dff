#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace partita {

/// SHA-256 (FIPS 180-4). Its state is plain data, so that one rank can continue where another stopped: the
/// hash over all parameters in layer order is computed without gathering them.
class Sha256 {
 public:
  Sha256();
  void update(const void* data, std::size_t bytes);
  std::string hex() const; ///< digest of everything so far, 64 lower-case hexadecimal digits

 private:
  void compress(const unsigned char* block);

  std::array<std::uint32_t, 8> _state;
  std::array<unsigned char, 64> _block{};
  std::uint64_t _bytes = 0;
};

} // namespace partita
