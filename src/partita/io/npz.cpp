#include "partita/io/npz.hpp"

#include "partita/config/names.hpp"
#include "partita/config/number_text.hpp"
#include "partita/core/error.hpp"

#include <algorithm>
#include <array>

namespace partita {

namespace {

std::string bytesType(std::size_t length) {
  return "|S" + std::to_string(length);
}

std::int64_t countOf(const std::vector<std::int64_t>& extents) {
  std::int64_t count = 1;
  for (const std::int64_t extent : extents) count *= extent;
  return count;
}

/// In the order of the enumerators.
constexpr std::array<const char*, 16> kind_names{
    "dense",        "activation",          "reencode",   "convolution", "max-pool",
    "average-pool", "global-average-pool", "batch-norm", "embedding",   "layer-norm",
    "rms-norm",     "attention",           "reshape",    "branch",      "swap",
    "add"};

std::string listText(const std::vector<std::int64_t>& values) {
  std::string text;
  for (const std::int64_t value : values) text += (text.empty() ? "" : ",") + std::to_string(value);
  return text;
}

bool normalises(Operation::Kind kind) {
  using Kind = Operation::Kind;
  return kind == Kind::batch_norm || kind == Kind::layer_norm || kind == Kind::rms_norm;
}

std::string describe(const Operation& operation) {
  using Kind = Operation::Kind;
  if (operation.kind == Kind::activation) {
    const std::string& name = nameOf(operation.activation);
    return operation.activation == Activation::leaky_relu ? name + " " + realText(operation.slope) : name;
  }
  std::string text = kind_names.at(static_cast<std::size_t>(operation.kind));
  if (operation.kind == Kind::reshape) return text + " " + listText(operation.shape);
  if (!operation.tensors.empty() || !operation.tied.empty()) text += " " + operation.name;
  if (!operation.tied.empty()) text += " weight=" + operation.tied;
  if (normalises(operation.kind)) text += " epsilon=" + realText(operation.epsilon);
  for (const Operation::Setting& setting : operation.settings)
    text += " " + setting.name + "=" + listText(setting.values);
  return text;
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

void NpzWriter::add(const std::string& name, const std::vector<std::int32_t>& values) {
  begin(name, "<i4", {static_cast<std::int64_t>(values.size())}, values.size() * sizeof(std::int32_t));
  write(values.data(), values.size() * sizeof(std::int32_t));
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
  const auto values = static_cast<std::int64_t>(network.shift.size());
  file.add("input/shift", {values}, network.shift);
  file.add("input/scale", {values}, network.scale);
  std::vector<std::string> operations;
  for (const Operation& operation : network.operations) {
    operations.push_back(describe(operation));
    for (const NamedTensor& tensor : operation.tensors) file.add(tensor.name, tensor.extents, tensor.values);
  }
  file.add("operations", operations);
  file.add("deck", network.deck);
  file.add("parameters_hash", network.parameters_hash);
  file.commit();
}

} // namespace partita
