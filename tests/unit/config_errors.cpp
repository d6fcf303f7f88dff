#include "partita/config/deck.hpp"
#include "partita/config/layer_types.hpp"
#include "partita/config/text.hpp"
#include "partita/config/user_error.hpp"

#include <string>
#include <vector>

#include "support/catch.hpp"

namespace partita::test::config_errors {

using Catch::Matchers::ContainsSubstring;

namespace {

std::vector<std::string> errorsOf(const std::string& text, const std::vector<std::string>& overrides = {}) {
  try {
    parseDeck(text, "deck.toml", overrides);
  } catch (const UserError& error) {
    return error.messages();
  }
  return {};
}

/// The types of all layers, as messages list them.

struct BadDeck {
  std::string text;     ///< lines of the deck from line 4 on
  std::string expected; ///< its only message
};

/// A network of three layers and three classes; the text under test begins at line 4.
const std::string good =
    "[network]\nlayers = [{type = \"dense\", units = 8, repeat = 2}, {type = \"dense\"}]\n\n";

const std::vector<BadDeck> wrong_names{
    {"[trainig]", "deck.toml:4:2: trainig: unknown section; did you mean 'training'?"},
    {"[optimizer]\nkind = \"sgd\"", "deck.toml:4:2: optimizer: unknown section; did you mean 'optimiser'?"},
    {"[xyz]",
     "deck.toml:4:2: xyz: unknown section; valid: 'run', 'data', 'network', 'training', 'optimiser', "
     "'strategy', 'checkpoint'"},
    {"[training]\n\n bach = 3", "deck.toml:6:2: training/bach: unknown key; did you mean 'batch'?"},
    {"[training]\nmomentum = 0.5",
     "deck.toml:5:1: training/momentum: unknown key; did you mean 'optimiser/momentum'?"},
    {"[training]\nwarmup_step = 5",
     "deck.toml:5:1: training/warmup_step: unknown key; did you mean 'optimiser/warmup_steps'?"},
    {"[training]\nlr = 1e-3", "deck.toml:5:1: training/lr: unknown key"},
    {"[data]\ntrain = \"a\"", "deck.toml:5:1: data/train: unknown key; did you mean one of 'train_images', "
                              "'train_labels', 'train_file'?"},
    {"[strategy]\ninitialization = \"cut\"",
     "deck.toml:5:1: strategy/initialization: unknown key; did you mean 'initialisation'?"},
    {"[training.batch]\nsize = 3",
     "deck.toml:4:1: training/batch: expected an integer, found a table (allowed [1, "
     "16777216], samples)"},
    {"[[run]]\nseed = 3", "deck.toml:4:3: run: expected the section [run], found a list"},
    {"[optimiser]\nkind = \"adm\"",
     "deck.toml:5:8: optimiser/kind: unknown choice 'adm' (allowed 'sgd', 'adam', "
     "'adamw'); did you mean 'adam'?"},
    {"[training]\nloss = \"hinge\"",
     "deck.toml:5:8: training/loss: unknown choice 'hinge' (allowed 'cross-entropy', 'mse')"},
    {"[training]\nloss = \"cross_entropy\"",
     "deck.toml:5:8: training/loss: unknown choice 'cross_entropy' (allowed "
     "'cross-entropy', 'mse'); did you mean 'cross-entropy'?"},
    {"[strategy]\ncuts = \"flop\"",
     "deck.toml:5:8: strategy/cuts: unknown choice 'flop' (allowed 'flops', 'memory', "
     "[2, 4]); did you mean 'flops'?"},
    {"[strategy]\ncuts = \"list\"",
     "deck.toml:5:8: strategy/cuts: unknown choice 'list' (allowed 'flops', 'memory', [2, 4])"},
};

const std::vector<BadDeck> wrong_types{
    {"[training]\nbatch = \"128\"",
     "deck.toml:5:9: training/batch: expected an integer, found the text '128' (allowed "
     "[1, 16777216], samples)"},
    {"[training]\nbatch = 128.0",
     "deck.toml:5:9: training/batch: expected an integer, found the real number 128.0 "
     "(allowed [1, 16777216], samples)"},
    {"[optimiser]\nlearning_rate = true",
     "deck.toml:5:17: optimiser/learning_rate: expected a real number, found the "
     "boolean true (allowed [1e-12, 1e+30])"},
    {"[optimiser]\nnesterov = 1",
     "deck.toml:5:12: optimiser/nesterov: expected a boolean, found the integer 1 (allowed true, false)"},
    {"[data]\npath = 2024-05-01", "deck.toml:5:8: data/path: expected text, found a date or time"},
    {"[strategy]\nmixture = true",
     "deck.toml:5:11: strategy/mixture: expected text, found the boolean true (allowed "
     "'auto', 'on', 'off')"},
    {"[strategy]\ncuts = 3",
     "deck.toml:5:8: strategy/cuts: expected text or a list of integers, found the integer 3 "
     "(allowed 'flops', 'memory', [2, 4])"},
    {"[strategy]\ncuts = [1, \"2\"]",
     "deck.toml:5:12: strategy/cuts: expected an integer, found the text '2'"},
    {"[data]\npath = [\"a\"]", "deck.toml:5:8: data/path: expected text, found a list"},
};

const std::vector<BadDeck> wrong_ranges{
    {"[run]\nseed = -1", "deck.toml:5:8: run/seed: the integer -1 is out of range (allowed >= 0)"},
    {"[run]\nepochs = 0",
     "deck.toml:5:10: run/epochs: the integer 0 is out of range (allowed [1, 1000000000], epochs)"},
    {"[run]\nsteps = 9223372036854775807",
     "deck.toml:5:9: run/steps: the integer 9223372036854775807 is out of range (allowed [0, 100000000000], "
     "steps)"},
    {"[run]\nevaluate_every = 1000000001",
     "deck.toml:5:18: run/evaluate_every: the integer 1000000001 is out of range (allowed [0, 1000000000], "
     "epochs)"},
    {"[run]\nwatchdog = 9223372037",
     "deck.toml:5:12: run/watchdog: the integer 9223372037 is out of range (allowed [0, 1000000000], "
     "seconds)"},
    {"[optimiser]\nstep_epochs = 9223372036854775807",
     "deck.toml:5:15: optimiser/step_epochs: the integer 9223372036854775807 is out of range (allowed [1, "
     "1000000000], epochs)"},
    {"[training]\nbatch = 0",
     "deck.toml:5:9: training/batch: the integer 0 is out of range (allowed [1, 16777216], samples)"},
    {"[data]\nvalidation = 1.0",
     "deck.toml:5:14: data/validation: the real number 1.0 is out of range (allowed [0, 1))"},
    {"[optimiser]\nbeta1 = 1",
     "deck.toml:5:9: optimiser/beta1: the integer 1 is out of range (allowed [0, 1))"},
    {"[optimiser]\nbeta2 = -0.1",
     "deck.toml:5:9: optimiser/beta2: the real number -0.1 is out of range (allowed [0, 1))"},
    {"[optimiser]\nepsilon = 0",
     "deck.toml:5:11: optimiser/epsilon: the integer 0 is out of range (allowed [1e-30, 1])"},
    {"[optimiser]\nlearning_rate = inf",
     "deck.toml:5:17: optimiser/learning_rate: the real number inf is out of range (allowed [1e-12, 1e+30])"},
    {"[optimiser]\nweight_decay = nan",
     "deck.toml:5:16: optimiser/weight_decay: the real number nan is out of range (allowed [0, 1000])"},
    {"[optimiser]\nstep_factor = 0.0",
     "deck.toml:5:15: optimiser/step_factor: the real number 0.0 is out of range (allowed (0, 1])"},
    {"[strategy]\nqueue = 0",
     "deck.toml:5:9: strategy/queue: the integer 0 is out of range (allowed [1, 999], batches)"},
    {"[data]\nclasses = 1",
     "deck.toml:5:11: data/classes: a single class leaves nothing to learn (allowed 0 or >= 2)"},
};

const std::string hogbatch = "[strategy]\nkind = \"hogbatch\"\n",
                  hogbatch_sgd = "[optimiser]\nkind = \"sgd\"\nmomentum = 0\n";

const std::vector<BadDeck> wrong_combinations{
    {"[optimiser]\nnesterov = true", "deck.toml:5:12: optimiser/nesterov: needs kind 'sgd', not 'adam'"},
    {"[run]\ndecisions = true", "deck.toml:5:13: run/decisions: needs kind 'hogbatch', not 'joint'"},
    {"[strategy]\nslowdown = 4", "deck.toml:5:12: strategy/slowdown: expected a list of integers, found the "
                                 "integer 4 (allowed integers in [1, 1000000], times)"},
    {"[strategy]\nslowdown = [1, 0]", "deck.toml:5:16: strategy/slowdown: the integer 0 is out of range "
                                      "(allowed integers in [1, 1000000], times)"},
    {"[strategy]\nspeeds = [\"a\"]",
     "deck.toml:5:11: strategy/speeds: expected an integer, found the text 'a'"},
    {hogbatch + "[optimiser]\nmomentum = 0",
     "deck.toml:5:8: optimiser/kind: 'hogbatch' needs kind 'sgd', not 'adam'"},
    {hogbatch + "[optimiser]\nkind = \"sgd\"",
     "deck.toml:5:8: optimiser/momentum: 'hogbatch' needs momentum 0, not 0.9: updates that come late act as "
     "momentum already"},
    {hogbatch + hogbatch_sgd + "clip_norm = 1",
     "deck.toml:9:13: optimiser/clip_norm: 'hogbatch' does not clip (allowed 0)"},
    {hogbatch + hogbatch_sgd + "[run]\nprecision = \"bf16\"",
     "deck.toml:10:13: run/precision: 'hogbatch' needs precision 'float', not 'bf16'"},
    {hogbatch + "wire = \"bf16\"\n" + hogbatch_sgd,
     "deck.toml:6:8: strategy/wire: 'hogbatch' needs wire 'float', not 'bf16'"},
    {hogbatch + "replicas = 2\n" + hogbatch_sgd, "deck.toml:6:12: strategy/replicas: with 'hogbatch' every "
                                                 "rank but the first is a worker (allowed 0 or 1)"},
    {hogbatch + "microbatches = 2\n" + hogbatch_sgd,
     "deck.toml:6:16: strategy/microbatches: 'hogbatch' does not divide batches (allowed 1)"},
    {hogbatch + hogbatch_sgd + "[run]\ntrace = 5",
     "deck.toml:10:9: run/trace: 'hogbatch' has no schedule to trace (allowed 0)"},
    {hogbatch + "speeds = [1, 4]\n" + hogbatch_sgd,
     "deck.toml:6:10: strategy/speeds: needs rule 'synchronous', not 'adaptive'"},
    {hogbatch + "lower = 64\nupper = 32\n" + hogbatch_sgd,
     "deck.toml:6:9: strategy/lower: 64 is above the upper bound, 32"},
    {hogbatch + "upper = 64\n" + hogbatch_sgd, "deck.toml:6:9: training/batch: the first batch of a replica "
                                               "worker, 128, is not between strategy/lower and "
                                               "strategy/upper (allowed 16 to 64)"},
    {hogbatch + "batch_shared = 8\n" + hogbatch_sgd, "deck.toml:6:16: strategy/batch_shared: the first batch "
                                                     "of a shared worker, 8, is not between strategy/lower "
                                                     "and strategy/upper (allowed 16 to 512)"},
    {hogbatch + "rule = \"synchronous\"\nstaleness = \"scale\"\n" + hogbatch_sgd,
     "deck.toml:7:13: strategy/staleness: no update is late with rule 'synchronous' (allowed 'none')"},
    {hogbatch + "rule = \"synchronous\"\nmerge = \"average\"\n" + hogbatch_sgd,
     "deck.toml:7:9: strategy/merge: rule 'synchronous' adds the parts of a gradient (allowed 'delta')"},
    {"[optimiser]\nkind = \"sgd\"\nmomentum = 0.0\nnesterov = true",
     "deck.toml:7:12: optimiser/nesterov: needs momentum > 0"},
    {"[optimiser]\nkind = \"sgd\"\nmomentum = 0.0\noffload = \"host\"",
     "deck.toml:7:11: optimiser/offload: sgd without momentum has no state to offload in precision 'float'"},
    {"[training]\nloss = \"mse\"\nlabel_smoothing = 0.1",
     "deck.toml:6:19: training/label_smoothing: needs loss 'cross-entropy'"},
    {"[data]\nclasses = 48", "deck.toml:5:11: data/classes: glyphs has at most 47 classes, not 48"},
    {"[data]\ntrain_images = \"a\"",
     "deck.toml: data/kind: missing; it is required because data files are named"},
    {"[data]\nkind = \"libsvm\"\ntrain_file = \"a\"",
     "deck.toml:5:8: data/test_file: missing; kind 'libsvm' requires it, or data/test_fraction or "
     "data/validation to split the training set"},
    {"[data]\nkind = \"glyphs\"\ntest_fraction = 0.1",
     "deck.toml:6:17: data/test_fraction: has no effect when data/kind is 'glyphs', which has a test set of "
     "its "
     "own"},
    {"[data]\nkind = \"libsvm\"\ntrain_file = \"a\"\ntest_file = \"b\"\ntest_fraction = 0.1",
     "deck.toml:8:17: data/test_fraction: has no effect when data/test_file is 'b'; set "
     "data/test_fraction=0 to use that file"},
    {"[data]\nkind = \"libsvm\"\ntrain_file = \"a\"\ntest_fraction = 0.5\nvalidation = 0.5",
     "deck.toml:7:17: data/test_fraction: together with data/validation, leaves nothing for training"},
    {"[data]\nkind = \"hdf5\"\ntest_file = \"a\"",
     "deck.toml:5:8: data/train_file: missing; kind 'hdf5' requires it"},
    {"[data]\nkind = \"idx\"\ntrain_images = \"a\"\ntrain_labels = \"b\"\ntest_images = \"c\"",
     "deck.toml:5:8: data/test_labels: missing; kind 'idx' requires it"},
    {"[strategy]\nkind = \"local-sgd\"\nparts = 2",
     "deck.toml:6:9: strategy/parts: needs kind 'joint', 'pipeline' or 'sil', not 'local-sgd'"},
    {"[strategy]\nparts = 4\nparts_grid = [2, 3]",
     "deck.toml:6:14: strategy/parts_grid: the product of its numbers is 6, but strategy/parts is 4"},
    {"[strategy]\nparts = 4\nparts_grid = [2, 2]\nsplit = \"filter\"",
     "deck.toml:6:14: strategy/parts_grid: needs split 'grid' or 'spatial', not 'filter'"},
    {"[strategy]\nparts = 3\nparts_grid = [7]\nsplit = \"filter\"",
     "deck.toml:6:14: strategy/parts_grid: needs split 'grid' or 'spatial', not 'filter'"},
    {"[strategy]\nparts = 4\nparts_grid = [1, 2, 2]",
     "deck.toml:6:14: strategy/parts_grid: split 'grid' needs 2 numbers, not 3"},
    {"[strategy]\nparts = 4\nparts_grid = [1000000, 1000000, 1000000, 1000000]",
     "deck.toml:6:14: strategy/parts_grid: split 'grid' needs 2 numbers, not 4"},
    {"[strategy]\nkind = \"sil\"\nparts = 2\nrecovery_epochs = 1",
     "deck.toml:6:9: strategy/schedule: parts need a fixed order of the microbatches: '1f1b', '1f1b-eager' "
     "or 'gpipe'"},
    {"[strategy]\nkind = \"sil\"\nstages = 2\ncuts = [1, 2]",
     "deck.toml:7:8: strategy/cuts: 2 stages need 1 cut, not 2"},
    {"[strategy]\nkind = \"sil\"\ncuts = []", "deck.toml:6:8: strategy/cuts: 2 stages need 1 cut, not 0"},
    {"[strategy]\nkind = \"sil\"\nstages = 3\ncuts = [2, 1]",
     "deck.toml:7:8: strategy/cuts: cuts must increase"},
    {"[strategy]\nkind = \"sil\"\nstages = 3\ncuts = [1, 1]",
     "deck.toml:7:8: strategy/cuts: cuts must increase"},
    {"[strategy]\nkind = \"sil\"\ncuts = [3]",
     "deck.toml:6:8: strategy/cuts: cut 3 is not inside the network "
     "(allowed 1 to 2; the network has 3 layers)"},
    {"[strategy]\nkind = \"sil\"\ncuts = [0]",
     "deck.toml:6:8: strategy/cuts: cut 0 is not inside the network "
     "(allowed 1 to 2; the network has 3 layers)"},
    {"[strategy]\nkind = \"sil\"\nstages = 4",
     "deck.toml:6:10: strategy/stages: 4 stages need at least as many layers, but the network has 3"},
    {"[strategy]\nkind = \"sil\"\nmixture = \"on\"",
     "deck.toml:6:11: strategy/mixture: needs input 'free', not 'relay'"},
    {"[strategy]\nkind = \"sil\"\nreencode = \"on\"\nloss = \"mse\"",
     "deck.toml:6:12: strategy/reencode: needs loss 'prototype', not 'mse'"},
    {"[strategy]\nkind = \"sil\"\nlabels = \"learned\"\ninput = \"free\"",
     "deck.toml:6:10: strategy/labels: 'learned' needs input 'relay' or 'frozen', not 'free'"},
    {"[strategy]\nkind = \"sil\"\nlabels = \"learned\"\nloss = \"mse\"",
     "deck.toml:6:10: strategy/labels: 'learned' needs loss 'prototype', not 'mse'"},
    {"[strategy]\nkind = \"sil\"\nreencode = \"on\"\nlabels = \"learned\"",
     "deck.toml:6:12: strategy/reencode: needs labels of a fixed kind, not 'learned'"},
    {"[strategy]\nkind = \"sil\"\nlabel_init = \"learned\"",
     "deck.toml:6:14: strategy/label_init: labels cannot start as 'learned'; choose a fixed kind or 'auto'"},
    {"[strategy]\nkind = \"sil\"\nhead = [{type = \"dense\", units = 4}]\nlabels = \"sign\"",
     "deck.toml:6:8: strategy/head: a head of layers needs labels 'learned', with loss 'prototype' and input "
     "'relay' or 'frozen'"},
    {"[strategy]\nkind = \"sil\"\nhead = [{type = \"embedding\", width = 4}]",
     "deck.toml:6:8: strategy/head: an embedding can only be the first layer of a network"},
    {"[strategy]\nkind = \"sil\"\nlabels = \"sign\"\nhead_depth = 1",
     "deck.toml:7:14: strategy/head_depth: needs labels 'learned', with loss 'prototype' and input 'relay' "
     "or "
     "'frozen'"},
    {"[strategy]\nkind = \"sil\"\nlookahead = 2\nmatch = \"before\"",
     "deck.toml:6:13: strategy/lookahead: needs match 'after', because its layers follow the activation at "
     "the "
     "cut"},
    {"[run]\nprecision = \"fp16\"\n[strategy]\nkind = \"sil\"\njoint_every = 2",
     "deck.toml:8:15: strategy/joint_every: stages scale their losses differently in 'fp16'; use 'bf16' or "
     "float"},
    {"[strategy]\nkind = \"sil\"\nexits = \"sum\"\nloss = \"mse\"",
     "deck.toml:6:9: strategy/exits: needs loss 'prototype', not 'mse'"},
    {"[strategy]\nkind = \"sil\"\nexits = \"sum\"\n[training]\nloss = \"mse\"",
     "deck.toml:6:9: strategy/exits: needs loss 'cross-entropy', not 'mse'"},
    {"[strategy]\nkind = \"sil\"\nexits = \"fitted\"",
     "deck.toml:6:9: strategy/exits: 'fitted' needs a validation set: data/validation above 0"},
    {"[strategy]\nreplicas = 2\nstages = 2",
     "deck.toml:6:10: strategy/stages: has no effect without strategy/kind: ranks would be replicas of the "
     "whole network"},
    {"[strategy]\nreplicas = 200",
     "deck.toml:5:12: strategy/replicas: 200 replicas cannot share a batch of 128 samples"},
};

/// Whole decks with mistakes in the layers.
const std::vector<BadDeck> wrong_layers{
    {"", "deck.toml: network/layers: missing; the network needs at least one layer: layers = [{type = "
         "\"dense\"}]"},
    {"[network]\nlayers = []",
     "deck.toml:2:10: network/layers: missing; the network needs at least one layer: layers "
     "= [{type = \"dense\"}]"},
    {"[network]\nlayers = \"dense\"",
     "deck.toml:2:10: network/layers: expected a list of layers, found the text "
     "'dense' (allowed [{type = \"dense\", units = 256}])"},
    {"[network]\nlayers = [3]",
     "deck.toml:2:11: network/layers: expected a table such as {type = \"dense\"}, found the integer 3"},
    {"[network]\nlayers = [{units = 3}]",
     "deck.toml:2:11: network/layers: the layer has no `type`; valid: " + quotedList(layerTypes().names())},
    {"[network]\nlayers = [{type = \"dens\"}]",
     "deck.toml:2:19: network/layers: expected a layer type, found the text 'dens'; did you mean 'dense'?"},
    {"[network]\nlayers = [{type = 3}]",
     "deck.toml:2:19: network/layers: expected a layer type, found the integer 3; valid: " +
         quotedList(layerTypes().names())},
    {"[network]\nlayers = [{type = \"dense\", unit = 3}]",
     "deck.toml:2:28: network/layers: unknown key 'unit' of a dense layer; did you mean 'units'?"},
    {"[network]\nlayers = [{type = \"dense\", activation = \"leaky_relu\"}]",
     "deck.toml:2:41: network/layers[0]/activation: unknown choice 'leaky_relu' (allowed " +
         partita::quotedList(partita::namesOf<partita::Activation>()) + "); did you mean 'leaky-relu'?"},
    {"[network]\nlayers = [{type = \"dense\", activation = \"softmax\"}]",
     "deck.toml:2:41: network/layers[0]/activation: unknown choice 'softmax' (allowed " +
         partita::quotedList(partita::namesOf<partita::Activation>()) + "); the loss includes softmax"},
    {"[network]\nlayers = [{type = \"softmax\"}]",
     "deck.toml:2:19: network/layers: expected a layer type, found the text 'softmax'; valid: " +
         quotedList(layerTypes().names()) + "; the loss includes softmax"},
    {"[network]\nlayers = [\n  {type = \"dense\"},\n  {type = \"dense\"}]",
     "deck.toml:3:3: network/layers[0]: `units` is missing; only the last layer takes it from the number of "
     "classes"},
    {"[network]\nlayers = [{type = \"dense\", repeat = 2}]",
     "deck.toml:2:11: network/layers[0]: `units` is missing; only the last layer takes it from the number of "
     "classes"},
    {"[network]\nlayers = [{type = \"conv2d\"}, {type = \"dense\"}]",
     "deck.toml:2:11: network/layers[0]: `channels` is missing; type 'conv2d' requires it"},
    {"[network]\nlayers = [{type = \"block\"}, {type = \"dense\"}]",
     "deck.toml:2:11: network/layers[0]: `layers` is missing; type 'block' requires it"},
    {"[network]\nlayers = [{type = \"residual\", layers = [{type = \"dense\"}]}]",
     "deck.toml:2:41: network/layers[0]/layers[0]: `units` is missing; only the last layer takes it from the "
     "number of classes"},
    {"[network]\nlayers = [{type = \"group-norm\"}, {type = \"dense\"}]",
     "deck.toml:2:11: network/layers[0]: `groups` is missing; type 'group-norm' requires it"},
    {"[network]\nlayers = [{type = \"group-norm\", groups = 0}, {type = \"dense\"}]",
     "deck.toml:2:42: network/layers[0]/groups: the integer 0 is out of range (allowed [1, 16777216], "
     "groups)"},
    {"[network]\nlayers = [{type = \"dense\", units = 10}]\n[data]\nclasses = 3",
     "deck.toml:2:10: network/layers: the last layer has 10 units, but data/classes is 3"},
    {"batch = 3\n[network]\nlayers = [{type = \"dense\"}]",
     "deck.toml:1:1: batch: key outside its section; did you mean 'training/batch'?"},
    {"run = 3\n[network]\nlayers = [{type = \"dense\"}]",
     "deck.toml:1:1: run: expected the section [run], found the integer 3"},
};

void requireOnly(const std::string& text, const std::string& expected) {
  INFO(text);
  const std::vector<std::string> errors = errorsOf(text);
  REQUIRE(errors.size() == 1);
  CHECK(errors.front() == expected);
}

} // namespace

TEST_CASE("A bad deck gives one line with its place and what would be right", "[config]") {
  REQUIRE(errorsOf(good).empty());
  for (const auto& decks : {wrong_names, wrong_types, wrong_ranges, wrong_combinations})
    for (const BadDeck& deck : decks) requireOnly(good + deck.text + "\n", deck.expected);
  for (const BadDeck& deck : wrong_layers) requireOnly(deck.text, deck.expected);
}

TEST_CASE("All that workers of one model lack is reported at once", "[config]") {
  const std::string norm = "{type = \"batch-norm\"}";
  for (const std::string& layers :
       {norm, "{type = \"block\", layers = [{type = \"dense\", units = 3}, " + norm + ", " + norm + "]}",
        "{type = \"residual\", layers = [{type = \"dense\", units = 3}], shortcut = [" + norm + "]}"}) {
    const std::vector<std::string> errors = errorsOf(
        "[network]\nlayers = [" + layers + ", {type = \"dense\"}]\n[strategy]\nkind = \"hogbatch\"\n");
    REQUIRE(errors.size() == 3);
    CHECK_THAT(errors[0],
               ContainsSubstring("deck.toml:2:") && ContainsSubstring(": network/layers[0]") &&
                   ContainsSubstring(": a batch-norm keeps running statistics, which workers of "));
    CHECK_THAT(errors[1], ContainsSubstring("optimiser/kind: 'hogbatch' needs kind 'sgd', not 'adam'"));
    CHECK_THAT(errors[2], ContainsSubstring("optimiser/momentum: 'hogbatch' needs momentum 0, not 0.9"));
  }
}

TEST_CASE("A table in braces with a line break is explained", "[config]") {
  const std::string rule = "TOML allows line breaks only inside [ ]";
  for (const std::string inside :
       {"type = \"dense\",\n units = 3", "type = \"dense\"\n", "\r\ntype = \"dense\"",
        "type = \"dense\" # wide\n", "type = \"dense\", # \xC3\xA9\n"}) {
    INFO(inside);
    const std::vector<std::string> errors = errorsOf("[network]\nlayers = [\n{" + inside + "}]");
    REQUIRE(errors.size() == 1);
    CHECK_THAT(errors.front(), ContainsSubstring("deck.toml:3:") && ContainsSubstring(rule));
  }
  for (const std::string other :
       {"layers = \n3", "layers = [{type = \"dense\"]", "layers = [{type = \"dense\"} = ]"})
    CHECK(errorsOf("[network]\n" + other).front().find(rule) == std::string::npos);
}

TEST_CASE("Text that is not TOML gives its place and the parser's reason", "[config]") {
  const std::vector<std::pair<std::string, std::string>> decks{
      {"[training]\nbatch = 3\nbatch = 4", "deck.toml:3:"}, // twice
      {"[run]\n[run]", "deck.toml:2:"},                     // twice
      {"[run\nseed = 3", "deck.toml:1:"},
      {"[data]\n# \xC3\xA9\npath = '\xC3\xA9' \xC3\xA9", "deck.toml:3:12:"},
      {"path = \"\"\"\\\" \xC3\xA9 \n\"\"\"\" \xC3\xA9", "deck.toml:2:6:"},
      {"[data]\nnoise = 4e'\xC3\xA9'", "deck.toml:2:"},
      {"[data]\nnoise = 4='\xC3\xA9'", "deck.toml:2:"},
      {"[data]\nnoise = 4['\xC3\xA9'", "deck.toml:2:"},
      {"[data]\nnoise = \xC3\xA9", "deck.toml:2:9: not TOML: only ASCII"},
      {"[,run]", "deck.toml:1:"},
      {"[run]\nseed 3", "deck.toml:2:"},
      {"[run]\nseed = 3x", "deck.toml:2:"},
      {"[run]\nseed = .5", "deck.toml:2:"},
      {"[run]\nseed = 99999999999999999999", "deck.toml:2:"},
      {"[data]\npath = \"abc", "deck.toml:2:"},
      {std::string("[run]\n\0", 7), "deck.toml:2:"},
      {"[run]\n# \xFF\xFE", "deck.toml:2:"},
  };
  for (const auto& [text, place] : decks) {
    INFO(text);
    const std::vector<std::string> errors = errorsOf(text);
    REQUIRE(errors.size() == 1);
    CHECK(errors.front().compare(0, place.size(), place) == 0);
    CHECK(errors.front().find(": not TOML: ") != std::string::npos);
    CHECK(errors.front().find('\n') == std::string::npos);
  }
}

TEST_CASE("A short deck cannot ask for any number of layers", "[config]") {
  std::string layers;
  for (int i = 0; i < 10; ++i) layers += "{type = \"dense\", units = 4, repeat = 10000}, ";
  requireOnly("[network]\nlayers = [" + layers + "{type = \"dense\"}]",
              "deck.toml:2:10: network/layers: 100001 layers including repeats are more than 100000");
}

TEST_CASE("No depth of keys or values overflows the stack", "[config]") {
  const auto repeated = [](const std::string& text, int count) {
    std::string out;
    for (int i = 0; i < count; ++i) out += text;
    return out;
  };
  for (const std::string& key : {repeated("a.", 100000) + "a", repeated("'a' . \"a\".", 50000) + "a"}) {
    for (const std::string& text :
         {key + " = 1", "[" + key + "]", "[[" + key + "]]", "x = {" + key + " = 1}"}) {
      const std::vector<std::string> errors = errorsOf(text);
      REQUIRE(errors.size() == 1);
      CHECK(errors.front().find("deck.toml:1:") == 0);
      CHECK(errors.front().find(": not TOML: the key has too many parts") != std::string::npos);
    }
  }
  const std::string nested = errorsOf("[run]\nseed = " + repeated("[", 100000)).front();
  CHECK(nested.find("deck.toml:2:") == 0);
}

TEST_CASE("Bytes that are not UTF-8 hide no long key", "[config]") {
  std::string key = "a";
  for (int i = 0; i < 100000; ++i) key += ".a";
  // Without this byte, the text in quotes ends before the key.
  const std::string byte = "\x80";
  for (const std::string& quoted : {"'''abc''" + byte + "'", R"("""abc"")" + byte + "\""}) {
    const std::vector<std::string> errors = errorsOf("x = " + quoted + "\n" + key + " = 1\n");
    REQUIRE(errors.size() == 1);
    CHECK(errors.front().find("deck.toml:2:") == 0);
    CHECK(errors.front().find(": not TOML: the key has too many parts") != std::string::npos);
  }
}

