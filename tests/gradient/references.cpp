#include "partita/config/deck.hpp"
#include "partita/plan/network_plan.hpp"

#include <fstream>
#include <map>
#include <sstream>

#include "layer_probe.hpp"
#include "support/source_directory.hpp"

namespace partita::test::references {

namespace {

/// A layer with the results of another program, from tests/reference/make_images.py.
struct Reference {
  std::string name, layer;
  std::map<std::string, Values> values;

  LayerPlan plan() const {
    Shape shape;
    for (const double extent : values.at("shape")) shape.push_back(static_cast<std::int64_t>(extent));
    const RunConfig config =
        parseDeck("[network]\nlayers = [" + layer + ", { type = \"dense\" }]\n", "reference");
    return planNetwork(config.network, shape, 2).front();
  }
};

std::vector<Reference> readReferences(const std::string& path) {
  std::ifstream file(path);
  REQUIRE(file);
  std::vector<Reference> references;
  for (std::string line; std::getline(file, line);) {
    const std::size_t space = line.find(' ');
    const std::string key = line.substr(0, space), rest = space < line.size() ? line.substr(space + 1) : "";
    if (key == "case") references.push_back({rest, "", {}});
    if (key == "layer") references.back().layer = rest;
    if (key == "case" || key == "layer") continue;
    std::istringstream numbers(rest);
    for (double value = 0.0; numbers >> value;) references.back().values[key].push_back(value);
  }
  return references;
}

} // namespace

TEST_CASE("Layers of images do what PyTorch's do", "[gradient]") {
  const auto references = readReferences(sourceDirectory() + "/tests/reference/images.txt");
  CHECK(references.size() >= 18);
  for (const Reference& reference : references) {
    INFO(reference.name);
    const auto expected = [&](const char* key) {
      const auto found = reference.values.find(key);
      return found == reference.values.end() ? Values() : found->second;
    };
    const LayerPlan plan = reference.plan();
    REQUIRE(plan.parameters() == static_cast<std::int64_t>(expected("parameters").size()));
    const auto layer = makeLayer(plan);
    const LayerProbe probe(*layer, plan, expected("grad_out"));
    probe.value(expected("parameters"), expected("in"));
    CHECK(relativeError(probe.outputs(), expected("out")) < 1e-11);
    CHECK(relativeError(probe.backward(), expected("grad_in")) < 1e-11);
    if (plan.parameters() > 0) CHECK(relativeError(probe.gradients(), expected("gradients")) < 1e-11);
    if (plan.statistics() > 0)
      CHECK(relativeError(probe.statistics(plan.statistics()), expected("statistics")) < 1e-11);
  }
}

} // namespace partita::test::references
