#include "partita/config/deck.hpp"
#include "partita/config/user_error.hpp"
#include "partita/plan/network_plan.hpp"
#include "partita/plan/partition.hpp"
#include "partita/plan/parts/part_of_stage.hpp"
#include "partita/plan/parts/part_traffic.hpp"

#include "support/catch.hpp"

namespace partita::test::plan_sequence_parts {

/// What parts of a transformer have and send, against counts by hand.

namespace {

constexpr std::int64_t tokens = 10, width = 12, positions = 7;

const std::string gpt = "{type='embedding',width=12,positions=true},{type='residual',layers=["
                        "{type='layer-norm'},{type='attention',heads=4}]},{type='residual',layers=["
                        "{type='layer-norm'},{type='dense',units=48,activation='gelu'},"
                        "{type='dense',units=12}]},{type='layer-norm'},";

/// The parts of a network of one stage.
class Divided {
 public:
  Divided(const std::string& layers, int parts, const std::vector<std::string>& more = {})
      : _config(
            parseDeck("[data]\nkind = 'grammar'\nclasses = 10\n", "deck", overrides(layers, parts, more))),
        _stage(planPartition(_config, planNetwork(_config.network, Shape{positions}, tokens), tokens)
                   .stages.front()) {}

  StagePlan part(int number) const { return partOfStage(_stage, _config.strategy, number); }
  const StagePlan& whole() const { return _stage; }

 private:
  static std::vector<std::string> overrides(const std::string& layers, int parts,
                                            const std::vector<std::string>& more) {
    std::vector<std::string> all{"network/layers=[" + layers + "]", "strategy/kind=joint",
                                 "strategy/parts=" + std::to_string(parts), "strategy/split=grid"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  RunConfig _config;
  StagePlan _stage;
};

const LayerPlan& leaf(const StagePlan& stage, const std::string& type) {
  for (const LayerPlan* layer : leavesOf(stage.layers))
    if (layer->spec.type == type) return *layer;
  throw std::logic_error("no such layer");
}

std::string refusal(const std::string& layers, int parts) {
  try {
    Divided(layers, parts);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

} // namespace

TEST_CASE("Parts have heads, tokens and positions", "[plan][parts]") {
  const Divided divided(gpt + "{type='dense'}", 3);
  // 4 heads of 3 values: 2, 1 and 1 of them. 10 tokens: 4, 3 and 3. 7 positions: 3, 2 and 2.
  const StagePlan first = divided.part(0), last = divided.part(2);
  const LayerPlan &heads = leaf(first, "attention"), &other = leaf(last, "attention");
  CHECK(heads.parameters() == 3 * 6 * width + 3 * 6 + width * 6 + width);
  CHECK(other.parameters() == 3 * 3 * width + 3 * 3 + width * 3); // the first part adds the bias
  CHECK(heads.forwardFlops() == 2 * other.forwardFlops());
  CHECK(heads.forwardFlops() == Approx(heads.whole().forwardFlops() / 2));
  const std::vector<TensorSlice> rows = other.slicesOf("qkv_weight", {3 * width, width});
  REQUIRE(rows.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(rows[i].offset == std::vector<std::int64_t>{static_cast<std::int64_t>(i) * width + 9, 0});
    CHECK(rows[i].extents == std::vector<std::int64_t>{3, width});
  }
  CHECK(leaf(first, "embedding").parameters() == (4 + 3) * width);
  CHECK(leaf(last, "embedding").parameters() == (3 + 2) * width);
  CHECK(leaf(last, "layer-norm").in == Shape{2, width});
  CHECK(last.layers.back().out == Shape{positions, 3});
  CHECK(last.class_parts.ranges.size() == 3);
  CHECK(last.class_parts.own == 2);
}

TEST_CASE("Each value of a transformer has one owner", "[plan][parts]") {
  for (const char* logits : {"{type='dense'}", "{type='dense',tied=true}"}) {
    for (const int parts : {2, 3, 4}) {
      const Divided divided(gpt + logits, parts);
      for (const StageTensor& tensor : parameterTensors(divided.whole().layers)) {
        std::vector<int> owners(static_cast<std::size_t>(tensor.size), 0);
        for (int part = 0; part < parts; ++part) {
          for (const StageTensor& own : parameterTensors(divided.part(part).layers)) {
            if (own.layer != tensor.layer || own.name != tensor.name || !own.owned) continue;
            for (const TensorSlice& slice : own.slices)
              for (const SliceRun& run : runsOf(slice))
                for (std::int64_t i = 0; i < run.count; ++i)
                  ++owners[static_cast<std::size_t>(run.in_whole + i)];
          }
        }
        INFO(tensor.layer << " " << tensor.name << ", " << parts << " parts");
        CHECK(owners == std::vector<int>(owners.size(), 1));
      }
    }
  }
}

TEST_CASE("The traffic of a transformer follows the equations", "[plan][parts]") {
  constexpr std::int64_t samples = 5, bytes = 4, all = samples * positions * width, norms = 3;
  const auto sent = [](const Divided& divided, int parts) {
    PartTraffic sum;
    for (int part = 0; part < parts; ++part)
      sum += partTraffic(divided.part(part), part, samples, bytes, false);
    return sum;
  };
  for (const int parts : {2, 3, 4}) {
    const std::int64_t others = parts - 1;
    // Forward: sums of the embedding, before and after attention, before and after the pair of dense layers,
    // before the logits; backward the same. Four numbers per label go to each other part.
    const PartTraffic traffic = sent(Divided(gpt + "{type='dense'}", parts), parts);
    CHECK(traffic.bytes ==
          bytes * others * (2 * 6 * all + parts * 4 * samples * positions + norms * 2 * 2 * width));
    CHECK(traffic.messages == parts * others * (2 * 6 + 1 + norms * 2));
    // The squared error needs all logits on every part.
    const PartTraffic gathered = sent(Divided(gpt + "{type='dense'}", parts, {"training/loss=mse"}), parts);
    CHECK(gathered.bytes ==
          bytes * others * (2 * 6 * all + samples * positions * tokens + norms * 2 * 2 * width));
  }
}

TEST_CASE("A transformer that does not fit is refused with the limit", "[plan][parts]") {
  const std::string place = " of network/layers";
  CHECK(refusal(gpt + "{type='dense'}", 5) ==
        "strategy/parts: 5 parts cannot share the 4 heads" + place + "[1]/layers[1] (attention)");
  CHECK(refusal("{type='embedding',width=12},{type='dense'}", 11) ==
        "strategy/parts: 11 parts cannot share the 10 tokens" + place + "[0] (embedding)");
  CHECK(refusal(gpt + "{type='dense'}", 4).empty());
}

} // namespace partita::test::plan_sequence_parts
