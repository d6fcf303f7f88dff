#include "partita/config/parameters.hpp"

namespace partita {
namespace {

Section describeRun(RunSection& run) {
  Section section{"run", "Length and seed of the training, and what it reports."};
  section.add("seed", &run.seed, atLeast(0), "", "seed of all random numbers");
  section.add("epochs", &run.epochs, within(1, 1e9), "epochs", "passes of each stage over the training set");
  section.add("steps", &run.steps, within(0, most_run_steps), "steps",
              "steps of each stage; 0: as many as `epochs` gives");
  section.add("log_every", &run.log_every, atLeast(0), "steps",
              "steps between rows of the history; 0: 1/200 of the run, at most 1000");
  section.add("evaluate_every", &run.evaluate_every, within(0, 1e9), "epochs",
              "epochs between evaluations; 0: only at the end");
  section.add("trace", &run.trace, within(0, 1e6), "steps",
              "joint, pipeline: number of steps at the start whose operations are written to trace.json in "
              "the run directory");
  section.add(
      "decisions", &run.decisions,
      "hogbatch: write decisions.csv, from which `partita train --replay` repeats the run bit for bit "
      "on one rank");
  section.add("timing", &run.timing, "wait after each phase and print where the time is spent");
  // A clock that counts nanoseconds holds nine times as many seconds.
  section.add("watchdog", &run.watchdog, within(0, 1e9), "seconds",
              "end the job if other ranks wait this long for a rank that does not respond; must exceed the "
              "longest step; 0: never");
  section.add("device_aware_mpi", choice(run.device_aware_mpi),
              "pass buffers in device memory to MPI; auto: if MPI reports that it supports them");
  section.add(
      "precision", choice(run.precision),
      "parameters, gradients and activations: float, or rounded to 16 bits with float master weights");
  section.add("cluster", &run.cluster,
              "description of the cluster; the run uses it to predict its time and memory, and compares them "
              "with the measured values; empty: no prediction");
  return section;
}

Section describeData(DataSection& data) {
  Section section{"data",
                  "Training and test data. Files are in `path`, which is relative to the current folder."};
  section.add("kind", choice(data.kind),
              "built-in generator (glyphs, grammar; noise is for planning and timing) or file format");
  section.add("path", &data.path, "folder of the data files");
  section.add("train_images", &data.train_images, "idx: file of the training images");
  section.add("train_labels", &data.train_labels, "idx: file of the training labels");
  section.add("test_images", &data.test_images, "idx: file of the test images");
  section.add("test_labels", &data.test_labels, "idx: file of the test labels");
  section.add("train_file", &data.train_file, "libsvm, hdf5, text: file of the training set");
  section.add("test_file", &data.test_file, "libsvm, hdf5, text: file of the test set");
  section.add("features", &data.features, "hdf5: name of the data set with the features");
  section.add("labels", &data.labels, "hdf5: name of the data set with the labels");
  section.add("vocabulary", &data.vocabulary,
              "text: file of byte pairs, one per line; empty: each byte is a token");
  section.add("sequence", &data.sequence, within(1, 1 << 24), "tokens",
              "text, grammar: tokens per sample; the network predicts the next token after each of them");
  section.add(
      "samples", &data.samples, atLeast(0), "samples",
      "use only this many training samples, the first ones; 0: all, 20000 for glyphs and grammar, 1024 "
      "for noise");
  section.add(
      "test_samples", &data.test_samples, atLeast(0), "samples",
      "use only this many test samples, the first ones; 0: all, 4000 for glyphs, 1000 for grammar, 256 "
      "for noise");
  section.add("classes", &data.classes, within(0, most_classes), "classes",
              "0: largest label + 1, 47 for glyphs, 10 for noise, the number of tokens for text and grammar");
  section.add("image_size", &data.image_size, within(8, 1024), "pixels",
              "glyphs, noise: height and width of the images");
  section.add("channels", &data.channels, within(1, 1024), "channels", "noise: channels per image");
  section.add("depth", &data.depth, within(0, 1024), "positions",
              "noise: extent of volumes along depth; 0: images");
  section.add("distortion", &data.distortion, within(0, 10), "", "glyphs: scale of the random affine map");
  section.add("noise", &data.noise, within(0, 10), "of full contrast",
              "glyphs: standard deviation of the pixel noise");
  section.add("validation", &data.validation, withinBelow(0, 1), "",
              "fraction of the training set held out for validation");
  section.add("test_fraction", &data.test_fraction, withinBelow(0, 1), "",
              "libsvm, hdf5, text without test_file: fraction of the training set used as the test set; 0: "
              "use the validation set");
  section.add(
      "standardise", choice(data.standardise),
      "shift and scale from the training set: one pair for all features, or one per feature; not for tokens");
  section.add(
      "crop", &data.crop, atLeast(0), "pixels",
      "training images: after standardisation, pads each side with this many zeros and takes a random crop "
      "of the original size, anew in each epoch; must be less than height and width; 0: none");
  section.add(
      "flip", &data.flip,
      "training images: mirrors each left to right with probability 1/2, anew in each epoch; with "
      "strategy/input 'frozen' or 'free', only the first stage learns from cropped and mirrored images");
  section.add("prefetch", &data.prefetch, within(0, 1024), "batches",
              "batches (or microbatches, if used) that a separate thread prepares in advance if the rank has "
              "a core for it; 0: none");
  return section;
}

Section describeNetwork(NetworkSection& network) {
  Section section{"network", "The layers in order, and their initial weights."};
  section.add("layers", &network.layers, "one table per layer, from input to output; required");
  section.add("initialisation", choice(network.initialisation), "distribution of the initial weights");
  return section;
}

Section describeTraining(TrainingSection& training) {
  Section section{"training", "The batch and the loss on the true labels."};
  section.add("batch", &training.batch, within(1, 1 << 24), "samples", "samples per step, over all replicas");
  section.add("loss", choice(training.loss), "loss of the whole network, or of the last stage");
  section.add("label_smoothing", &training.label_smoothing, withinBelow(0, 1), "",
              "cross-entropy: fraction of the target spread over all classes, in training only");
  return section;
}

void addOffload(Section& section, OptimiserSection& optimiser) {
  section.add("offload", choice(optimiser.offload),
              "location of master weights and moments: on the device, in host memory, or in a file");
  section.add("offload_bucket", &optimiser.offload_bucket, within(1, 1 << 30), "parameters",
              "host, file: number of parameters that pass through the device at a time");
  section.add("offload_directory", &optimiser.offload_directory,
              "file: folder of the files, which disappear when the run ends; empty: the run directory, or "
              "$TMPDIR or /tmp if there is none");
}

Section describeOptimiser(OptimiserSection& optimiser) {
  Section section{"optimiser", "The update rule and the learning rate schedule."};
  section.add("kind", choice(optimiser.kind), "update rule");
  section.add("learning_rate", &optimiser.learning_rate, within(1e-12, 1e30), "",
              "learning rate after warm-up, before any decay");
  section.add("momentum", &optimiser.momentum, withinBelow(0, 1), "", "sgd: decay factor of the velocity");
  section.add("nesterov", &optimiser.nesterov, "sgd: use Nesterov momentum");
  section.add("beta1", &optimiser.beta1, withinBelow(0, 1), "",
              "adam, adamw: decay factor of the mean gradient");
  section.add("beta2", &optimiser.beta2, withinBelow(0, 1), "",
              "adam, adamw: decay factor of the mean square");
  section.add("epsilon", &optimiser.epsilon, within(1e-30, 1), "",
              "adam, adamw: added to the root of the mean square");
  section.add("weight_decay", &optimiser.weight_decay, within(0, 1e3), "",
              "sgd, adam: added to the gradient; adamw: decoupled");
  section.add(
      "clip_norm", &optimiser.clip_norm, within(0, 1e30), "",
      "maximum norm of the gradient: of the whole network, or with sil of each stage; 0: no clipping");
  section.add("schedule", choice(optimiser.schedule), "learning rate schedule");
  section.add("warmup_steps", &optimiser.warmup_steps, atLeast(0), "steps",
              "linear rise from 0, over the whole run if that is shorter");
  section.add("step_epochs", &optimiser.step_epochs, within(1, 1e9), "epochs", "step: epochs between drops");
  section.add("step_factor", &optimiser.step_factor, {0, 1, true}, "", "step: factor of each drop");
  section.add("final_fraction", &optimiser.final_fraction, within(0, 1), "",
              "cosine: final learning rate / learning_rate");
  addOffload(section, optimiser);
  return section;
}

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
              "many divide rows and columns of images, or depth, rows and columns of volumes; 0: whatever "
              "moves the fewest bytes");
  section.add(
      "cuts", Cuts{&strategy.cut_rule, &strategy.cuts},
      "what to balance, or the first layers of stages 2, 3, ..., counted from 0 with repeats included");
  section.add("input", choice(strategy.sil.input), "what the stages after a cut train on");
}

