#include "partita/config/deck.hpp"
#include "partita/config/layer_types.hpp"
#include "partita/config/parameters.hpp"
#include "partita/config/write_deck.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "support/catch.hpp"
#include "support/source_directory.hpp"

namespace partita::test::config_round_trip {

namespace {

namespace fs = std::filesystem;

const fs::path source_dir = sourceDirectory();

bool sameBits(double a, double b) {
  return std::memcmp(&a, &b, sizeof a) == 0;
}

bool sameLayer(LayerSpec a, LayerSpec b);

/// Compares the fields to which two targets of one parameter refer.
struct SameField {
  const Target& other;
  bool operator()(double* a) const { return sameBits(*a, *std::get<double*>(other)); }
  bool operator()(const Choice& a) const { return a.get() == std::get<Choice>(other).get(); }
  bool operator()(const Cuts& a) const {
    const Cuts& b = std::get<Cuts>(other);
    return *a.rule == *b.rule && *a.list == *b.list;
  }
  bool operator()(const Axes& a) const { return *a.sizes == *std::get<Axes>(other).sizes; }
  bool operator()(std::vector<LayerSpec>* a) const {
    const auto* b = std::get<std::vector<LayerSpec>*>(other);
    return std::equal(a->begin(), a->end(), b->begin(), b->end(), sameLayer);
  }
  template <class T>
  bool operator()(T* a) const {
    return *a == *std::get<T*>(other);
  }
};

bool sameLayer(LayerSpec a, LayerSpec b) {
  if (a.type != b.type) return false;
  const std::vector<Parameter> of_a = describe(a).parameters, of_b = describe(b).parameters;
  for (std::size_t i = 0; i < of_a.size(); ++i)
    if (!std::visit(SameField{of_b[i].target}, of_a[i].target)) return false;
  return true;
}

void requireSame(RunConfig a, RunConfig b) {
  const ParameterTable table_a = describe(a), table_b = describe(b);
  for (std::size_t s = 0; s < table_a.sections.size(); ++s) {
    for (std::size_t p = 0; p < table_a.sections[s].parameters.size(); ++p) {
      INFO(table_a.sections[s].name << "/" << table_a.sections[s].parameters[p].key);
      REQUIRE(std::visit(SameField{table_b.sections[s].parameters[p].target},
                         table_a.sections[s].parameters[p].target));
    }
  }
}

/// Types of layers that images may have; `inside` others: those that have none inside themselves.
std::vector<std::string> drawnTypes(bool inside) {
  std::vector<std::string> names;
  for (const auto& row : layerTypes().rows()) {
    LayerSpec spec;
    spec.type = row.name;
    const bool group = describe(spec).find("layers") != nullptr;
    if (row.entry.role != LayerRole::takes_tokens && !(inside && group)) names.push_back(row.name);
  }
  return names;
}

/// Draws a value within the range of a parameter.
struct Drawer {
  std::mt19937_64& random;
  const Interval& range;
  bool inside = false; ///< of a layer

  std::uint64_t below(std::uint64_t bound) const { return random() % bound; }
  double unit() const { return std::ldexp(static_cast<double>(random() >> 11), -53); }

