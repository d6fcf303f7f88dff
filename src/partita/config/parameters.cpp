#include "partita/config/parameters.hpp"

namespace partita {
namespace {

Section describeRun(RunSection& run) {
  Section section{"run", "Length of the training, its seed and what is told on the way."};
  section.add("seed", &run.seed, atLeast(0), "", "seed of every random number");
  section.add("epochs", &run.epochs, within(1, 1e9), "epochs", "passes of each stage over the training set");
  section.add("steps", &run.steps, atLeast(0), "steps", "steps of each stage; 0: as many as `epochs` makes");
  section.add("log_every", &run.log_every, atLeast(0), "steps",
              "from one row of the history to the next; 0: a 200th of the run, 1000 at most");
  section.add("evaluate_every", &run.evaluate_every, atLeast(0), "epochs",
              "from one evaluation to the next; 0: at the end only");
  section.add("trace", &run.trace, within(0, 1e6), "steps",
              "joint, pipeline: the first ones, whose operations go to trace.json of the run directory");
  section.add("timing", &run.timing, "wait after each phase and print where the time goes");
  section.add("watchdog", &run.watchdog, atLeast(0), "seconds",
              "the job ends where others have waited for a silent rank so long; more than the longest step "
              "takes; 0: never");
  section.add("device_aware_mpi", choice(run.device_aware_mpi),
              "give MPI buffers in device memory; auto: where it says that it takes them");
  section.add("precision", choice(run.precision),
              "parameters, gradients and activations: float, or rounded to 16 bits with float masters");
  return section;
}

Section describeData(DataSection& data) {
  Section section{"data", "What is learned. Files lie in `path`, which counts from the current folder."};
  section.add("kind", choice(data.kind),
              "built-in generator (glyphs, grammar; noise: for planning and timing) or format of the files");
  section.add("path", &data.path, "folder of the files");
  section.add("train_images", &data.train_images, "idx: file of the training images");
  section.add("train_labels", &data.train_labels, "idx: file of the training labels");
  section.add("test_images", &data.test_images, "idx: file of the test images");
  section.add("test_labels", &data.test_labels, "idx: file of the test labels");
  section.add("train_file", &data.train_file, "libsvm, hdf5, text: file of the training set");
  section.add("test_file", &data.test_file, "libsvm, hdf5, text: file of the test set");
  section.add("features", &data.features, "hdf5: name of the data set of the features");
  section.add("labels", &data.labels, "hdf5: name of the data set of the labels");
  section.add("vocabulary", &data.vocabulary,
              "text: file of byte pairs, one a line; empty: each byte is a token");
  section.add("sequence", &data.sequence, within(1, 1 << 24), "tokens",
              "text, grammar: in a sample; after each of them the next is to be told");
  section.add("samples", &data.samples, atLeast(0), "samples",
              "training samples used, the first ones; 0: all, glyphs and grammar 20000, noise 1024");
  section.add("test_samples", &data.test_samples, atLeast(0), "samples",
              "test samples used, the first ones; 0: all, glyphs 4000, grammar 1000, noise 256");
  section.add("classes", &data.classes, within(0, most_classes), "classes",
              "0: the largest label + 1, glyphs 47, noise 10, text and grammar as many as tokens");
  section.add("image_size", &data.image_size, within(8, 1024), "pixels", "glyphs, noise: side of an image");
  section.add("channels", &data.channels, within(1, 1024), "channels", "noise: of an image");
  section.add("distortion", &data.distortion, within(0, 10), "", "glyphs: scale of the random affine map");
  section.add("noise", &data.noise, within(0, 10), "of full contrast",
              "glyphs: deviation of the pixel noise");
  section.add("validation", &data.validation, withinBelow(0, 1), "", "fraction of the training set held out");
  section.add(
      "test_fraction", &data.test_fraction, withinBelow(0, 1), "",
      "libsvm, hdf5, text without a test file: fraction of the training set that is the test set; 0: the "
      "validation set is");
  section.add("standardise", choice(data.standardise),
              "shift and scale from the training set: one for all features, or one each; not for tokens");
  section.add(
      "prefetch", &data.prefetch, within(0, 1024), "batches",
      "made ahead by a thread of their own, where the rank has a core for it; microbatches where there are "
      "any; 0: none");
  return section;
}

Section describeNetwork(NetworkSection& network) {
  Section section{"network", "The layers in order, and how their weights start."};
  section.add("layers", &network.layers, "one table a layer, from input to output; required");
  section.add("initialisation", choice(network.initialisation), "weights at the start");
  return section;
}

Section describeTraining(TrainingSection& training) {
  Section section{"training", "The batch and the loss on the true labels."};
  section.add("batch", &training.batch, within(1, 1 << 24), "samples", "in a step, over all replicas");
  section.add("loss", choice(training.loss), "loss of the whole network, or of the last stage");
  section.add("label_smoothing", &training.label_smoothing, withinBelow(0, 1), "",
              "cross-entropy: share of the target spread over all classes");
  return section;
}

void addOffload(Section& section, OptimiserSection& optimiser) {
  section.add("offload", choice(optimiser.offload),
              "where master weights and moments lie: on the device, in memory of the host, or in a file");
  section.add("offload_bucket", &optimiser.offload_bucket, within(1, 1 << 30), "parameters",
              "host, file: on their way through the device at a time");
  section.add("offload_directory", &optimiser.offload_directory,
              "file: folder of the files, which go with the run; empty: the run directory");
}

Section describeOptimiser(OptimiserSection& optimiser) {
  Section section{"optimiser", "The update rule and the course of the learning rate."};
  section.add("kind", choice(optimiser.kind), "update rule");
  section.add("learning_rate", &optimiser.learning_rate, within(1e-12, 1e30), "",
              "after warm-up, before any decay");
  section.add("momentum", &optimiser.momentum, withinBelow(0, 1), "", "sgd: decay of the velocity");
  section.add("nesterov", &optimiser.nesterov, "sgd: momentum of Nesterov");
  section.add("beta1", &optimiser.beta1, withinBelow(0, 1), "", "adam, adamw: decay of the mean gradient");
  section.add("beta2", &optimiser.beta2, withinBelow(0, 1), "", "adam, adamw: decay of the mean square");
  section.add("epsilon", &optimiser.epsilon, within(1e-30, 1), "",
              "adam, adamw: added to the root of the mean square");
  section.add("weight_decay", &optimiser.weight_decay, within(0, 1e3), "",
              "sgd, adam: added to the gradient; adamw: decoupled");
  section.add("clip_norm", &optimiser.clip_norm, within(0, 1e30), "",
              "largest norm of the gradient: of each stage, or of the network in joint training; 0: none");
  section.add("schedule", choice(optimiser.schedule), "course of the learning rate");
  section.add("warmup_steps", &optimiser.warmup_steps, atLeast(0), "steps",
              "linear rise from 0; a shorter run ends in it");
  section.add("step_epochs", &optimiser.step_epochs, atLeast(1), "epochs", "step: from one drop to the next");
  section.add("step_factor", &optimiser.step_factor, {0, 1, true}, "", "step: factor of each drop");
  section.add("final_fraction", &optimiser.final_fraction, within(0, 1), "",
              "cosine: last rate / learning_rate");
  addOffload(section, optimiser);
  return section;
}

void addStages(Section& section, StrategySection& strategy) {
  section.add("kind", choice(strategy.kind),
              "whole network (joint), its stages on ranks of their own (pipeline), stages by synthetic "
              "intermediate labels (sil), or copies that learn alone and meet now and then (local-sgd)");
  section.add("stages", &strategy.stages, within(1, 1e6), "stages",
              "sil, pipeline: number of parts of the network");
  section.add("replicas", &strategy.replicas, within(0, 1e6), "replicas",
              "copies that share each batch; 0: ranks / stages");
  section.add("cuts", Cuts{&strategy.cut_rule, &strategy.cuts},
              "what to balance, or the first layer of stages 2, 3, ... counted from 0 with repeats");
  section.add("input", choice(strategy.sil.input), "what stages behind a cut train on");
}

void addLabels(Section& section, StrategySection& strategy) {
  section.add("labels", choice(strategy.sil.labels), "kind of the synthetic labels");
  section.add("kappa", &strategy.sil.kappa, within(1e-6, 1e6), "", "scale of the labels");
  section.add("loss", choice(strategy.sil.loss), "local loss at a cut");
  section.add("temperature", &strategy.sil.temperature, within(0, 1e6), "",
              "prototype; 0: deviation of the labels * sqrt(width of the cut)");
  section.add("match", choice(strategy.sil.match), "labels meet the cut before or after its activation");
  section.add("initialisation", choice(strategy.sil.initialisation),
              "last layer of a stage starts at the mean label (cut), or as the rest (he)");
  section.add("cut_gain", &strategy.sil.cut_gain, within(1e-6, 1e6), "",
              "cut: factor on the last weights of a stage");
  section.add("noise", &strategy.sil.noise, within(0, 1e3), "deviations of the labels",
              "free without mixtures: noise on the inputs");
  section.add("mixture", choice(strategy.sil.mixture),
              "free: inputs are mixtures of labels; auto: with loss prototype");
  section.add("reencode", choice(strategy.sil.reencode),
              "what crosses a cut is replaced by posterior x labels; auto: free with loss prototype");
  section.add("label_start", choice(strategy.sil.label_start),
              "a later stage of one layer starts by passing the labels on; auto: with relay");
}

void addTransport(Section& section, StrategySection& strategy) {
  section.add("later_rate", &strategy.sil.later_rate, within(1e-6, 1e6), "",
              "factor on the learning rate of stages 2, 3, ...");
  section.add("later_hold", choice(strategy.sil.later_hold),
              "stages 2, 3, ... keep their learning rate up until near the end; auto: with relay");
  section.add("queue", &strategy.queue, within(1, 1024), "batches",
              "relay, frozen: on their way between two stages");
  section.add("cache_directory", &strategy.sil.cache_directory,
              "frozen: folder of the spilled activations; empty: the run directory");
  section.add("bucket_kib", &strategy.bucket_kib, within(1, 1 << 20), "KiB",
              "replicas: gradients summed in one message, or a 64th of them if that is more");
  section.add("wire", choice(strategy.wire),
              "activations, their gradients and sums of gradients as they travel; the sums are rounded, too");
  section.add("recovery_epochs", &strategy.sil.recovery_epochs, within(0, 1e9), "epochs",
              "back-propagation through the joined stages afterwards");
  section.add("recovery_rate", &strategy.sil.recovery_rate, within(1e-6, 1e6), "",
              "factor on the learning rate while recovering");
}

void addPipeline(Section& section, StrategySection& strategy) {
  section.add("microbatches", &strategy.pipeline.microbatches, within(1, 1 << 24), "microbatches",
              "joint, pipeline, recovery: parts of a replica's share of a batch, whose gradients add up");
  section.add("schedule", choice(strategy.pipeline.schedule),
              "pipeline, recovery: which microbatch a rank takes next, forward or backward");
  section.add(
      "limit", &strategy.pipeline.limit, within(0, 1e6), "microbatches",
      "whose activations a rank keeps at most; 0: message-driven 2 x ranks of the pipeline, others as "
      "the schedule needs");
  section.add("tie", choice(strategy.pipeline.tie), "message-driven: what goes first where both wait");
  section.add("caps", &strategy.pipeline.caps,
              "message-driven: rank i of G, from 0, keeps G - i + G/2 microbatches at most");
}

void addLocalSgd(Section& section, LocalSgdSection& local_sgd) {
  section.add("every", &local_sgd.every, atLeast(1), "steps",
              "local-sgd: from one meeting of the replicas to the next");
  section.add(
      "outer", choice(local_sgd.outer),
      "local-sgd: what a meeting makes of the mean of what replicas have learnt: their parameters (average), "
      "or a step with Nesterov momentum in its direction");
  section.add("outer_rate", &local_sgd.outer_rate, within(1e-6, 1e3), "",
              "local-sgd, nesterov: rate of this step");
  section.add("outer_momentum", &local_sgd.outer_momentum, withinBelow(0, 1), "",
              "local-sgd, nesterov: decay of its velocity");
  section.add("warmup_steps", &local_sgd.warmup_steps, atLeast(0), "steps",
              "local-sgd: at the start, replicas average their parameters after each step");
}

Section describeStrategy(StrategySection& strategy) {
  Section section{"strategy",
                  "How the network is divided over the ranks and trained. All keys but `kind`, `stages`, "
                  "`replicas`, `cuts`, `bucket_kib`, `wire` and the last ten concern sil."};
  addStages(section, strategy);
  addLabels(section, strategy);
  addTransport(section, strategy);
  addPipeline(section, strategy);
  addLocalSgd(section, strategy.local_sgd);
  return section;
}

Section describeCheckpoint(CheckpointSection& checkpoint) {
  Section section{"checkpoint", "What is kept of a run under way, in `checkpoints/` of the run directory."};
  section.add(
      "every", &checkpoint.every, atLeast(0), "steps",
      "from one checkpoint to the next, and one at the end; 0: only when the run is stopped or asked");
  section.add("keep", &checkpoint.keep, atLeast(1), "checkpoints", "the last ones that stay");
  section.add("compression", &checkpoint.compression, within(0, 9), "",
              "level of deflate, 0: none; slow, and weights shrink little");
  return section;
}

} // namespace

ParameterTable describe(RunConfig& config) {
  return {{describeRun(config.run), describeData(config.data), describeNetwork(config.network),
           describeTraining(config.training), describeOptimiser(config.optimiser),
           describeStrategy(config.strategy), describeCheckpoint(config.checkpoint)}};
}

} // namespace partita
