#include "partita/io/npz.hpp"

#include "partita/config/files.hpp"
#include "partita/config/names.hpp"
#include "partita/config/text.hpp"
#include "partita/core/error.hpp"

#include <zlib.h>

#include <algorithm>

namespace partita {

namespace {

constexpr std::uint64_t in_zip64 = 0xFFFFFFFF, count_in_zip64 = 0xFFFF; // "see the 64-bit field"
constexpr unsigned version = 20, zip64_version = 45;                    // needed to read the archive
constexpr unsigned first_of_january_1980 = 0x21; // fixed, so that archives are reproducible byte for byte

std::string little(std::uint64_t value, int bytes) {
  std::string out;
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i) & 0xFF);
  return out;
}

bool isLarge(std::uint64_t value) {
  return value >= in_zip64;
}

/// The extra field with the 64-bit forms of the values; empty without values.
std::string zip64Field(const std::vector<std::uint64_t>& values) {
  if (values.empty()) return {};
  std::string out = little(0x0001, 2) + little(8 * values.size(), 2);
  for (const std::uint64_t value : values) out += little(value, 8);
  return out;
}

/// The opposite of `little`; 0 if there are not as many bytes.
std::uint64_t numberAt(const std::string& text, std::size_t at, std::size_t bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes; i-- > 0 && at + bytes <= text.size();)
    value = value << 8 | static_cast<unsigned char>(text[at + i]);
  return value;
}

/// The fields that local header and directory entry share: from the version needed to the length of the extra
/// field.
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

bool isOwnNpz(const std::string& path, const std::string& first_array) {
  constexpr std::size_t crc_at = 14, bytes_at = 18, fixed = 30, most_extra = 20, extra_begin = 4;
  ZipMember member{first_array + ".npy"};
  const std::string start = firstBytes(path, fixed + member.name.size() + most_extra);
  member.crc = static_cast<std::uint32_t>(numberAt(start, crc_at, 4));
  member.bytes = numberAt(start, bytes_at, 4);
  if (member.bytes == in_zip64) member.bytes = numberAt(start, fixed + member.name.size() + extra_begin, 8);
  return start.rfind(zipLocalHeader(member), 0) == 0;
}

void ZipWriter::begin(const std::string& name, std::uint64_t bytes) {
  endMember();
  _members.push_back({name, bytes, _file.size(), 0});
  _file.write(zipLocalHeader(_members.back()));
  _missing = bytes;
}

void ZipWriter::write(const void* data, std::size_t bytes) {
  PARTITA_REQUIRE(bytes <= _missing, "a member of an archive is longer than announced");
  if (bytes == 0) return; // for a null pointer zlib returns the checksum of nothing
  ZipMember& member = _members.back();
  member.crc = static_cast<std::uint32_t>(crc32_z(member.crc, static_cast<const Bytef*>(data), bytes));
  _file.write(data, bytes);
  _missing -= bytes;
}

/// The checksum is known only now but belongs in the header.
void ZipWriter::endMember() {
  PARTITA_REQUIRE(_missing == 0, "a member of an archive is shorter than announced");
  if (!_members.empty()) _file.replace(_members.back().offset, zipLocalHeader(_members.back()));
}

void ZipWriter::commit() {
  endMember();
  const std::uint64_t begin = _file.size();
  for (const ZipMember& member : _members) _file.write(zipDirectoryEntry(member));
  _file.write(zipEnd(_members.size(), begin, _file.size() - begin));
  _file.commit();
}

