#pragma once

#include "partita/config/layer_spec.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace partita {

constexpr std::int64_t most_classes = 1000000; ///< of a deck and of labels that are read

/// Everything a deck says, typed and validated: the only thing the rest of the program knows of a deck.
/// Keys, ranges, units and the text of each parameter are declared once, in parameters.cpp and
/// layer_types.cpp.

enum class DataKind { glyphs, grammar, noise, idx, libsvm, hdf5, text };
enum class Standardise { none, scalar, feature };
enum class Initialisation { he, xavier, lecun, orthogonal };
enum class LossKind { cross_entropy, mse };
enum class OptimiserKind { sgd, adam, adamw };
enum class ScheduleKind { constant, step, cosine };
enum class StrategyKind { joint, sil, pipeline, local_sgd };
enum class OuterStep { average, nesterov };
enum class StageInput { free, frozen, relay };
enum class LabelKind { uniform, centred, gaussian, sign, binary, sparse, orthogonal, etf, block };
enum class StageLoss { mse, prototype };
enum class CutInitialisation { cut, he };
enum class CutRule { flops, memory, list };
enum class PipelineSchedule { message_driven, one_f_one_b, eager_one_f_one_b, gpipe };
enum class PipelineTie { forward_first, backward_first, fifo };
enum class Match { automatic, before, after };
enum class Switch { automatic, on, off };
enum class Offload { none, host, file };
enum class Precision { single, bf16, fp16 }; ///< single: `Real`

struct RunSection {
  std::int64_t seed = 1;
  std::int64_t epochs = 5;         ///< passes over the training set, for each stage
  std::int64_t steps = 0;          ///< steps for each stage; 0: as many as `epochs` makes
  std::int64_t log_every = 0;      ///< steps between two rows of the history; 0: so that a run has some 200
  std::int64_t evaluate_every = 1; ///< epochs between two evaluations; 0: at the end only
  std::int64_t trace = 0;          ///< first steps whose schedule goes to trace.json
  bool timing = false;             ///< fence after each phase and print where the time goes
  std::int64_t watchdog = 600;     ///< seconds a rank may give no sign while others wait; 0: any time
  Switch device_aware_mpi = Switch::automatic; ///< may MPI be given buffers on the device?
  Precision precision = Precision::single;     ///< of what layers compute with
};

struct DataSection {
  DataKind kind = DataKind::glyphs;
  std::string path;                                     ///< folder of the files below
  std::string train_images, train_labels;               ///< IDX
  std::string test_images, test_labels;                 ///< IDX
  std::string train_file, test_file;                    ///< LIBSVM, HDF5 and text
  std::string features = "features", labels = "labels"; ///< names of the HDF5 data sets
  std::string vocabulary;        ///< text: file of byte pairs; empty: a token is a byte
  std::int64_t sequence = 128;   ///< text, grammar: tokens of a sample
  std::int64_t samples = 0;      ///< training samples used (first ones); 0: all, glyphs and grammar: 20000
  std::int64_t test_samples = 0; ///< test samples used (first ones); 0: all, glyphs: 4000, grammar: 1000
  std::int64_t classes = 0;      ///< 0: the largest label + 1; glyphs: 47; tokens: the vocabulary
  std::int64_t image_size = 28;  ///< glyphs, noise: pixels a side
  std::int64_t channels = 1;     ///< noise
  double distortion = 1.0;       ///< glyphs: scale of the random affine distortion
  double noise = 0.15;           ///< glyphs: deviation of the pixel noise
  double validation = 0.0;       ///< fraction of the training set held out
  double test_fraction = 0.0;    ///< and of the files that becomes the test set, where there is none
  Standardise standardise = Standardise::scalar;
  std::int64_t prefetch = 2; ///< batches made ahead by a thread; 0: made in place
};

struct NetworkSection {
  std::vector<LayerSpec> layers;
  Initialisation initialisation = Initialisation::he;
};

struct TrainingSection {
  std::int64_t batch = 128; ///< samples a step, over all replicas
  LossKind loss = LossKind::cross_entropy;
  double label_smoothing = 0.0;
};