void addLabels(Section& section, StrategySection& strategy) {
  section.add("labels", choice(strategy.sil.labels),
              "kind of synthetic labels; learned: trained with the stage; auto: learned with loss prototype, "
              "unless input "
              "is free");
  section.add("label_init", choice(strategy.sil.label_init),
              "learned: kind of labels at the start; auto: orthogonal, or gaussian if the cut has fewer "
              "units than there are classes");
  section.add(
      "label_pool", &strategy.sil.label_pool, within(0, 1 << 24), "positions",
      "learned, images: side of the windows over which each channel is averaged before the labels; 0: "
      "the smallest that leaves at most 4096 values");
  section.add(
      "head_depth", &strategy.sil.head_depth, within(-1, 1 << 24), "layers",
      "learned: number of later layers that a head repeats, along with the pooling before the last "
      "layer: the next ones, or in residual networks of images first those that change the shape; "
      "-1: 0, unless strategy/head is not set and the next layer is a residual layer of images; then 1, or "
      "2 if at least four residual layers follow");
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
              "replace the values that cross a cut by posterior x labels; auto: free with loss prototype");
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
  section.add("queue", &strategy.queue, within(1, 999), "batches",
              "relay, frozen, evaluation: maximum number of batches in transit between two stages");
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
  section.add("microbatches", &strategy.pipeline.microbatches, within(1, 1 << 24), "microbatches",
              "joint, pipeline, recovery: parts of a replica's share of a batch, whose gradients are summed");
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
              "local-sgd: number of first steps after each of which the replicas average their parameters");
}

