#include "partita/config/layer_types.hpp"
#include "partita/config/user_error.hpp"
#include "partita/io/onnx_layers.hpp"
#include "partita/nn/layer.hpp"
#include "partita/plan/layer_rules.hpp"

#include <algorithm>
#include <set>

#include "support/catch.hpp"

namespace partita::test::io_layer_tables {

namespace {

template <class Entry>
std::set<std::string> typesIn(const LayerTable<Entry>& table) {
  const std::vector<std::string> names = table.names();
  const std::set<std::string> types(names.begin(), names.end());
  CHECK(types.size() == names.size()); // none twice
  return types;
}

} // namespace

TEST_CASE("Every room has the same types of layers", "[layers]") {
  const std::set<std::string> types = typesIn(layerTypes());
  CHECK(types.size() > 15);
  CHECK(typesIn(layerRules()) == types);
  CHECK(typesIn(layerClasses()) == types);
  CHECK(typesIn(onnxLayers()) == types);
}

TEST_CASE("Rooms agree on operations, outputs and running statistics of a type", "[layers]") {
  // A shape that the type takes, and what it needs to know.
  const std::vector<Shape> shapes{{4}, {4, 6}, {4, 6, 6}, {4, 6, 6, 6}};
  for (const auto& row : layerRules().rows()) {
    INFO(row.name);
    LayerPlan plan;
    plan.spec.type = row.name;
    plan.classes = 4;
    for (const Parameter& key : describe(plan.spec).parameters)
      if (auto* const* number = std::get_if<std::int64_t*>(&key.target))
        if (key.required != Required::never) **number = 2;
    if (describe(plan.spec).find("layers") != nullptr) {
      CHECK(onnxLayers().at(row.name) == nullptr); // a group is what is inside
      continue;
    }
    const auto fits = std::find_if(shapes.begin(), shapes.end(), [&](const Shape& shape) {
      plan.in = shape;
      try {
        plan.out = row.entry->output(plan);
        return true;
      } catch (const UserError&) {
        return false;
      }
    });
    REQUIRE(fits != shapes.end());
    CHECK((onnxLayers().at(row.name) != nullptr) == !row.entry->step(plan).operation.empty());
    CHECK(makeLayer(plan)->outputs() == partita::valuesOf(plan.out));
    CHECK((layerTypes().at(row.name).role == LayerRole::keeps_statistics) == (plan.statistics() > 0));
  }
}

TEST_CASE("A type that no room knows is a defect", "[layers]") {
  CHECK(layerTypes().find("lstm") == nullptr);
  CHECK_THROWS_AS(layerRules().at("lstm"), std::logic_error);
}

} // namespace partita::test::io_layer_tables