namespace {

std::string bytesType(std::size_t length) {
  return "|S" + std::to_string(length);
}

std::int64_t countOf(const std::vector<std::int64_t>& extents) {
  std::int64_t count = 1;
  for (const std::int64_t extent : extents) count *= extent;
  return count;
}

std::string textOf(const LayerStep::Setting& setting) {
  return setting.name + "=" +
         (setting.integers.empty() ? realText(setting.real) : joined(setting.integers, ","));
}

std::string describeLayer(const Operation& layer) {
  std::string text = layer.word;
  if (!layer.tensors.empty() || !layer.tied.empty()) text += " " + layer.name;
  if (!layer.tied.empty()) text += " weight=" + layer.tied;
  for (const LayerStep::Setting& setting : layer.settings) text += " " + textOf(setting);
  return text;
}

std::string describe(const Operation& operation) {
  switch (operation.kind) {
  case Operation::Kind::layer:
    return describeLayer(operation);
  case Operation::Kind::activation:
    return nameOf(operation.activation) +
           (operation.activation == Activation::leaky_relu ? " " + realText(operation.slope) : "");
  case Operation::Kind::reshape:
    return "reshape " + joined(operation.shape, ",");
  case Operation::Kind::branch:
    return "branch";
  case Operation::Kind::swap:
    return "swap";
  case Operation::Kind::add:
    return "add";
  case Operation::Kind::exit:
    return "exit " + realText(operation.weight);
  case Operation::Kind::sum:
    return "sum";
  case Operation::Kind::reencode:
    return "reencode " + operation.name;
  }
  PARTITA_FAIL("no such operation");
}

} // namespace

std::string npyHeader(const std::string& type, const std::vector<std::int64_t>& extents) {
  std::string shape;
  for (const std::int64_t extent : extents) shape += std::to_string(extent) + ", ";
  if (extents.size() > 1) shape.resize(shape.size() - 2); // only a tuple of one ends with a comma
  if (extents.size() == 1) shape.pop_back();
  std::string text = "{'descr': '" + type + "', 'fortran_order': False, 'shape': (" + shape + "), }";
  constexpr std::size_t fixed = 10, alignment = 64; // magic, version and length; see the format
  const std::size_t unpadded = fixed + text.size() + 1;
  text += std::string((alignment - unpadded % alignment) % alignment, ' ') + '\n';
  const std::size_t length = text.size();
  return std::string("\x93NUMPY\x01\0", 8) + static_cast<char>(length & 0xFF) +
         static_cast<char>(length >> 8) + text;
}

void NpzWriter::begin(const std::string& name, const std::string& type,
                      const std::vector<std::int64_t>& extents, std::uint64_t bytes) {
  const std::string header = npyHeader(type, extents);
  _zip.begin(name + ".npy", header.size() + bytes);
  _zip.write(header.data(), header.size());
}

void NpzWriter::add(const std::string& name, const std::vector<std::int64_t>& extents,
                    const std::vector<float>& values) {
  PARTITA_REQUIRE(countOf(extents) == static_cast<std::int64_t>(values.size()), name + " has another shape");
  begin(name, "<f4", extents, values.size() * sizeof(float));
  write(values.data(), values.size() * sizeof(float));
}

void NpzWriter::add(const std::string& name, const std::vector<std::int64_t>& values) {
  begin(name, "<i8", {static_cast<std::int64_t>(values.size())}, values.size() * sizeof(std::int64_t));
  write(values.data(), values.size() * sizeof(std::int64_t));
}

void NpzWriter::add(const std::string& name, const std::string& text) {
  begin(name, bytesType(text.size()), {}, text.size());
  write(text.data(), text.size());
}

void NpzWriter::add(const std::string& name, const std::vector<std::string>& texts) {
  std::size_t longest = 0;
  for (const std::string& text : texts) longest = std::max(longest, text.size());
  std::string padded;
  for (std::string text : texts) {
    text.resize(longest, '\0');
    padded += text;
  }
  begin(name, bytesType(longest), {static_cast<std::int64_t>(texts.size())}, padded.size());
  write(padded.data(), padded.size());
}

void writeNpz(const std::string& path, const JoinedNetwork& network) {
  NpzWriter file(path);
  const std::int64_t values = network.shift.size();
  file.add(first_array_of_network, {values}, network.shift);
  file.add("input/scale", {values}, network.scale);
  std::vector<std::string> operations;
  for (const Operation& operation : network.operations) {
    operations.push_back(describe(operation));
    for (const NamedTensor& tensor : operation.tensors) file.add(tensor.name, tensor.extents, tensor.values);
  }
  file.add("operations", operations);
  if (!network.class_labels.empty()) file.add("class_labels", network.class_labels);
  file.add("deck", network.deck);
  file.add("parameters_hash", network.parameters_hash);
  file.commit();
}

} // namespace partita
