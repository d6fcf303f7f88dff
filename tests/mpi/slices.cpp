#include "partita/core/sha256.hpp"
#include "partita/io/read_run_file.hpp"
#include "partita/io/tensor_parts.hpp"
#include "partita/io/write_run_file.hpp"
#include "partita/nn/layer.hpp"
#include "partita/plan/network_plan.hpp"

#include <filesystem>
#include <limits>

#include "shared_folder.hpp"
#include "small_run.hpp"
#include "support/catch.hpp"
#include "support/divisions.hpp"

namespace partita::test::slices {

/// However a network's tensors are divided among ranks, the file and the hash are the same.

namespace {

LayerSpec layer(const std::string& type) {
  LayerSpec spec;
  spec.type = type;
  return spec;
}

/// Image and token layers. The largest tensor has two chunks, which slices share.
std::vector<LayerPlan> someLayers() {
  LayerSpec convolution = layer("conv2d"), dense, embedding = layer("embedding");
  convolution.convolution.channels = 7;
  convolution.convolution.kernel = {{3}};
  dense.dense.units = 500;
  embedding.embedding.width = 6;
  embedding.embedding.positions = true;
  NetworkSection images, tokens;
  images.layers = {convolution, layer("batch-norm"), dense, LayerSpec()};
  tokens.layers = {embedding, layer("layer-norm"), LayerSpec()};
  std::vector<LayerPlan> layers = planNetwork(images, {3, 22, 20}, 5);
  for (LayerPlan& plan : planNetwork(tokens, {8}, 11)) {
    plan.place = "layer1" + plan.place.substr(5); // after the others
    layers.push_back(plan);
  }
  return layers;
}

/// Every tensor in slices assigned to ranks in turn, each computed from its global indices alone.
struct Divided {
  explicit Divided(const Division& division) {
    content.facts = {"# a deck\n", 10, {4}, {0.0F}, {1.0F}, {}, {{"version", "1"}}};
    int number = 0;
    for (const LayerPlan& plan : someLayers()) {
      const auto made = makeLayer(plan);
      for (const ParameterShape& shape : plan.parameterShapes()) {
        content.tensors.push_back({parameters_kind, plan.name(), shape.name, shape.extents, shape.axes});
        content.parts.emplace_back();
        for (const TensorSlice& slice : slicesOf(division, shape.extents)) {
          if (number++ % everyone().size() != everyone().rank()) continue;
          values.emplace_back(slice.size());
          made->initialise(3, shape.name, slice, values.back().data());
          content.parts.back().push_back({slice, values.back().data()});
        }
      }
    }
  }

  /// SHA-256 over all values in order, on rank 0. Collective.
  std::string hash(std::int64_t rows_at_once) const {
    Sha256 sum;
    for (std::size_t t = 0; t < content.tensors.size(); ++t) {
      const std::vector<std::int64_t>& extents = content.tensors[t].extents;
      const std::int64_t row_size = wholeOf(extents).size() / extents[0];
      std::int64_t next = 0;
      gatherTensor(everyone(), extents, content.parts[t], rows_at_once,
                   [&](std::int64_t first, std::int64_t rows, const Real* block) {
                     REQUIRE(first == next);
                     next += rows;
                     sum.update(block, static_cast<std::size_t>(rows * row_size) * sizeof(Real));
                   });
      if (everyone().rank() == 0) CHECK(next == extents[0]);
    }
    return everyone().rank() == 0 ? sum.hex() : "";
  }

