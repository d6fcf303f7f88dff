#include "partita/io/stage_tensors.hpp"
#include "partita/plan/parts/part_of_stage.hpp"
#include "partita/plan/parts/part_traffic.hpp"
#include "partita/plan/run_length.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "pmpi.hpp"
#include "small_run.hpp"
#include "support/catch.hpp"
#include "support/default_space.hpp"

namespace partita::test::parts {

/// Ranks that share the layers of a stage train the same network as one rank.

namespace {

constexpr DefaultSpace space;

struct Net {
  const char* name;
  Overrides deck;
  bool has_places; ///< can `spatial` divide anything?
};

/// Activations are smooth, so rounding errors cannot switch a unit on or off.
const std::vector<Net>& nets() {
  static const std::vector<Net> all{
      {"VGG",
       {"network/layers=[{type='conv2d',channels=7,kernel=3,padding=1,activation='gelu'},"
        "{type='conv2d',channels=9,kernel=3,padding='same',stride=2,activation='tanh'},{type='dropout'},"
        "{type='max-pool',kernel=2},{type='flatten'},{type='dense',units=21,activation='silu'},"
        "{type='dropout',rate=0.3},{type='dense'}]"},
       true},
      {"ResNet",
       {"network/layers=[{type='conv2d',channels=6,kernel=3,padding=1,bias=false},"
        "{type='batch-norm',activation='gelu'},{type='residual',activation='gelu',recompute=true,layers=["
        "{type='conv2d',channels=8,kernel=3,stride=2,padding=1,bias=false},"
        "{type='batch-norm',activation='gelu'},{type='conv2d',channels=8,kernel=3,padding=1,bias=false},"
        "{type='batch-norm'}],shortcut=[{type='conv2d',channels=8,kernel=1,stride=2,bias=false},"
        "{type='batch-norm'}]},{type='residual',activation='gelu',layers=["
        "{type='conv2d',channels=8,kernel=3,padding=1},{type='group-norm',groups=2},{type='activation',"
        "activation='gelu'},"
        "{type='conv2d',channels=8,kernel=3,padding=1}]},{type='global-average-pool'},{type='dense'}]"},
       true},
      {"LeNet",
       {"network/layers=[{type='conv2d',channels=4,kernel=4,padding=1,activation='tanh'},"
        "{type='average-pool',kernel=3,stride=2,padding=1},{type='conv2d',channels=5,kernel=3,dilation=2,"
        "padding=2,activation='tanh'},{type='max-pool',kernel=3,stride=2,padding=1},{type='flatten'},"
        "{type='dense',units=12,activation='tanh'},{type='dense',units=11,activation='gelu'},"
        "{type='dense'}]"},
       true},
      {"CosmoFlow",
       {"data/kind=noise", "data/depth=7", "data/channels=2", "data/image_size=8",
        "network/layers=[{type='conv3d',channels=5,kernel=[3,3,2],padding=[1,1,0],activation='tanh'},"
        "{type='average-pool',kernel=[2,1,1],stride=[1,1,1]},{type='conv3d',channels=4,kernel=2,"
        "activation='gelu'},{type='flatten'},{type='dense',units=9,activation='tanh'},{type='dense'}]"},
       true},
      {"GPT",
       {"data/kind=grammar", "data/classes=0", "data/sequence=8",
        "network/layers=[{type='embedding',width=8,positions=true},{type='residual',layers=["
        "{type='layer-norm'},{type='attention',heads=4},{type='dropout'}]},{type='residual',layers=["
        "{type='layer-norm'},{type='dense',units=14,activation='gelu'},{type='dropout'},"
        "{type='dense',units=8}]},{type='layer-norm'},{type='dense'}]"},
       false}};
  return all;
}

/// Sequence networks with features that the one above lacks, to be divided by heads, units and tokens.
const std::vector<Net>& sequences() {
  static const std::vector<Net> all{
      {"tied",
       {"data/kind=grammar", "data/classes=0", "data/sequence=7", "training/label_smoothing=0.1",
        "network/layers=[{type='embedding',width=10},{type='dropout'},{type='block',repeat=2,recompute=true,"
        "layers=[{type='residual',layers=[{type='rms-norm'},{type='attention',heads=5,bias=false}]},"
        "{type='residual',layers=[{type='rms-norm'},{type='dense',units=11,activation='silu'},"
        "{type='dense',units=10,bias=false},{type='dropout'}]}]},{type='rms-norm'},"
        "{type='dense',tied=true,bias=false}]"},
       false},
      {"short", // fewer positions than parts
       {"data/kind=grammar", "data/classes=0", "data/sequence=3",
        "network/layers=[{type='embedding',width=8,positions=true},{type='residual',layers=["
        "{type='layer-norm'},{type='attention',heads=4},{type='dropout'}]},{type='residual',layers=["
        "{type='layer-norm'},{type='dense',units=14,activation='gelu'},{type='dense',units=8}]},"
        "{type='dense',tied=true}]"},
       false},
      {"dense layers", // a single one, and three in a row
       {"data/kind=grammar", "data/classes=0", "data/sequence=6", "training/loss=mse",
        "network/layers=[{type='embedding',width=6,positions=true},{type='dense',units=9},"
        "{type='layer-norm'},{type='dense',units=9,activation='gelu'},{type='activation',activation='tanh'},"
        "{type='dense',units=12,activation='gelu'},{type='dropout'},{type='dense',units=7},"
        "{type='rms-norm'},{type='dense',units=8,activation='tanh'},{type='dense'}]"},
       false}};
  return all;
}

Overrides deckOf(const Net& net, const Overrides& more) {
  return Overrides{"strategy/kind=joint",     "optimiser/kind=sgd", "optimiser/learning_rate=0.03",
                   "optimiser/clip_norm=0.7", "training/batch=12",  "data/samples=240",
                   "data/test_samples=20",    "run/steps=20"} +
         net.deck + more;
}

/// All parameters and statistics of the network on every rank: a sum over the ranks that own slices.
std::vector<double> gathered(const SmallRun& run) {
  std::vector<double> all;
  for (const char* kind : {parameters_kind, statistics_kind}) {
    std::map<std::string, std::size_t> places;
    for (const TensorRecord& tensor : networkTensors(run.partition, kind)) {
      places[tensor.layer + "/" + tensor.name] = all.size();
      all.resize(all.size() + static_cast<std::size_t>(tensor.size()));
    }
    for (const auto& local : run.stages) {
      const Stage& stage = local->stage;
      const StoredVector values =
          kind == std::string(statistics_kind) ? StoredVector(stage.statistics()) : stage.masters();
      for (const StageTensor& tensor : tensorsOf(stage, kind)) {
        if (!tensor.owned || run.grid.replica() > 0) continue;
        std::vector<Real> own(static_cast<std::size_t>(tensor.size));
        values.copyOut(ExecSpace(), tensor.offset, tensor.size, own.data());
        const Real* next = own.data();
        for (const TensorSlice& slice : tensor.slices) {
          for (const SliceRun& piece : runsOf(slice))
            for (std::int64_t i = 0; i < piece.count; ++i)
              all[places.at(tensor.layer + "/" + tensor.name) +
                  static_cast<std::size_t>(piece.in_whole + i)] +=
                  static_cast<double>(next[piece.in_slice + i]);
          next += slice.size();
        }
      }
    }
  }
  run.grid.world().sum(all);
  return all;
}

double relativeDifference(const std::vector<double>& a, const std::vector<double>& b) {
  double difference = 0.0, norm = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += a[i] * a[i];
  }
  return std::sqrt(difference / norm);
}

/// The first `ranks` ranks form one group; the others are in groups of their own and run nothing.
bool inFirstGroup(int ranks) {
  return everyone().rank() < ranks;
}

/// What one rank learns by itself; each deck is trained once.
struct Learned {
  std::vector<double> parameters;
  double loss;
};

const Learned& learnedAlone(const Communicator& self, const Overrides& deck) {
  static std::map<Overrides, Learned> all;
  const auto found = all.find(deck);
  if (found != all.end()) return found->second;
  SmallRun one(self, smallDeck(deck));
  const std::vector<double> parameters = gathered(one.train());
  return all.emplace(deck, Learned{parameters, one.evaluate().loss.back()}).first->second;
}

void checkParts(const Net& net, int ranks, const Overrides& how, const Overrides& alike = {}) {
  if (everyone().size() < ranks) return;
  const Communicator group = everyone().split(inFirstGroup(ranks) ? 0 : 1 + everyone().rank(), 0),
                     self = everyone().split(everyone().rank(), 0);
  if (!inFirstGroup(ranks)) return;
  const Learned& alone = learnedAlone(self, deckOf(net, alike));
  SmallRun shared(group, smallDeck(deckOf(net, alike + how)));
  const std::vector<double> divided = gathered(shared.train());
  REQUIRE(alone.parameters.size() == divided.size());
  std::string text = net.name;
  for (const std::string& part : how) text += " " + part;
  INFO(text);
  CHECK(relativeDifference(alone.parameters, divided) < 1e-6);
  CHECK(shared.evaluate().loss.back() == Approx(alone.loss).epsilon(1e-5));
}

const std::vector<std::string>& splits() {
  static const std::vector<std::string> all{"filter", "channel", "grid", "spatial"};
  return all;
}

template <class Use>
void forEachDivision(const Use& use) {
  for (const Net& net : nets())
    for (const std::string& split : splits())
      if (net.has_places || split != "spatial") use(net, "strategy/split=" + split);
  for (const Net& net : sequences()) use(net, "strategy/split=grid");
}

/// Can the network be cut? Not between an embedding and the layer that shares its table.
bool canBeCut(const Net& net) {
  return net.deck.back().find("tied") == std::string::npos;
}

} // namespace

