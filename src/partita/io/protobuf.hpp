#pragma once

#include "partita/io/output_file.hpp"

#include <vector>

namespace partita {

/// A message in the wire format of Protocol Buffers, built field by field
/// (https://protobuf.dev/programming-guides/encoding). Large data are referred to, not copied: they must live
/// until the message is written.
class ProtobufMessage {
 public:
  void integer(int field, std::int64_t value);
  void real(int field, float value);
  void text(int field, const std::string& value);
  void data(int field, const void* bytes, std::uint64_t size);
  void message(int field, const ProtobufMessage& value);

  std::uint64_t size() const { return _size; } ///< in bytes
  /// Throws UserError where the message is larger than programs take, 2 GB - 1, or cannot be written.
  void write(const std::string& path) const;

 private:
  struct Fragment {
    std::string own;            ///< bytes that stand in front of
    const void* data = nullptr; ///< bytes that lie elsewhere
    std::uint64_t size = 0;     ///< number of those
  };

  void append(const std::string& bytes);

  std::vector<Fragment> _fragments;
  std::uint64_t _size = 0;
};

} // namespace partita
