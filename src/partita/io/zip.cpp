#include "partita/io/zip.hpp"

#include "partita/core/error.hpp"

#include <zlib.h>

#include <algorithm>

namespace partita {

namespace {

constexpr std::uint64_t in_zip64 = 0xFFFFFFFF, count_in_zip64 = 0xFFFF; // "see the 64-bit field"
constexpr unsigned version = 20, zip64_version = 45;                    // of the reader that is needed
constexpr unsigned first_of_january_1980 = 0x21; // the same archive, byte for byte, whenever it is made

std::string little(std::uint64_t value, int bytes) {
  std::string out;
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i) & 0xFF);
  return out;
}

bool isLarge(std::uint64_t value) {
  return value >= in_zip64;
}

/// The extra field with the 64-bit forms of the values, or nothing where there are none.
std::string zip64Field(const std::vector<std::uint64_t>& values) {
  if (values.empty()) return {};
  std::string out = little(0x0001, 2) + little(8 * values.size(), 2);
  for (const std::uint64_t value : values) out += little(value, 8);
  return out;
}

/// What local header and directory entry share: from the version needed to the length of the extra field.
std::string commonPart(const ZipMember& member, std::size_t extra_bytes) {
  const std::uint64_t bytes = std::min(member.bytes, in_zip64);
  return little(extra_bytes > 0 ? zip64_version : version, 2) + little(0, 2) + little(0, 2) + little(0, 2) +
         little(first_of_january_1980, 2) + little(member.crc, 4) + little(bytes, 4) + little(bytes, 4) +
         little(member.name.size(), 2) + little(extra_bytes, 2);
}

} // namespace

std::string zipLocalHeader(const ZipMember& member) {
  const bool large = isLarge(member.bytes);
  const std::string extra = zip64Field(large ? std::vector<std::uint64_t>{member.bytes, member.bytes}
                                             : std::vector<std::uint64_t>{});
  return little(0x04034b50, 4) + commonPart(member, extra.size()) + member.name + extra;
}

std::string zipDirectoryEntry(const ZipMember& member) {
  std::vector<std::uint64_t> wide;
  if (isLarge(member.bytes)) wide = {member.bytes, member.bytes};
  if (isLarge(member.offset)) wide.push_back(member.offset);
  const std::string extra = zip64Field(wide);
  return little(0x02014b50, 4) + little(zip64_version, 2) + commonPart(member, extra.size()) +
         std::string(10, '\0') + // no comment, first disk, no attributes
         little(std::min(member.offset, in_zip64), 4) + member.name + extra;
}

std::string zipEnd(std::uint64_t members, std::uint64_t directory_offset, std::uint64_t directory_bytes) {
  std::string out;
  if (members >= count_in_zip64 || isLarge(directory_offset) || isLarge(directory_bytes)) {
    out = little(0x06064b50, 4) + little(44, 8) + little(zip64_version, 2) + little(zip64_version, 2) +
          little(0, 4) + little(0, 4) + little(members, 8) + little(members, 8) + little(directory_bytes, 8) +
          little(directory_offset, 8) + little(0x07064b50, 4) + little(0, 4) +
          little(directory_offset + directory_bytes, 8) + little(1, 4);
  }
  const std::string count = little(std::min(members, count_in_zip64), 2);
  return out + little(0x06054b50, 4) + little(0, 4) + count + count +
         little(std::min(directory_bytes, in_zip64), 4) + little(std::min(directory_offset, in_zip64), 4) +
         little(0, 2);
}

void ZipWriter::begin(const std::string& name, std::uint64_t bytes) {
  endMember();
  _members.push_back({name, bytes, _file.size(), 0});
  _file.write(zipLocalHeader(_members.back()));
  _missing = bytes;
}

void ZipWriter::write(const void* data, std::size_t bytes) {
  PARTITA_REQUIRE(bytes <= _missing, "a member of an archive is longer than was said");
  ZipMember& member = _members.back();
  member.crc = static_cast<std::uint32_t>(crc32_z(member.crc, static_cast<const Bytef*>(data), bytes));
  _file.write(data, bytes);
  _missing -= bytes;
}

/// The checksum is known only now, and belongs in front.
void ZipWriter::endMember() {
  PARTITA_REQUIRE(_missing == 0, "a member of an archive is shorter than was said");
  if (!_members.empty()) _file.replace(_members.back().offset, zipLocalHeader(_members.back()));
}

void ZipWriter::commit() {
  endMember();
  const std::uint64_t begin = _file.size();
  for (const ZipMember& member : _members) _file.write(zipDirectoryEntry(member));
  _file.write(zipEnd(_members.size(), begin, _file.size() - begin));
  _file.commit();
}

} // namespace partita