TEST_CASE("Parts train the network that one rank trains", "[parts][sweep]") {
  forEachDivision([](const Net& net, const std::string& split) {
    for (const int parts : {2, 3, 4})
      checkParts(net, parts, {split, "strategy/parts=" + std::to_string(parts)});
  });
}

TEST_CASE("Parts, replicas and stages together train the network that one rank trains", "[parts]") {
  forEachDivision([](const Net& net, const std::string& split) {
    const Overrides parts{split, "strategy/parts=2"};
    if (std::string(net.name) != "ResNet") // its norms see the samples of a replica or of a microbatch
      checkParts(net, 4, parts + Overrides{"strategy/replicas=2"});
    if (!canBeCut(net)) return;
    const Overrides pipeline{"strategy/microbatches=3"};
    checkParts(net, 4,
               parts + Overrides{"strategy/kind=pipeline", "strategy/stages=2", "strategy/schedule=1f1b"},
               pipeline);
  });
}

/// Grids of parts, chosen by hand.
TEST_CASE("Parts in any grid train the network that one rank trains", "[parts][sweep]") {
  const auto check = [](const Net& net, const char* split, int parts, const char* grid) {
    checkParts(net, parts,
               {std::string("strategy/split=") + split, "strategy/parts=" + std::to_string(parts),
                std::string("strategy/parts_grid=") + grid});
  };
  for (const Net& net : nets()) {
    if (!net.has_places) continue;
    const bool volumes = net.name == std::string("CosmoFlow");
    for (const char* grid : {"[1,2]", "[2,1]"}) check(net, "grid", 2, grid);
    for (const char* grid : {"[1,4]", "[2,2]", "[4,1]"}) check(net, "grid", 4, grid);
    for (const char* grid : {"[1,2]", "[2,1]"})
      if (!volumes) check(net, "spatial", 2, grid);
    for (const char* grid : {"[1,3]", "[3,1]"})
      if (!volumes) check(net, "spatial", 3, grid);
    for (const char* grid : {"[2,2]", "[1,4]"})
      if (!volumes) check(net, "spatial", 4, grid);
    for (const char* grid : {"[1,1,3]", "[1,3,1]"})
      if (volumes) check(net, "spatial", 3, grid);
    for (const char* grid : {"[1,2,2]", "[2,1,2]", "[2,2,1]"})
      if (volumes) check(net, "spatial", 4, grid);
  }
}

