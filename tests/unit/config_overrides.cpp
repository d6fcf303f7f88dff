#include "partita/config/deck.hpp"
#include "partita/config/parameters.hpp"
#include "partita/config/user_error.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "support/catch.hpp"

namespace partita::test::config_overrides {

namespace {

const std::string deck =
    "[network]\nlayers = [{type = \"dense\", units = 8, repeat = 5}, {type = \"dense\"}]\n"
    "[run]\nepochs = 7\nsteps = 100\n";

RunConfig with(const std::vector<std::string>& overrides) {
  return parseDeck(deck, "deck.toml", overrides);
}

std::string errorOf(const std::string& text) {
  try {
    with({text});
  } catch (const UserError& error) {
    REQUIRE(error.messages().size() == 1);
    return error.what();
  }
  return {};
}

std::vector<std::string> keysOf(const std::vector<UnusedKey>& unused) {
  std::vector<std::string> keys;
  for (const UnusedKey& one : unused) keys.push_back(one.key.substr(one.key.find('/') + 1));
  return keys;
}

/// The keys among `overrides` that have no effect after another override.
std::vector<std::string> unusedWith(const std::string& setting, const std::vector<std::string>& overrides) {
  return keysOf(withoutEffect(overrides, with({setting})));
}

} // namespace

TEST_CASE("Overrides replace values of the deck, the last one wins", "[config]") {
  const RunConfig c = with({"run/seed=9", "run.steps=0", "run/epochs=2", "run/epochs=3", "run/timing=true"});
  CHECK(c.run.seed == 9);
  CHECK(c.run.steps == 0);
  CHECK(c.run.epochs == 3);
  CHECK(c.run.timing);
}

TEST_CASE("Overrides need no quotes that a shell would take off", "[config]") {
  CHECK(with({"data/path=/a/b c"}).data.path == "/a/b c");
  CHECK(with({"data/path=\"/a/b\""}).data.path == "/a/b");
  CHECK(with({"data/path=../x=y#z"}).data.path == "../x=y#z");
  CHECK(with({"data/path=\xC3\xA9lan"}).data.path == "\xC3\xA9lan");
  CHECK(with({"data/path=2024"}).data.path == "2024");
  CHECK(with({"data/path="}).data.path.empty());
  CHECK(with({"strategy/kind=sil", "strategy/input=frozen"}).strategy.sil.input == StageInput::frozen);
  CHECK(with({"optimiser.learning_rate=2e-3"}).optimiser.learning_rate == 2e-3);
  CHECK(with({"optimiser/learning_rate=1"}).optimiser.learning_rate == 1.0);
}

TEST_CASE("Cuts are a rule or a list", "[config]") {
  CHECK(with({"strategy/kind=sil", "strategy/cuts=memory"}).strategy.cut_rule == CutRule::memory);
  const StrategySection list =
      with({"strategy/kind=sil", "strategy/cuts=[2,4]", "strategy/stages=3"}).strategy;
  CHECK(list.cut_rule == CutRule::list);
  CHECK(list.cuts == std::vector<std::int64_t>{2, 4});
  const StrategySection rule =
      with({"strategy/kind=sil", "strategy/cuts=[2,4]", "strategy/cuts=flops"}).strategy;
  CHECK(rule.cut_rule == CutRule::flops);
  CHECK(rule.cuts.empty());
}

TEST_CASE("Layers can be replaced as a whole", "[config]") {
  const RunConfig c =
      with({"network/layers=[{type=\"dense\",activation=\"leaky-relu\",slope=0.2,bias=false}]"});
  REQUIRE(c.network.layers.size() == 1);
  CHECK(c.network.layers[0].activation == Activation::leaky_relu);
  CHECK(c.network.layers[0].slope == 0.2);
  CHECK_FALSE(c.network.layers[0].dense.bias);
}

TEST_CASE("A bad override names itself", "[config]") {
  CHECK(errorOf("steps=3") == "command line: 'steps=3': expected section/key=value");
  CHECK(errorOf("run/steps") == "command line: 'run/steps': expected section/key=value");
  CHECK(errorOf("") == "command line: '': expected section/key=value");
  CHECK(errorOf("rum/steps=3") == "command line: 'rum/steps=3': rum: unknown section; did you mean 'run'?");
  CHECK(errorOf("run/step=3") == "command line: 'run/step=3': run/step: unknown key; did you mean 'steps'?");
  CHECK(errorOf("run/seed=3\n[data]") ==
        "command line: 'run/seed=3 [data]': run/seed: expected an integer, found the "
        "text '3 [data]' (allowed >= 0)");
  CHECK(errorOf("strategy/cuts=[2,") == "command line: 'strategy/cuts=[2,': strategy/cuts: ']' is missing");
  CHECK(errorOf("network/layers=[{type=\"dense\"]") ==
        "command line: 'network/layers=[{type=\"dense\"]': network/layers: '}' is missing");
  CHECK(errorOf("optimiser/learning_rate=1e400") == "command line: 'optimiser/learning_rate=1e400': "
                                                    "optimiser/learning_rate: 1e400 is beyond the range of a "
                                                    "double (allowed [1e-12, 1e+30])");
  for (const std::string number : {"99999999999999999999", "-99999999999999999999"})
    CHECK(errorOf("run/seed=" + number) ==
          "command line: 'run/seed=" + number + "': run/seed: " + number +
              " is beyond the range of an integer of 64 bits (allowed >= 0)");
  CHECK(errorOf("run/seed=9223372036854775807").empty());
  CHECK(errorOf("data/path=\xff") == "command line: 'data/path=\xff': data/path: is not valid UTF-8");
  CHECK(errorOf("data/path=\xed\xa0\x80") == // a surrogate
        "command line: 'data/path=\xed\xa0\x80': data/path: is not valid UTF-8");
  CHECK(errorOf("run/epochs=3") == "command line: 'run/epochs=3': run/epochs: has no effect when run/steps "
                                   "is 100; set run/steps=0 to count epochs");
}

TEST_CASE("Overrides that a kind of strategy never reads are found", "[config]") {
  const std::vector<std::string> all{
      "strategy.warmup_steps=500", "strategy/noise=1",           "strategy/schedule=gpipe",
      "strategy/shared_workers=1", "strategy/queue=2",           "strategy/wire=bf16",
      "strategy/input=free",       "optimiser/warmup_steps=500", "strategy/stages=3"};
  using Keys = std::vector<std::string>;
  CHECK(unusedWith("strategy/kind=sil", all) == Keys{"warmup_steps", "shared_workers"});
  for (const std::string kind : {"joint", "pipeline"})
    CHECK(unusedWith("strategy/kind=" + kind, all) ==
          Keys{"warmup_steps", "noise", "shared_workers", "input"});
  CHECK(unusedWith("strategy/kind=local-sgd", all) == Keys{"noise", "shared_workers", "input"});
  RunConfig workers;
  workers.strategy.kind = StrategyKind::hogbatch;
  CHECK(keysOf(withoutEffect(all, workers)) == Keys{"warmup_steps", "noise", "schedule", "input"});
  CHECK(withoutEffect({"strategy/every=2"}, workers).front().key == "strategy/every");
  CHECK(withoutEffect({"strategy/every=2"}, workers).front().setting == "strategy/kind 'hogbatch'");
}

TEST_CASE("Overrides that the chosen optimiser, schedule or data never read are found", "[config]") {
  using Keys = std::vector<std::string>;
  const Keys all{"optimiser/momentum=0.5",     "optimiser.beta1=0.5",     "optimiser/epsilon=1e-6",
                 "optimiser/step_factor=0.5",  "optimiser/step_epochs=1", "optimiser/final_fraction=0.1",
                 "optimiser/weight_decay=0.1", "optimiser/clip_norm=1",   "optimiser/warmup_steps=3"};
  CHECK(unusedWith("optimiser/kind=adamw", all) == Keys{"momentum", "step_factor", "step_epochs"});
  CHECK(unusedWith("optimiser/kind=sgd", all) == Keys{"beta1", "epsilon", "step_factor", "step_epochs"});
  CHECK(unusedWith("optimiser/schedule=step", all) == Keys{"momentum", "final_fraction"});
  CHECK(unusedWith("optimiser/schedule=constant", all) ==
        Keys{"momentum", "step_factor", "step_epochs", "final_fraction"});
  RunConfig deck;
  CHECK(withoutEffect(all, deck).front().setting == "optimiser/kind 'adam'");
  CHECK(withoutEffect({"optimiser/step_epochs=3"}, deck).front().setting == "optimiser/schedule 'cosine'");
  const Keys data{"data/path=a",     "data/train_images=a", "data/train_file=a", "data/features=a",
                  "data/sequence=8", "data/image_size=8",   "data/channels=3",   "data/noise=1",
                  "data/samples=5",  "data/classes=3",      "data/crop=1",       "data/standardise=none"};
  deck.data.kind = DataKind::hdf5;
  CHECK(keysOf(withoutEffect(data, deck)) ==
        Keys{"train_images", "sequence", "image_size", "channels", "noise"});
  deck.data.kind = DataKind::grammar;
  CHECK(keysOf(withoutEffect(data, deck)) == Keys{"path", "train_images", "train_file", "features",
                                                  "image_size", "channels", "noise", "standardise"});
  CHECK(withoutEffect({"data/test_file=", "nonsense", "data/nonsense=1"}, deck).empty());
}

TEST_CASE("Conditions of parameters name choices of another key", "[config]") {
  RunConfig config;
  int conditions = 0;
  for (const Section& section : describe(config).sections) {
    for (const Parameter& parameter : section.parameters) {
      const Condition& condition = parameter.only_with;
      if (condition.choices.empty()) continue;
      INFO(section.name << "/" << parameter.key);
      REQUIRE(section.find(condition.key) != nullptr);
      const std::vector<std::string> names = std::get<Choice>(section.find(condition.key)->target).names;
      for (const std::string& choice : condition.choices)
        CHECK(std::count(names.begin(), names.end(), choice) == 1);
      ++conditions;
    }
  }
  CHECK(conditions > 20);
}

TEST_CASE("A combination that an override broke is reported at the override", "[config]") {
  const std::string text = deck + "[strategy]\nkind = \"sil\"\ncuts = [3]\n";
  REQUIRE_NOTHROW(parseDeck(text, "deck.toml"));
  try {
    parseDeck(text, "deck.toml", {"strategy/stages=4"});
    FAIL("accepted");
  } catch (const UserError& error) {
    CHECK(error.messages() ==
          std::vector<std::string>{
              "command line: 'strategy/stages=4': strategy/cuts: 4 stages need 3 cuts, not 1"});
  }
}

} // namespace partita::test::config_overrides
