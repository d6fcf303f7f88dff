#pragma once

#include "partita/io/output_file.hpp"

#include <vector>

namespace partita {

/// A message in the wire format of Protocol Buffers, built field by field
/// (https://protobuf.dev/programming-guides/encoding). Large data are referenced, not copied, and must live
/// until the message is written.
class ProtobufMessage {
 public:
  void integer(int field, std::int64_t value);
  void real(int field, float value);
  void text(int field, const std::string& value);
  void data(int field, const void* bytes, std::uint64_t size);
  void message(int field, const ProtobufMessage& value);

  std::uint64_t size() const { return _size; } ///< in bytes
  /// Throws UserError if the message exceeds 2 GB - 1, the limit of programs that read it, or cannot be
  /// written.
  void write(const std::string& path) const;

 private:
  struct Fragment {
    std::string own;            ///< bytes that precede `data`
    const void* data = nullptr; ///< referenced bytes
    std::uint64_t size = 0;     ///< number of referenced bytes
  };

  void append(const std::string& bytes);

  std::vector<Fragment> _fragments;
  std::uint64_t _size = 0;
};

} // namespace partita