TEST_CASE("Dots in values, texts and comments count towards no key", "[config]") {
  std::string text = good + "[strategy]\nkind = \"sil\"\n";
  for (int i = 0; i < 100; ++i) text += "# .\n";
  text +=
      "noise = 0.5 # " + std::string(100, '.') + "\ncache_directory = \"" + std::string(100, '.') + "\"\n";
  CHECK(errorsOf(text).empty());
}

TEST_CASE("All mistakes of a deck and its overrides come at once, in order", "[config]") {
  const std::string text = good + "[training]\nbatch = 0\n[optimiser]\nnesterov = true\n[run]\nsed = 1\n";
  const std::vector<std::string> errors = errorsOf(text, {"run/epochs=x", "data/pth=y"});
  REQUIRE(errors.size() == 5);
  CHECK(errors[0].find("deck.toml:5:9: training/batch") == 0);
  CHECK(errors[1].find("deck.toml:7:12: optimiser/nesterov") == 0);
  CHECK(errors[2].find("deck.toml:9:1: run/sed") == 0);
  CHECK(errors[3].find("command line: 'run/epochs=x': run/epochs: expected an integer") == 0);
  CHECK(errors[4].find("command line: 'data/pth=y': data/pth: unknown key; did you mean 'path'?") == 0);
}