TEST_CASE("Parts of stages that learn from labels learn what one rank per stage learns", "[parts][sil]") {
  const Overrides parts{"strategy/parts=2"},
      stages{"strategy/kind=sil", "strategy/stages=2", "strategy/schedule=1f1b"};
  const std::vector<Overrides> usual{{"strategy/input=relay"}, {"strategy/input=free"}},
      others{{"strategy/labels=sign", "strategy/input=relay"},
             {"strategy/input=free", "strategy/loss=mse", "strategy/exits=none"},
             {"strategy/input=frozen"},
             {"strategy/joint_every=3", "strategy/transport=0.1"},
             {"strategy/reconstruct=0.1", "strategy/exits=sum"},
             {"run/steps=0", "run/epochs=1", "strategy/recovery_epochs=1", "strategy/microbatches=2"}};
  forEachDivision([&](const Net& net, const std::string& split) {
    if (!canBeCut(net)) return;
    for (const Overrides& how : usual) checkParts(net, 4, parts + Overrides{split}, stages + how);
    if (std::string(net.name) == "ResNet") {
      for (const Overrides& how : others) checkParts(net, 4, parts + Overrides{split}, stages + how);
    } else { // each rank has both stages
      checkParts(net, 4, parts + Overrides{split, "strategy/replicas=2"}, stages);
    }
  });
}

