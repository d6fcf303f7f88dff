#include "partita/config/deck.hpp"
#include "partita/config/user_error.hpp"

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
  CHECK(errorOf("data/path=\xff") == "command line: 'data/path=\xff': data/path: is not valid UTF-8");
  CHECK(errorOf("data/path=\xed\xa0\x80") == // a surrogate
        "command line: 'data/path=\xed\xa0\x80': data/path: is not valid UTF-8");
  CHECK(errorOf("run/epochs=3") == "command line: 'run/epochs=3': run/epochs: has no effect when run/steps "
                                   "is 100; set run/steps=0 to count epochs");
}

TEST_CASE("Overrides that a kind of strategy never reads are found", "[config]") {
  const std::vector<std::string> all{"strategy/kind=sil",          "strategy.warmup_steps=500",
                                     "strategy/noise=1",           "strategy/schedule=gpipe",
                                     "strategy/shared_workers=1",  "strategy/queue=2",
                                     "strategy/wire=bf16",         "strategy/input=free",
                                     "optimiser/warmup_steps=500", "strategy/stages=3"};
  using Keys = std::vector<std::string>;
  CHECK(withoutEffect(all, StrategyKind::sil) == Keys{"warmup_steps", "shared_workers"});
  for (const StrategyKind kind : {StrategyKind::joint, StrategyKind::pipeline})
    CHECK(withoutEffect(all, kind) == Keys{"warmup_steps", "noise", "shared_workers", "input"});
  CHECK(withoutEffect(all, StrategyKind::local_sgd) == Keys{"noise", "shared_workers", "input"});
  CHECK(withoutEffect(all, StrategyKind::hogbatch) == Keys{"warmup_steps", "noise", "schedule", "input"});
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