TEST_CASE("A wrong value does not raise errors about combinations with it", "[config]") {
  const auto errors = errorsOf("[network]\nlayers = [{type = \"dense\", units = 2.5}, {type = \"dense\"}]\n");
  REQUIRE(errors.size() == 1);
  CHECK(errors.front().find("network/layers[0]/units: expected an integer") != std::string::npos);
}

TEST_CASE("Control characters of a deck cannot break a message into lines", "[config]") {
  const auto errors = errorsOf(good + "[run]\n\"a\\nb\" = 1\n[data]\nkind = \"a\\u001b\\n\"\n");
  REQUIRE(errors.size() == 2);
  for (const std::string& error : errors) CHECK(error.find_first_of("\n\x1b") == std::string::npos);
}

TEST_CASE("A counted noun is plural unless the count is 1", "[config]") {
  CHECK(partita::counted(1, "stage") == "1 stage");
  CHECK(partita::counted(0, "stage") == "0 stages");
  CHECK(partita::counted(2, "microbatch") == "2 microbatches");
  CHECK(partita::counted(3, "class") == "3 classes");
}

TEST_CASE("Formatted text has any length", "[config]") {
  CHECK(partita::formatted("%5.1f %% of %s", 12.34, "all") == " 12.3 % of all");
  CHECK(partita::formatted("%s", "").empty());
  const std::string long_text(100000, 'x');
  CHECK(partita::formatted("%s%d", long_text.c_str(), 7) == long_text + "7");
}

TEST_CASE("Messages are one line, whatever names they have", "[config]") {
  CHECK(partita::UserError("no file 'a\nb\x1b[2J'").what() == std::string("no file 'a b [2J'"));
  const std::string long_name(100000, 'x');
  const std::string message = partita::UserError("no '" + long_name + "' here").messages().front();
  CHECK(message.size() < 4100);
  CHECK(message.substr(0, 8) == "no 'xxxx");
  CHECK(message.substr(message.size() - 6) == "' here");
}

TEST_CASE("The nearest name forgives a third of the letters, case and swaps", "[config]") {
  const std::vector<std::string> valid{"momentum", "nesterov", "beta1", "beta2"};
  CHECK(partita::nearestName("momnetum", valid) == "momentum");
  CHECK(partita::nearestName("Nesterov", valid) == "nesterov");
  CHECK(partita::nearestName("beta", valid) == "beta1");
  CHECK(partita::nearestName("epsilon", valid).empty());
  CHECK(partita::nearestName("", valid).empty());
}

} // namespace partita::test::config_errors