TEST_CASE("Parts weigh what residual layers add like one rank", "[parts][sil]") {
  const Overrides alike{"strategy/kind=sil", "strategy/stages=1", "strategy/transport=0.5"};
  checkParts(nets()[1], 2, {"strategy/split=spatial", "strategy/parts=2"}, alike);
  checkParts(nets()[4], 2, {"strategy/split=grid", "strategy/parts=2"}, alike);
}

TEST_CASE("Stages that learn from labels send what the plan says", "[parts][sil][traffic]") {
  if (everyone().size() != 4) return;
  forEachDivision([](const Net& net, const std::string& split) {
    if (!canBeCut(net)) return;
    for (const char* how : {"strategy/input=relay", "strategy/input=free", "strategy/input=frozen",
                            "strategy/joint_every=2", "strategy/recovery_epochs=1"}) {
      const Overrides more{"strategy/kind=sil", "strategy/stages=2",     "strategy/parts=2", split, how,
                           "run/epochs=1",      "strategy/schedule=1f1b"};
      SmallRun run(everyone(), smallDeck(deckOf(net, more + Overrides{"run/steps=0"})));
      run.train();
      const RunLength length = planRunLength(run.config, run.sets.train.size());
      const std::int64_t every = run.config.strategy.sil.joint_every,
                         both = every > 0 ? length.steps / every : 0;
      const auto sent = [&](StepKind kind) {
        return stepTraffic(run.config, run.partition, run.grid.plan(), kind, sizeof(Real));
      };
      const PartTraffic own = sent(StepKind::own_losses), joint = sent(StepKind::both),
                        joined = sent(StepKind::joined);
      INFO(net.name << " " << split << " " << how);
      CHECK(run.grid.world().total(run.grid.traffic.between_parts) ==
            (length.steps - both) * own.bytes + both * joint.bytes + length.recovery_steps * joined.bytes);
      CHECK(run.grid.world().total(run.grid.traffic.part_messages) ==
            (length.steps - both) * own.messages + both * joint.messages +
                length.recovery_steps * joined.messages);
    }
  });
}