struct OptimiserSection {
  OptimiserKind kind = OptimiserKind::adam;
  double learning_rate = 1e-3;
  double momentum = 0.9;
  bool nesterov = false;
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  double weight_decay = 0.0;
  double clip_norm = 0.0; ///< 0: no clipping
  ScheduleKind schedule = ScheduleKind::cosine;
  std::int64_t warmup_steps = 0;
  std::int64_t step_epochs = 2;          ///< schedule `step`: epochs between two drops
  double step_factor = 0.1;              ///< schedule `step`: factor of each drop
  double final_fraction = 0.0;           ///< schedule `cosine`: last rate / learning_rate
  Offload offload = Offload::none;       ///< where master weights and moments lie
  std::int64_t offload_bucket = 4 << 20; ///< parameters on their way through the device at a time
  std::string offload_directory;         ///< file: folder of the files; empty: the run directory
};

/// Synthetic intermediate labels.
struct SilSection {
  StageInput input = StageInput::relay;
  LabelKind labels = LabelKind::orthogonal;
  double kappa = 1.0; ///< scale of the labels
  StageLoss loss = StageLoss::prototype;
  double temperature = 0.0; ///< prototype; 0: sqrt(width of the cut) * kappa
  Match match = Match::automatic;
  CutInitialisation initialisation = CutInitialisation::cut;
  double cut_gain = 0.1;                  ///< factor on the last weights of a stage under cut initialisation
  double noise = 1.0;                     ///< free: sigma, in deviations of the labels
  Switch mixture = Switch::automatic;     ///< free: mixtures of labels as input
  Switch reencode = Switch::automatic;    ///< cut activation replaced by posterior x labels
  Switch label_start = Switch::automatic; ///< a later stage of one layer starts by passing the labels on
  double later_rate = 1.0;                ///< factor on the learning rate of stages 2..P
  Switch later_hold = Switch::automatic;  ///< stages 2..P keep their rate up until near the end
  std::string cache_directory; ///< frozen: folder of the spilled activations; empty: the run directory
  std::int64_t recovery_epochs = 0;
  double recovery_rate = 0.5; ///< factor on the learning rate while recovering
};

/// Microbatches through joined stages: `joint`, `pipeline`, and the recovery of `sil`.
struct PipelineSection {
  std::int64_t microbatches = 1; ///< parts of a replica's share of a batch, one gradient after another
  PipelineSchedule schedule = PipelineSchedule::message_driven;
  std::int64_t limit = 0; ///< microbatches whose activations a rank keeps at most; 0: the schedule's own
  PipelineTie tie = PipelineTie::forward_first; ///< message-driven: both kinds of message are there
  bool caps = false;                            ///< message-driven: fewer on later ranks
};

/// Replicas that learn alone and meet now and then.
struct LocalSgdSection {
  std::int64_t every = 8; ///< steps from one meeting to the next
  OuterStep outer = OuterStep::average;
  double outer_rate = 0.7;       ///< nesterov
  double outer_momentum = 0.9;   ///< nesterov
  std::int64_t warmup_steps = 0; ///< at the start, in which replicas meet after each step
};

/// What all strategies share, and what each has of its own. In a deck they are one section.
struct StrategySection {
  StrategyKind kind = StrategyKind::joint;
  std::int64_t stages = 2;
  std::int64_t replicas = 0; ///< 0: ranks / stages
  CutRule cut_rule = CutRule::flops;
  std::vector<std::int64_t> cuts;     ///< index of the first layer of stages 2..P, when cut_rule is list
  std::int64_t queue = 4;             ///< batches on their way between two stages
  std::int64_t bucket_kib = 256;      ///< replicas: size of one all-reduce, KiB
  Precision wire = Precision::single; ///< of what ranks send one another while training
  SilSection sil;
  PipelineSection pipeline;
  LocalSgdSection local_sgd;
};

struct CheckpointSection {
  std::int64_t every = 0;       ///< steps of the run from one checkpoint to the next; 0: only when asked for
  std::int64_t keep = 2;        ///< the last ones that are kept
  std::int64_t compression = 0; ///< level of deflate
};

struct RunConfig {
  RunSection run;
  DataSection data;
  NetworkSection network;
  TrainingSection training;
  OptimiserSection optimiser;
  StrategySection strategy;
  CheckpointSection checkpoint;
};

} // namespace partita
