#include "partita/io/protobuf.hpp"

#include "partita/config/user_error.hpp"

#include <array>
#include <cstring>
#include <limits>

namespace partita {

namespace {

enum WireType : unsigned { varint = 0, length_delimited = 2, fixed32 = 5 };

/// Seven bits per byte, lowest first; all bytes except the last have the highest bit set.
std::string varintOf(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>((value & 0x7F) | 0x80);
  return bytes + static_cast<char>(value);
}

std::string keyOf(int field, WireType type) {
  return varintOf(static_cast<std::uint64_t>(field) << 3 | type);
}

} // namespace

void ProtobufMessage::append(const std::string& bytes) {
  if (_fragments.empty() || _fragments.back().data != nullptr) _fragments.emplace_back();
  _fragments.back().own += bytes;
  _size += bytes.size();
}

void ProtobufMessage::integer(int field, std::int64_t value) {
  append(keyOf(field, varint) + varintOf(value));
}

void ProtobufMessage::real(int field, float value) {
  std::array<char, 4> bytes{};
  std::memcpy(bytes.data(), &value, bytes.size());
  append(keyOf(field, fixed32) + std::string(bytes.data(), bytes.size()));
}

void ProtobufMessage::text(int field, const std::string& value) {
  append(keyOf(field, length_delimited) + varintOf(value.size()) + value);
}

void ProtobufMessage::data(int field, const void* bytes, std::uint64_t size) {
  append(keyOf(field, length_delimited) + varintOf(size));
  _fragments.back().data = bytes;
  _fragments.back().size = size;
  _size += size;
}

void ProtobufMessage::message(int field, const ProtobufMessage& value) {
  append(keyOf(field, length_delimited) + varintOf(value._size));
  for (const Fragment& fragment : value._fragments) {
    append(fragment.own);
    _fragments.back().data = fragment.data;
    _fragments.back().size = fragment.size;
    _size += fragment.size;
  }
}

void ProtobufMessage::write(const std::string& path) const {
  if (_size > std::numeric_limits<std::int32_t>::max()) {
    throw UserError(path + ": the network exceeds the limit of the format, 2 GB; export it as .npz");
  }
  OutputFile file(path);
  for (const Fragment& fragment : _fragments) {
    file.write(fragment.own);
    file.write(fragment.data, fragment.size);
  }
  file.commit();
}

} // namespace partita
