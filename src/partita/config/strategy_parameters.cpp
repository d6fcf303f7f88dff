#include "partita/config/strategy_parameters.hpp"

#include <algorithm>

namespace partita {

namespace {

void addStages(Section& section, StrategySection& strategy) {
  section.add(
      "kind", choice(strategy.kind),
      "train the whole network (joint), its stages as a pipeline (pipeline), stages on synthetic "
      "intermediate labels (sil), replicas that train alone and meet at intervals (local-sgd), or one "
      "model by workers of unequal speed that do not wait for one another (hogbatch)");
  section.add("stages", &strategy.stages, within(1, 1e6), "stages",
              "sil, pipeline: number of stages of the network");
  section.add("replicas", &strategy.replicas, within(0, 1e6), "replicas",
              "copies that share each batch; 0: ranks / (stages x parts)");
  section.add("parts", &strategy.parts, within(1, 1e6), "parts",
              "joint, pipeline, sil: ranks that share the layers of each stage");
  section.add("split", choice(strategy.split),
              "how parts divide convolutions and dense layers: by outputs (filter) or inputs (channel), with "
              "whole activations between layers; by both, with activations divided by channel (grid); or by "
              "dividing images and volumes in space (spatial)");
  section.add("parts_grid", Axes{&strategy.parts_grid}, within(0, 1e6), "parts",
              "grid: how many parts divide each layer by inputs and by outputs, such as [2, 2]; spatial: how "
              "many divide rows and columns of images, or depth, rows and columns of volumes; 0: the "
              "program chooses");
  section.add(
      "cuts", Cuts{&strategy.cut_rule, &strategy.cuts},
      "what to balance, or the first layers of stages 2, 3, ..., counted from 0 with repeats included");
  section.add(
      "input", choice(strategy.sil.input),
      "inputs of stages 2, 3, ... while they train: made from labels (free), or outputs of the previous "
      "stage, once it is finished (frozen) or while it learns (relay)");
}

void addLabels(Section& section, StrategySection& strategy) {
  section.add("labels", choice(strategy.sil.labels),
              "kind of synthetic labels; learned: trained with the stage; auto: learned with loss prototype, "
              "unless input "
              "is free");
  section.add("label_init", choice(strategy.sil.label_init),
              "labels auto or learned: kind of the labels or, if they learn, of their initial values; auto: "
              "orthogonal, or gaussian if the cut has fewer units than there are classes");
  section.add(
      "label_pool", &strategy.sil.label_pool, within(0, 1 << 24), "positions",
      "learned, images: side of the windows over which each channel is averaged before the labels; 0: "
      "the smallest that leaves at most 4096 values");
  section.add(
      "head_depth", &strategy.sil.head_depth, within(-1, 1 << 24), "layers",
      "learned: number of later layers that a head repeats, along with the pooling before the last "
      "layer: the next ones, or in residual networks of images first those that change the shape; "
      "-1: without strategy/head, if the next layer with parameters is a residual layer of images: 1, "
      "or 2 if at least four residual layers follow; in all other cases 0, or 1 with "
      "strategy/lookahead");
  section
      .add("head", &strategy.sil.head,
           "learned: layers that each stage has between the cut and its labels; they are trained with the "
           "stage and are not part of the joined network")
      .empty_word = "linear";
  section.add("kappa", &strategy.sil.kappa, within(1e-6, 1e6), "", "scale of the synthetic labels");
  section.add("loss", choice(strategy.sil.loss), "local loss at each cut");
  section.add(
      "temperature", &strategy.sil.temperature, within(0, 1e6), "",
      "prototype: temperature; 0: standard deviation of the labels * sqrt(width of the cut * classes / "
      "(classes - 1))");
  section.add("match", choice(strategy.sil.match),
              "whether labels are compared with the values before or after the activation at the cut");
  section.add("initialisation", choice(strategy.sil.initialisation),
              "the last layer of a stage starts at the mean label (cut), or like the other layers (he)");
  section.add("cut_gain", &strategy.sil.cut_gain, within(1e-6, 1e6), "",
              "cut: factor on the initial weights of the last layer of a stage");
  section.add("noise", &strategy.sil.noise, within(0, 1e3), "deviations of the labels",
              "free without mixtures: noise on the inputs");
  section.add("mixture", choice(strategy.sil.mixture),
              "free: use mixtures of labels as inputs; auto: with loss prototype");
  section.add("reencode", choice(strategy.sil.reencode),
              "joined network: labels, weighted by the predicted probabilities of their classes, cross a cut "
              "in place of activations; auto: free with loss prototype");
  section.add(
      "label_start", choice(strategy.sil.label_start),
      "a later stage of one layer starts as the map that passes the labels on; auto: relay and frozen with "
      "loss prototype");
}

void addExits(Section& section, StrategySection& strategy) {
  section.add(
      "exits", choice(strategy.sil.exits),
      "what the joined network predicts: the last stage (none), or the sum of the log-probabilities of "
      "all stages, with equal weights (sum) or weights fitted to the validation set (fitted)");
}

void addTransport(Section& section, StrategySection& strategy) {
  section.add("later_rate", &strategy.sil.later_rate, within(1e-6, 1e6), "",
              "factor on the learning rate of stages 2, 3, ...");
  section.add("later_hold", choice(strategy.sil.later_hold),
              "keep the learning rate of stages 2, 3, ... high until near the end; auto: with relay");
  section.add(
      "joint_every", &strategy.sil.joint_every, within(0, 1e9), "steps",
      "relay, not with fp16: in every N-th step gradients cross the cuts, as in a pipeline; 0: never");
  section.add(
      "lookahead", &strategy.sil.lookahead, within(0, 1e9), "steps",
      "relay, learned labels: the head of a stage begins with a copy of the next stage's first layer with "
      "parameters; the copy learns, and every N steps it moves towards the original; 0: no copy");
  section.add("refresh", &strategy.sil.refresh, within(0, 1e9), "steps",
              "relay, learned labels: every N steps the weights of the network's last layer replace the "
              "labels of all stages; 0: never");
  section.add(
      "reconstruct", &strategy.sil.reconstruct, within(0, 1e6), "",
      "weight, in the loss of a stage, of half the mean square error of reconstructing its input from "
      "its output by a linear map; images are averaged to the positions of the output");
  section.add("transport", &strategy.sil.transport, within(0, 1e6), "",
              "weight, in the loss of a stage, of half the mean square of what a residual layer adds");
  section.add(
      "queue", &strategy.queue, within(1, 999), "batches",
      "relay, frozen, evaluation: batches in transit between two stages for which each of them has room");
  section.add("cache_directory", &strategy.sil.cache_directory,
              "frozen: folder of the stored activations; empty: the run directory, or $TMPDIR or /tmp "
              "if there is none");
  section.add(
      "bucket_kib", &strategy.bucket_kib, within(1, 1 << 20), "KiB",
      "replicas: size of the gradients summed in one message, or 1/64 of the stage's gradient if that is "
      "more");
  section.add(
      "wire", choice(strategy.wire),
      "type in which activations, their gradients and sums of gradients are sent; the sums are also "
      "rounded to it; auto: the type in which layers store activations and their gradients, and float "
      "for the sums");
  section.add("recovery_epochs", &strategy.sil.recovery_epochs, within(0, 1e9), "epochs",
              "epochs of back-propagation through the joined stages at the end");
  section.add("recovery_rate", &strategy.sil.recovery_rate, within(1e-6, 1e6), "",
              "factor on the learning rate during recovery");
}

void addPipeline(Section& section, StrategySection& strategy) {
  section.add(
      "microbatches", &strategy.pipeline.microbatches, within(1, 1 << 24), "microbatches",
      "joint, pipeline, local-sgd, recovery: pieces of a replica's share of a batch; their gradients are "
      "summed");
  section.add("schedule", choice(strategy.pipeline.schedule),
              "pipeline, recovery: which microbatch a rank processes next, forward or backward");
  section.add("limit", &strategy.pipeline.limit, within(0, 1e6), "microbatches",
              "maximum number of microbatches whose activations a rank keeps; 0: 2 x ranks of the pipeline "
              "if message-driven, otherwise as the schedule needs");
  section.add("tie", choice(strategy.pipeline.tie),
              "message-driven: what is processed first if both an activation and a gradient are waiting");
  section.add("caps", &strategy.pipeline.caps,
              "message-driven: rank i of G, counted from 0, keeps at most G - i + G/2 microbatches");
}

void addLocalSgd(Section& section, LocalSgdSection& local_sgd) {
  section.add("every", &local_sgd.every, atLeast(1), "steps",
              "local-sgd: steps between meetings of the replicas");
  section.add("outer", choice(local_sgd.outer),
              "local-sgd: a meeting sets the parameters to their mean (average), or takes a step with "
              "Nesterov momentum towards it (nesterov)");
  section.add("outer_rate", &local_sgd.outer_rate, within(1e-6, 1e3), "",
              "local-sgd, nesterov: learning rate of this step");
  section.add("outer_momentum", &local_sgd.outer_momentum, withinBelow(0, 1), "",
              "local-sgd, nesterov: decay factor of its velocity");
  section.add("warmup_steps", &local_sgd.warmup_steps, atLeast(0), "steps",
              "local-sgd: number of steps at the start that each end with an average of the parameters");
}

void addWorkers(Section& section, HogbatchSection& hogbatch) {
  section.add("shared_workers", &hogbatch.shared_workers, within(0, 1e6), "workers",
              "hogbatch: number of shared workers (ranks 1, 2, ...), which update the model in the memory of "
              "rank 0's node in place; the others are replica workers with a copy of it");
  section.add("merge", choice(hogbatch.merge),
              "hogbatch: what a replica worker does with its result: adds its change to the model (delta), "
              "replaces the model (overwrite), or takes the mean of both (average)");
  section.add(
      "rule", choice(hogbatch.rule),
      "hogbatch: batches of the workers: fixed; adaptive: larger for a worker that is ahead in updates, "
      "smaller for one that is behind; proportional: moved towards equal numbers of updates; "
      "synchronous: shares of training/batch by speed, in steps that all take together");
  section.add("lower", &hogbatch.lower, within(1, 1 << 24), "samples",
              "hogbatch, adaptive and proportional: smallest batch of a worker");
  section.add("upper", &hogbatch.upper, within(1, 1 << 24), "samples",
              "hogbatch, adaptive and proportional: largest batch of a worker; its first batch has "
              "training/batch samples");
  section.add("lower_shared", &hogbatch.lower_shared, within(0, 1 << 24), "samples",
              "hogbatch: `lower` for shared workers; 0: the value of `lower`");
  section.add("upper_shared", &hogbatch.upper_shared, within(0, 1 << 24), "samples",
              "hogbatch: `upper` for shared workers; 0: the value of `upper`");
  section.add("batch_shared", &hogbatch.batch_shared, within(0, 1 << 24), "samples",
              "hogbatch: first batch of a shared worker; 0: training/batch");
  section.add("factor", &hogbatch.factor, {1, 1e6, true}, "",
              "hogbatch, adaptive: factor by which a batch grows or shrinks");
  section.add(
      "growth", choice(hogbatch.growth),
      "hogbatch, adaptive; bounded: a batch changes only if workers differ by more than chance explains, "
      "and grows only if the sum of all batches stays at or below that of the first ones, or if no other "
      "batch can shrink; free: a batch changes whenever its worker is ahead or behind");
  section.add(
      "beta", &hogbatch.beta, {0, 1, true}, "",
      "hogbatch: fraction of the updates of shared workers that counts, because some overwrite others");
  section.add("rate_cap", &hogbatch.rate_cap, {0, 1e6, true}, "",
              "hogbatch: an update of b samples uses learning_rate x b / batch, but at most learning_rate "
              "times this");
  section.add("staleness", choice(hogbatch.staleness),
              "hogbatch: an update that is t updates old counts fully (none), is divided by t (scale), or is "
              "dropped if t exceeds strategy/staleness_bound (ringmaster)");
  section.add("staleness_bound", &hogbatch.staleness_bound, within(0, 1e15), "updates",
              "hogbatch, ringmaster: oldest update that is not dropped");
  section.add("update", choice(hogbatch.update),
              "hogbatch: how values of the shared model are changed: without locks, so that few updates are "
              "lost (relaxed), exactly but slower (atomic), or without any order (plain, for measurements)");
  section.add("slowdown", &hogbatch.slowdown, within(1, 1e6), "times",
              "hogbatch: how many times workers 1, 2, ... compute each batch, to study machines of "
              "unequal speed, for example [1, 4]; workers that are not in the list compute it once");
  section.add("speeds", &hogbatch.speeds, within(1, 1e9), "relative",
              "hogbatch, synchronous: speeds of workers 1, 2, ..., for example [1, 4]; they share a batch "
              "in proportion; 1 for workers that are not in the list; empty: measured in the first steps");
  section.add(
      "tolerate", &hogbatch.tolerate,
      "hogbatch: if a worker dies, does not answer, or has a loss that is not finite, give its batch to "
      "others and continue; if false, the run ends");
}

} // namespace

Section describeStrategy(StrategySection& strategy) {
  Section section{"strategy",
                  "How the network is divided over the ranks and trained. The keys from `input` to "
                  "`recovery_rate` apply only to sil, except `queue`, `bucket_kib` and `wire`."};
  addStages(section, strategy);
  addLabels(section, strategy);
  addExits(section, strategy);
  addTransport(section, strategy);
  addPipeline(section, strategy);
  addLocalSgd(section, strategy.local_sgd);
  addWorkers(section, strategy.hogbatch);
  return section;
}

namespace {

std::vector<std::string> without(const std::vector<std::string>& some, std::vector<std::string> keys) {
  const auto listed = [&](const std::string& key) {
    return std::find(some.begin(), some.end(), key) != some.end();
  };
  keys.erase(std::remove_if(keys.begin(), keys.end(), listed), keys.end());
  return keys;
}

} // namespace

std::vector<std::string> keysOfOtherKinds() {
  StrategySection strategy;
  return without({"kind", "replicas", "parts", "split", "parts_grid", "bucket_kib", "wire", "microbatches"},
                 describeStrategy(strategy).keys());
}

std::vector<std::string> keysWithoutEffect(StrategyKind kind) {
  StrategySection strategy;
  Section others{"strategy", ""};
  if (kind != StrategyKind::sil) {
    others.add("input", choice(strategy.sil.input), "");
    addLabels(others, strategy);
    addExits(others, strategy);
    addTransport(others, strategy);
  }
  if (kind == StrategyKind::hogbatch) addPipeline(others, strategy);
  if (kind != StrategyKind::local_sgd) addLocalSgd(others, strategy.local_sgd);
  if (kind != StrategyKind::hogbatch) addWorkers(others, strategy.hogbatch);
  return without({"queue", "bucket_kib", "wire"}, others.keys());
}

} // namespace partita