  void operator()(bool* field) const { *field = below(2) == 1; }
  void operator()(std::int64_t* field) const {
    const double high = std::min(range.high, 9e15);
    *field = static_cast<std::int64_t>(range.low + std::floor(unit() * (high - range.low + 1)));
  }
  void operator()(double* field) const {
    const double draw = unit() * std::pow(10.0, -static_cast<double>(below(300)));
    *field = range.low + draw * std::min(range.high - range.low, 1e12);
    if (!range.contains(*field)) *field = range.low + 0.5 * std::min(range.high - range.low, 1.0);
  }
  void operator()(std::string* field) const {
    static const char letters[] = "ab/.\"\\'#=\n\t\x01\x7f[]{} \xC3\xA9";
    field->clear();
    for (std::uint64_t n = below(12); n > 0; --n) *field += letters[below(sizeof letters - 3)];
    if (below(4) == 0) *field += "\xC3\xA9";
  }
  void operator()(const Choice& choice) const { choice.set(below(choice.names.size())); }
  void operator()(const Cuts& cuts) const {
    *cuts.rule = static_cast<CutRule>(below(3));
    cuts.list->clear();
    if (*cuts.rule == CutRule::list) *cuts.list = {1, 2};
  }
  void operator()(const Axes& axes) const {
    const std::int64_t low = static_cast<std::int64_t>(range.low);
    axes.sizes->same = axes.may_be_same && below(3) == 0;
    axes.sizes->values.assign(axes.sizes->same ? 1 : 1 + below(3), axes.sizes->same ? 0 : low);
    for (std::int64_t& value : axes.sizes->values)
      if (!axes.sizes->same) value += static_cast<std::int64_t>(below(9));
  }
  void operator()(IntegerList list) const {
    list->resize(below(4));
    for (std::int64_t& value : *list) value = static_cast<std::int64_t>(range.low) + below(9);
  }
  void operator()(std::vector<LayerSpec>* layers) const {
    static const std::vector<std::string> all = drawnTypes(false), alone = drawnTypes(true);
    const std::vector<std::string>& types = inside ? alone : all;
    layers->resize(inside ? 1 + below(2) : 4);
    for (LayerSpec& layer : *layers) {
      layer.type = types[below(types.size())];
      for (const Parameter& parameter : describe(layer).parameters) {
        std::visit(Drawer{random, parameter.range, true}, parameter.target);
        const auto* number = std::get_if<std::int64_t*>(&parameter.target);
        const bool few = parameter.required != Required::never || parameter.key == "repeat";
        if (number != nullptr && few) **number = 1 + **number % 100;
      }
    }
  }
};

RunConfig randomConfig(std::mt19937_64& random) {
  RunConfig config;
  for (const Section& section : describe(config).sections)
    for (const Parameter& parameter : section.parameters)
      std::visit(Drawer{random, parameter.range}, parameter.target);
  return config;
}

/// Corrects the few combinations that are refused.
void reconcile(RunConfig& c) {
  c.run.steps = 0;
  c.data.kind = DataKind::glyphs;
  c.data.test_fraction = 0.0; // glyphs have a test set
  c.data.classes = 0;
  c.data.samples += c.training.batch;
  c.training.label_smoothing = 0.0;
  c.optimiser.nesterov = false;
  // Its keys are drawn under other kinds: the bounds of its batches belong together.
  if (c.strategy.kind == StrategyKind::hogbatch) c.strategy.kind = StrategyKind::joint;
  c.run.decisions = false;
  c.strategy.stages = 3;
  c.strategy.replicas = 1;
  c.strategy.parts = 1;
  c.strategy.sil.mixture = Switch::off;
  c.strategy.sil.reencode = Switch::off;
  c.strategy.sil.input = StageInput::relay;
  c.strategy.sil.labels = LabelKind::learned;
  c.strategy.sil.label_init = LabelKind::sparse;
  c.strategy.sil.loss = StageLoss::prototype;
  c.strategy.sil.exits = Exits::sum;
  c.strategy.sil.match = Match::after;
  c.run.precision = Precision::single;
  c.strategy.wire = Wire::single;
  c.training.loss = LossKind::cross_entropy;
}

std::string contentOf(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

} // namespace

TEST_CASE("A short deck leaves the defaults", "[config]") {
  RunConfig expected;
  expected.network.layers = {LayerSpec{}};
  requireSame(expected, parseDeck("[network]\nlayers = [{type = \"dense\"}]\n", "deck.toml"));
}

TEST_CASE("A deck may start with a byte order mark and end its lines with CR LF", "[config]") {
  const std::string text = "\xEF\xBB\xBF[network]\r\nlayers = [{type = \"dense\"}]\r\n[run]\r\nseed = 4\r\n";
  CHECK(parseDeck(text, "deck.toml").run.seed == 4);
}

TEST_CASE("The effective deck reads back to the same configuration", "[config]") {
  std::mt19937_64 random(20240613);
  for (int i = 0; i < 300; ++i) {
    RunConfig config = randomConfig(random);
    reconcile(config);
    const std::string text = writeDeck(config);
    INFO(text);
    requireSame(config, parseDeck(text, "deck.toml"));
  }
}

TEST_CASE("Every deck of the collection is good, also as an effective deck", "[config]") {
  std::size_t count = 0;
  for (const auto& entry : fs::directory_iterator(source_dir / "input-decks")) {
    if (entry.path().extension() != ".toml") continue;
    INFO(entry.path());
    const RunConfig config = loadDeck(entry.path().string(), {});
    requireSame(config, parseDeck(writeDeck(config), "deck.toml"));
    ++count;
  }
  CHECK(count >= 10);
}

TEST_CASE("The reference page in the documentation is current", "[config]") {
  CHECK(contentOf(source_dir / "docs" / "deck-reference.md") == deckReference());
}

TEST_CASE("Every parameter says what it means, and its default is in range", "[config]") {
  RunConfig config;
  for (const Section& section : describe(config).sections) {
    for (const Parameter& parameter : section.parameters) {
      INFO(section.name << "/" << parameter.key);
      CHECK_FALSE(parameter.text.empty());
      CHECK(parameter.text.find('|') == std::string::npos); // it would end a cell of the reference page
      if (const auto* field = std::get_if<std::int64_t*>(&parameter.target))
        CHECK(parameter.range.contains(static_cast<double>(**field)));
      if (const auto* field = std::get_if<double*>(&parameter.target))
        CHECK(parameter.range.contains(**field));
    }
  }
}

TEST_CASE("Names of choices follow the enumerators", "[config]") {
  CHECK(nameOf(DataKind::hdf5) == "hdf5");
  CHECK(nameOf(Standardise::feature) == "feature");
  CHECK(nameOf(Activation::leaky_relu) == "leaky-relu");
  CHECK(nameOf(Activation::sigmoid) == "sigmoid");
  CHECK(nameOf(Initialisation::orthogonal) == "orthogonal");
  CHECK(nameOf(LossKind::mse) == "mse");
  CHECK(nameOf(OptimiserKind::adamw) == "adamw");
  CHECK(nameOf(ScheduleKind::cosine) == "cosine");
  CHECK(nameOf(StrategyKind::sil) == "sil");
  CHECK(nameOf(StageInput::relay) == "relay");
  CHECK(nameOf(LabelKind::etf) == "etf");
  CHECK(nameOf(LabelKind::block) == "block");
  CHECK(nameOf(StageLoss::prototype) == "prototype");
  CHECK(nameOf(CutInitialisation::he) == "he");
  CHECK(nameOf(CutRule::list) == "list");
  CHECK(nameOf(Match::after) == "after");
  CHECK(nameOf(Switch::off) == "off");
}

} // namespace partita::test::config_round_trip