TEST_CASE("What parts send is what the plan says, message by message", "[parts][traffic][sweep]") {
  forEachDivision([](const Net& net, const std::string& split) {
    const Overrides more{split, "strategy/parts=" + std::to_string(everyone().size()), "run/steps=3",
                         "strategy/microbatches=2", "training/batch=13"};
    if (everyone().size() == 1) return;
    SmallRun run(everyone(), smallDeck(deckOf(net, more)));
    const auto recording = std::make_unique<MpiRecording>();
    run.train();
    const std::vector<MpiRecord> sent = recording->on(run.grid.along(Axis::part), MpiCall::send);
    PartTraffic planned;
    const StagePlan own = partOfStage(run.partition.stages[0], run.config.strategy, run.grid.part());
    std::vector<std::int64_t> sizes, found;
    for (int step = 0; step < 3; ++step) {
      for (const std::int64_t rows : {6, 7}) { // the two microbatches
        for (const PartMessage& message : partMessages(own, run.grid.part(), rows, sizeof(Real), false))
          sizes.push_back(message.bytes);
        if (step == 0) planned += partTraffic(own, run.grid.part(), rows, sizeof(Real), false);
      }
    }
    INFO(net.name << " " << split);
    for (std::size_t i = 0; i < std::min(sizes.size(), sent.size()); ++i) found.push_back(sent[i].bytes);
    CHECK(found == sizes);
    // The final evaluation sends forward messages, which do not count as training.
    CHECK(run.grid.traffic.part_messages == 3 * planned.messages);
    CHECK(run.grid.traffic.between_parts == 3 * planned.bytes);
    CHECK(static_cast<std::int64_t>(sent.size()) > run.grid.traffic.part_messages);
    std::vector<double> all{static_cast<double>(planned.messages), static_cast<double>(planned.bytes)};
    run.grid.world().sum(all);
    const PartTraffic step = stepTraffic(run.config, run.partition, run.grid.plan(), sizeof(Real));
    CHECK(all == std::vector<double>{static_cast<double>(step.messages), static_cast<double>(step.bytes)});
  });
}

TEST_CASE("Gradients of inputs travel while those of parameters are computed", "[parts][traffic]") {
  const int parts = everyone().size();
  if (parts == 1) return;
  std::int64_t travelling = 0;
  forEachDivision([&](const Net& net, const std::string& split) {
    const SmallRun run(everyone(),
                       smallDeck(deckOf(net, {split, "strategy/parts=" + std::to_string(parts)})));
    Stage& stage = run.stages[0]->stage;
    const std::vector<LayerPlan>& layers = stage.plan().layers;
    constexpr std::int64_t rows = 3;
    Tape tape = stage.makeTape(rows);
    const Matrix in = makeMatrix("partita::test::in", rows, stage.inputs());
    Kokkos::deep_copy(in, Real(0.5));
    const Matrix out = stage.forward(space, {}, in, tape).real();
    Kokkos::deep_copy(out, Real(0.1));
    Kokkos::deep_copy(stage.outputGradient(rows), Real(0.01));
    std::vector<PartMessage> planned =
        partMessages(stage.plan(), run.grid.part(), rows, sizeof(Real), false, false);
    planned.erase(std::remove_if(planned.begin(), planned.end(),
                                 [](const PartMessage& message) {
                                   return message.forward_pass || message.place == "loss";
                                 }),
                  planned.end());
    const MpiRecording recording;
    const auto sent = [&] { return recording.on(run.grid.along(Axis::part), MpiCall::send).size(); };
    std::size_t layer = layers.size();
    stage.backward(space, {}, in, tape, stage.outputGradient(rows), Matrix(),
                   [&](std::int64_t, std::int64_t) {
                     do --layer;
                     while (layers[layer].parameters() == 0);
                     std::size_t expected = 0; // messages up to those that travel meanwhile
                     for (std::size_t i = 0; i < planned.size(); ++i)
                       if (planned[i].backward && planned[i].hidden_behind == &layers[layer])
                         expected = i + 1;
                     INFO(net.name << " " << split << " " << layers[layer].name());
                     if (expected == 0) return;
                     CHECK(sent() == expected);
                     ++travelling;
                   });
    CHECK(sent() == planned.size());
  });
  CHECK(travelling > 8);
}