void addWorkers(Section& section, HogbatchSection& hogbatch) {
  section.add("shared_workers", &hogbatch.shared_workers, within(0, 1e6), "workers",
              "hogbatch: number of workers (ranks 1, 2, ...) that update the model of their node in place; "
              "the others are replica workers with a copy of it");
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
              "hogbatch, adaptive and proportional: largest batch of a worker; training/batch is the first");
  section.add("lower_shared", &hogbatch.lower_shared, within(0, 1 << 24), "samples",
              "hogbatch: `lower` for shared workers; 0: the same value");
  section.add("upper_shared", &hogbatch.upper_shared, within(0, 1 << 24), "samples",
              "hogbatch: `upper` for shared workers; 0: the same value");
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
              "dropped above strategy/staleness_bound (ringmaster)");
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

Section describeCheckpoint(CheckpointSection& checkpoint) {
  Section section{"checkpoint", "Checkpoints of the run, in `checkpoints/` of the run directory."};
  section.add(
      "every", &checkpoint.every, atLeast(0), "steps",
      "steps between checkpoints, with one more at the end; 0: only when the run is stopped or on request");
  section.add("keep", &checkpoint.keep, atLeast(1), "checkpoints",
              "number of newest checkpoints that are kept");
  section.add("compression", &checkpoint.compression, within(0, 9), "",
              "deflate level; 0: none; slow, and makes weights only a little smaller");
  return section;
}

} // namespace

ParameterTable describe(RunConfig& config) {
  return {{describeRun(config.run), describeData(config.data), describeNetwork(config.network),
           describeTraining(config.training), describeOptimiser(config.optimiser),
           describeStrategy(config.strategy), describeCheckpoint(config.checkpoint)}};
}

} // namespace partita