  RunFileContent content;
  std::vector<std::vector<Real>> values;
};

std::vector<Real> wholeTensor(const LayerPlan& plan, const ParameterShape& shape) {
  std::vector<Real> values(shape.size());
  makeLayer(plan)->initialise(3, shape.name, wholeOf(shape.extents), values.data());
  return values;
}

std::vector<Real> cutOut(const std::vector<Real>& whole, const TensorSlice& slice) {
  std::vector<Real> part;
  for (const SliceRun& run : runsOf(slice))
    part.insert(part.end(), whole.begin() + run.in_whole, whole.begin() + run.in_whole + run.count);
  return part;
}

/// Every rank reads the whole file and, if asked to, slices of it.
void checkFile(const std::string& path, bool slices) {
  const RunFile file(path);
  file.verify();
  std::size_t tensors = 0;
  for (const LayerPlan& plan : someLayers()) {
    for (const ParameterShape& shape : plan.parameterShapes()) {
      INFO(plan.name() << ", " << shape.name);
      const TensorRecord* tensor = file.find(parameters_kind, plan.name(), shape.name);
      REQUIRE(tensor != nullptr);
      CHECK(tensor->extents == shape.extents);
      ++tensors;
      const std::vector<Real> expected = wholeTensor(plan, shape);
      std::vector<Real> found(expected.size());
      file.read(*tensor, found.data());
      CHECK(found == expected);
      for (const Division& division : slices ? someDivisions() : std::vector<Division>()) {
        for (const TensorSlice& slice : slicesOf(division, shape.extents)) {
          std::vector<Real> part(slice.size());
          file.read(*tensor, slice, part.data());
          CHECK(part == cutOut(expected, slice));
        }
      }
    }
  }
  CHECK(file.tensors().size() == tensors);
}

/// The checksum attribute of each tensor, which readers in other languages compare.
std::vector<std::int64_t> checksumsIn(const std::string& path, const RunFileContent& content) {
  const Hdf5File file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
  std::vector<std::int64_t> checksums;
  for (const TensorRecord& tensor : content.tensors) {
    const Hdf5Dataset dataset(H5Dopen2(file.get(), tensor.path().c_str(), H5P_DEFAULT));
    CHECK(readText(dataset.get(), "axes", path) == tensor.axes);
    checksums.push_back(readInteger(dataset.get(), "crc32", path));
  }
  return checksums;
}

} // namespace

TEST_CASE("A file is the same however its tensors are divided", "[io]") {
  const SharedFolder folder;
  const std::string path = folder.file("file.h5");
  std::vector<std::int64_t> expected;
  for (const Division& division : someDivisions()) {
    for (const int compression : {0, 1}) {
      INFO(division.text() << ", compression " << compression);
      const Divided network(division);
      writeRunFile(everyone(), path, network.content, compression);
      checkFile(path, division.text() == someDivisions().front().text()); // all files have the same tensors
      const std::vector<std::int64_t> found = checksumsIn(path, network.content);
      if (expected.empty()) expected = found;
      CHECK(found == expected);
      everyone().barrier(); // the file is written again
    }
  }
}

TEST_CASE("A hash is the same however tensors are divided", "[io]") {
  Sha256 whole;
  for (const LayerPlan& plan : someLayers()) {
    for (const ParameterShape& shape : plan.parameterShapes()) {
      const std::vector<Real> values = wholeTensor(plan, shape);
      whole.update(values.data(), values.size() * sizeof(Real));
    }
  }
  const std::string expected = everyone().rank() == 0 ? whole.hex() : "";
  for (const Division& division : someDivisions()) {
    const Divided network(division);
    for (const std::int64_t rows_at_once : {3, 1000}) {
      INFO(division.text());
      CHECK(network.hash(rows_at_once) == expected);
    }
  }
}

TEST_CASE("A value that is missing, or there twice, is noticed", "[io]") {
  const SharedFolder folder;
  Divided network({2, 2, true});
  std::vector<TensorPart>& parts = network.content.parts.front();
  const bool mine = !parts.empty() && everyone().rank() == 0;
  const std::vector<TensorPart> all = parts;
  if (mine) parts.pop_back();
  CHECK_THROWS_AS(writeRunFile(everyone(), folder.file("file.h5"), network.content, 0), InternalError);
  parts = all;
  if (mine) parts.push_back(all.front());
  CHECK_THROWS_AS(writeRunFile(everyone(), folder.file("file.h5"), network.content, 0), InternalError);
}

TEST_CASE("What one rank cannot write of a divided tensor, no rank takes for written", "[io]") {
  const SharedFolder folder;
  for (const int compression : {0, 1}) {
    Divided network({2, 2, true});
    if (everyone().rank() == everyone().size() - 1)
      network.values.front().front() = std::numeric_limits<Real>::quiet_NaN();
    CHECK_THROWS_AS(writeRunFile(everyone(), folder.file("file.h5"), network.content, compression),
                    AgreedError);
    everyone().barrier(); // rank 0 has removed it
    CHECK_FALSE(std::filesystem::exists(folder.file("file.h5")));
  }
}

} // namespace partita::test::slices