namespace {

std::vector<std::string> launched; ///< labels of the kernels of this process

} // namespace

/// The part has its own places, but not yet those of the other part.
TEST_CASE("A part computes its interior while halos travel", "[parts][traffic]") {
  if (everyone().size() != 2) return;
  const SmallRun run(everyone(),
                     smallDeck(deckOf(nets()[0], {"strategy/split=spatial", "strategy/parts=2"})));
  Stage& stage = run.stages[0]->stage;
  Tape tape = stage.makeTape(3);
  const Matrix in = makeMatrix("partita::test::in", 3, stage.inputs());
  launched.clear();
  Kokkos::Tools::Experimental::set_begin_parallel_for_callback(
      [](const char* name, std::uint32_t, std::uint64_t*) { launched.emplace_back(name); });
  stage.forward(space, {}, in, tape);
  Kokkos::Tools::Experimental::set_begin_parallel_for_callback(nullptr);
  std::string order;
  for (const std::string& name : launched) {
    if (name.find("move_places") != std::string::npos) order += 'm';
    if (name.find("put_block") != std::string::npos) order += 'p';
  }
  // The input is sliced. The values for the other part and the own places are copied. The interior is
  // computed, the halo is copied, and the border is computed.
  CHECK(order.substr(0, 6) == "mmmpmp");
}

/// A stage gets the parameters of its copies from the same part of the other stage.
TEST_CASE("Parts of stages with copies in their heads learn what one rank per stage learns", "[parts][sil]") {
  const Overrides deck{
      "strategy/kind=sil",
      "strategy/stages=2",
      "strategy/input=relay",
      "strategy/lookahead=3",
      "strategy/refresh=4",
      "strategy/schedule=1f1b",
      "network/layers=[{type='conv2d',channels=6,kernel=3,padding=1,activation='gelu'},"
      "{type='conv2d',channels=8,kernel=3,stride=2,padding=1,activation='tanh'},{type='dropout'},"
      "{type='conv2d',channels=8,kernel=3,padding=1,activation='gelu'},{type='flatten'},"
      "{type='dense',units=9,activation='tanh'},{type='dense'}]",
      "strategy/head=[{type='dense',units=9,activation='tanh'}]",
      "strategy/cuts=[2]"};
  const Net net{"copies", {}, true};
  for (const std::string& split : splits())
    for (const Overrides& how : {Overrides{}, Overrides{"strategy/replicas=2"}})
      checkParts(net, 4, Overrides{"strategy/parts=2", "strategy/split=" + split} + how, deck);
}

TEST_CASE("Parts give the same bits whatever the delays", "[parts]") {
  const int parts = everyone().size();
  if (parts == 1) return;
  forEachDivision([parts](const Net& net, const std::string& split) {
    std::vector<Overrides> ways{{"strategy/parts=" + std::to_string(parts)}};
    if (parts == 4 && canBeCut(net))
      ways.push_back({"strategy/parts=2", "strategy/kind=sil", "strategy/stages=2"});
    for (const Overrides& how : ways) {
      const RunConfig deck = smallDeck(deckOf(net, how + Overrides{split, "run/steps=4"}));
      const std::string hash = SmallRun(everyone(), deck).train().hash();
      const MpiDelays delays(static_cast<std::uint64_t>(everyone().rank()) + 1);
      INFO(net.name << " " << split << " " << how.back());
      CHECK(SmallRun(everyone(), deck).train().hash() == hash);
    }
  });
}

} // namespace partita::test::parts
