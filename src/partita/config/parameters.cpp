#include "partita/config/parameters.hpp"

#include "partita/config/strategy_parameters.hpp"
#include "partita/config/text.hpp"

namespace partita {
namespace {

Section describeRun(RunSection& run) {
  Section section{"run", "Length and seed of the training, and what it reports."};
  section.add("seed", &run.seed, atLeast(0), "", "seed of all random numbers");
  section.add("epochs", &run.epochs, within(1, 1e9), "epochs", "passes of each stage over the training set");
  section.add("steps", &run.steps, within(0, most_run_steps), "steps",
              "steps of each stage; 0: as many as `epochs` gives");
  section.add("log_every", &run.log_every, atLeast(0), "steps",
              "steps between rows of the history; 0: 1/200 of the run, at most 1000, "
              "with local-sgd rounded up to meetings");
  section.add("evaluate_every", &run.evaluate_every, within(0, 1e9), "epochs",
              "epochs between evaluations; 0: only at the end");
  section.add("trace", &run.trace, within(0, 1e6), "steps",
              "joint, pipeline, local-sgd, recovery: number of steps at the start whose operations are "
              "written to trace.json in the run directory");
  section.add(
      "decisions", &run.decisions,
      "hogbatch: write decisions.csv, from which `partita train --replay` repeats the run bit for bit "
      "on one rank");
  section.add("timing", &run.timing, "wait after each phase and print where the time is spent");
  // A clock that counts nanoseconds holds nine times as many seconds.
  section.add(
      "watchdog", &run.watchdog, within(0, 1e9), "seconds",
      "end the job if other ranks wait this long for a rank that does not respond, or if ranks wait only "
      "for one another for a tenth of this time; must exceed the longest step; 0: never");
  section.add("device_aware_mpi", choice(run.device_aware_mpi),
              "pass buffers in device memory to MPI; auto: if MPI, or its environment variables, say that it "
              "supports them");
  section.add(
      "precision", choice(run.precision),
      "parameters, gradients and activations: float, or rounded to 16 bits with float master weights");
  section.add("cluster", &run.cluster,
              "description of the cluster; the run uses it to predict its time and memory, and compares them "
              "with the measured values; empty: no prediction");
  return section;
}

/// Adds a parameter that only these choices of another key read, which its text begins with.
void addFor(Section& section, const Condition& only_with, const std::string& key, Target target,
            const std::string& meaning, const Interval& range = {}, const std::string& unit = "") {
  const std::string text = joined(only_with.choices, ", ") + ": " + meaning;
  section.add(key, std::move(target), range, unit, text).only_with = only_with;
}

void addFiles(Section& section, DataSection& data) {
  const Condition idx{"kind", {"idx"}}, hdf5{"kind", {"hdf5"}}, one_file{"kind", {"libsvm", "hdf5", "text"}};
  section.add("path", &data.path, "folder of the data files").only_with = {"kind",
                                                                           {"idx", "libsvm", "hdf5", "text"}};
  addFor(section, idx, "train_images", &data.train_images, "file of the training images");
  addFor(section, idx, "train_labels", &data.train_labels, "file of the training labels");
  addFor(section, idx, "test_images", &data.test_images, "file of the test images");
  addFor(section, idx, "test_labels", &data.test_labels, "file of the test labels");
  addFor(section, one_file, "train_file", &data.train_file, "file of the training set");
  addFor(section, one_file, "test_file", &data.test_file, "file of the test set");
  addFor(section, hdf5, "features", &data.features, "name of the data set with the features");
  addFor(section, hdf5, "labels", &data.labels, "name of the data set with the labels");
  addFor(section, {"kind", {"text"}}, "vocabulary", &data.vocabulary,
         "file of byte pairs, one per line; empty: each byte is a token");
}

void addGenerators(Section& section, DataSection& data) {
  const Condition glyphs{"kind", {"glyphs"}}, noise{"kind", {"noise"}};
  addFor(section, {"kind", {"glyphs", "noise"}}, "image_size", &data.image_size,
         "height and width of the images", within(8, 1024), "pixels");
  addFor(section, noise, "channels", &data.channels, "channels per image", within(1, 1024), "channels");
  addFor(section, noise, "depth", &data.depth, "extent of volumes along depth; 0: images", within(0, 1024),
         "positions");
  addFor(section, glyphs, "distortion", &data.distortion, "scale of the random affine map", within(0, 10));
  addFor(section, glyphs, "noise", &data.noise, "standard deviation of the pixel noise", within(0, 10),
         "of full contrast");
}

Section describeData(DataSection& data) {
  Section section{"data",
                  "Training and test data. Files are in `path`, which is relative to the current folder."};
  section.add("kind", choice(data.kind),
              "built-in generator (glyphs, grammar; noise is for planning and timing) or file format");
  addFiles(section, data);
  addFor(section, {"kind", {"text", "grammar"}}, "sequence", &data.sequence,
         "tokens per sample; the network predicts the next token after each of them", within(1, 1 << 24),
         "tokens");
  section.add(
      "samples", &data.samples, atLeast(0), "samples",
      "use at most this many training samples, the first ones; 0: all, 20000 for glyphs and grammar, 1024 "
      "for noise");
  section.add(
      "test_samples", &data.test_samples, atLeast(0), "samples",
      "use at most this many test samples, the first ones; 0: all, 4000 for glyphs, 1000 for grammar, 256 "
      "for noise");
  section.add("classes", &data.classes, within(0, most_classes), "classes",
              "number of classes; 0: largest label + 1, for libsvm the number of different labels, 47 for "
              "glyphs, 10 for noise, the number of tokens for text and grammar");
  addGenerators(section, data);
  section.add("validation", &data.validation, withinBelow(0, 1), "",
              "fraction of the training set held out for validation");
  section.add("test_fraction", &data.test_fraction, withinBelow(0, 1), "",
              "libsvm, hdf5, text without test_file: fraction of the training set used as the test set; 0: "
              "use the validation set");
  section
      .add("standardise", choice(data.standardise),
           "shift and scale from the training set: one pair for all features, or one per feature; not for "
           "tokens")
      .only_with = {"kind", {"glyphs", "noise", "idx", "libsvm", "hdf5"}};
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
  section.add(
      "initialisation", choice(network.initialisation),
      "distribution of the initial weights: normal with variance 2/inputs (he), 2/(inputs + outputs) "
      "(xavier) or 1/inputs (lecun), or orthonormal rows or columns; biases start at 0, embeddings with "
      "deviation 0.02");
  return section;
}

Section describeTraining(TrainingSection& training) {
  Section section{"training", "The batch and the loss on the true labels."};
  section.add("batch", &training.batch, within(1, 1 << 24), "samples", "samples per step, over all replicas");
  section.add("loss", choice(training.loss), "loss of the whole network, or of the last stage");
  section.add(
      "label_smoothing", &training.label_smoothing, withinBelow(0, 1), "",
      "cross-entropy: fraction of the target spread over all classes, in training only; with sil not in "
      "the losses of earlier stages");
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

void addMoments(Section& section, OptimiserSection& optimiser) {
  const Condition adam{"kind", {"adam", "adamw"}};
  addFor(section, {"kind", {"sgd"}}, "momentum", &optimiser.momentum, "decay factor of the velocity",
         withinBelow(0, 1));
  // Without a condition: other kinds refuse it, so that somebody who overrides a deck has to turn it off.
  section.add("nesterov", &optimiser.nesterov, "sgd: use Nesterov momentum");
  addFor(section, adam, "beta1", &optimiser.beta1, "decay factor of the mean gradient", withinBelow(0, 1));
  addFor(section, adam, "beta2", &optimiser.beta2, "decay factor of the mean square", withinBelow(0, 1));
  addFor(section, adam, "epsilon", &optimiser.epsilon, "added to the root of the mean square",
         within(1e-30, 1));
}

Section describeOptimiser(OptimiserSection& optimiser) {
  Section section{"optimiser", "The update rule and the learning rate schedule."};
  section.add("kind", choice(optimiser.kind), "update rule");
  section.add("learning_rate", &optimiser.learning_rate, within(1e-12, 1e30), "",
              "learning rate after warm-up, before any decay");
  addMoments(section, optimiser);
  section.add(
      "weight_decay", &optimiser.weight_decay, within(0, 1e3), "",
      "decay of all parameters, also of biases and of the factors and shifts of norms; sgd, adam: added to "
      "the gradient after clipping; adamw: decoupled");
  section.add(
      "clip_norm", &optimiser.clip_norm, within(0, 1e30), "",
      "maximum norm of the gradient: of the whole network, or with sil of each stage; 0: no clipping");
  section.add("schedule", choice(optimiser.schedule), "learning rate schedule");
  section.add("warmup_steps", &optimiser.warmup_steps, atLeast(0), "steps",
              "linear rise from 0, over the whole run if that is shorter");
  const Condition step{"schedule", {"step"}};
  addFor(section, step, "step_epochs", &optimiser.step_epochs, "epochs between drops", within(1, 1e9),
         "epochs");
  addFor(section, step, "step_factor", &optimiser.step_factor, "factor of each drop", {0, 1, true});
  addFor(section, {"schedule", {"cosine"}}, "final_fraction", &optimiser.final_fraction,
         "final learning rate / learning_rate", within(0, 1));
  addOffload(section, optimiser);
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
