#pragma once

#include "partita/config/batch_rules.hpp"
#include "partita/config/layer_spec.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace partita {

constexpr std::int64_t most_classes = 1000000; ///< limit for decks and for labels in data files
constexpr std::int64_t glyph_classes = 47;     ///< characters that the built-in images show
/// Limit for the steps of a run, all stages and phases together. The product of these steps and the
/// samples or microbatches per step, at most 2^24, is then below 2^63 as well.
constexpr std::int64_t most_run_steps = 100000000000;

/// Everything a deck says, typed and validated: the only form in which the rest of the program sees a deck.
/// Keys, ranges, units and the text of each parameter are declared once, in parameters.cpp and
/// layer_types.cpp.

enum class DataKind { glyphs, grammar, noise, idx, libsvm, hdf5, text };
enum class Standardise { none, scalar, feature };
enum class Initialisation { he, xavier, lecun, orthogonal };
enum class LossKind { cross_entropy, mse };
enum class OptimiserKind { sgd, adam, adamw };
enum class ScheduleKind { constant, step, cosine };
enum class StrategyKind { joint, sil, pipeline, local_sgd, hogbatch };
enum class OuterStep { average, nesterov };
enum class ReplicaMerge { delta, overwrite, average };
enum class SharedUpdate { relaxed, atomic, plain };
enum class StageInput { free, frozen, relay };
enum class LabelKind {
  automatic,
  learned,
  uniform,
  centred,
  gaussian,
  sign,
  binary,
  sparse,
  orthogonal,
  etf,
  block
};
enum class Exits { none, sum, fitted };
enum class StageLoss { mse, prototype };
enum class CutInitialisation { cut, he };
enum class CutRule { flops, memory, list };
enum class PipelineSchedule { message_driven, one_f_one_b, eager_one_f_one_b, gpipe };
enum class PipelineTie { forward_first, backward_first, fifo };
enum class Split { filter, channel, grid, spatial };
enum class Match { automatic, before, after };
enum class Switch { automatic, on, off };
enum class Offload { none, host, file };
enum class Precision { single, bf16, fp16 }; ///< single: `Real`
/// automatic: values between stages as they are stored, sums of gradients in `Real`.
enum class Wire { automatic, single, bf16, fp16 };

struct RunSection {
  std::int64_t seed = 1;
  std::int64_t epochs = 5;         ///< passes over the training set, for each stage
  std::int64_t steps = 0;          ///< steps for each stage; 0: as given by `epochs`
  std::int64_t log_every = 0;      ///< steps between two rows of the history; 0: about 200 rows per run
  std::int64_t evaluate_every = 1; ///< epochs between two evaluations; 0: at the end only
  std::int64_t trace = 0;          ///< number of steps at the start whose schedule goes to trace.json
  bool decisions = false;          ///< hogbatch: write decisions.csv, from which the run can be repeated
  bool timing = false;             ///< fence after each phase and print where the time goes
  std::int64_t watchdog = 600;     ///< seconds a rank may be silent while others wait; 0: no limit
  Switch device_aware_mpi = Switch::automatic; ///< pass device buffers to MPI?
  Precision precision = Precision::single;     ///< in which layers compute
  std::string cluster;                         ///< cluster description for a prediction; empty: none
};

struct DataSection {
  DataKind kind = DataKind::glyphs;
  std::string path;                                     ///< folder of the files below
  std::string train_images, train_labels;               ///< IDX
  std::string test_images, test_labels;                 ///< IDX
  std::string train_file, test_file;                    ///< LIBSVM, HDF5 and text
  std::string features = "features", labels = "labels"; ///< names of the HDF5 data sets
  std::string vocabulary;        ///< text: file of byte pairs; empty: one token per byte
  std::int64_t sequence = 128;   ///< text, grammar: tokens per sample
  std::int64_t samples = 0;      ///< training samples used (first ones); 0: all, glyphs and grammar: 20000
  std::int64_t test_samples = 0; ///< test samples used (first ones); 0: all, glyphs: 4000, grammar: 1000
  std::int64_t classes = 0;      ///< 0: the largest label + 1; glyphs: 47; tokens: the vocabulary
  std::int64_t image_size = 28;  ///< glyphs, noise: pixels per side
  std::int64_t channels = 1;     ///< noise
  std::int64_t depth = 0;        ///< noise: places along depth; 0: images
  double distortion = 1.0;       ///< glyphs: scale of the random affine distortion
  double noise = 0.15;           ///< glyphs: deviation of the pixel noise
  double validation = 0.0;       ///< fraction of the training set held out
  double test_fraction = 0.0;    ///< fraction of the training set used as the test set
  Standardise standardise = Standardise::scalar;
  std::int64_t crop = 0;            ///< training images: zeros on each side before a random crop to the size
  bool flip = false;                ///< training images: mirrored left to right with probability 1/2
  std::int64_t prefetch = 2;        ///< batches prepared ahead by a thread; 0: prepared on demand
  std::optional<std::int64_t> seed; ///< of generated data if not run/seed; not a key of decks

  bool isGenerated() const {
    return kind == DataKind::glyphs || kind == DataKind::grammar || kind == DataKind::noise;
  }
  /// Is part of the training set used as the test set if the deck names no test file?
  bool splits() const { return kind == DataKind::libsvm || kind == DataKind::hdf5 || kind == DataKind::text; }
  bool testsOnValidationSet() const { return splits() && test_file.empty() && test_fraction == 0; }
};

struct NetworkSection {
  std::vector<LayerSpec> layers;
  Initialisation initialisation = Initialisation::he;
};

struct TrainingSection {
  std::int64_t batch = 128; ///< samples per step, over all replicas
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
  Offload offload = Offload::none;       ///< where master weights and moments are stored
  std::int64_t offload_bucket = 4 << 20; ///< parameters that stream through the device at a time
  std::string offload_directory;         ///< file: folder of the files; empty: the run directory
};

/// Synthetic intermediate labels.
struct SilSection {
  StageInput input = StageInput::relay;
  LabelKind labels = LabelKind::automatic;
  LabelKind label_init = LabelKind::automatic; ///< initial value of learned labels
  std::int64_t label_pool = 0;                 ///< learned: side of the windows of places; 0: automatic
  std::int64_t head_depth = -1; ///< later layers with parameters that a head repeats; -1: automatic
  std::vector<LayerSpec> head;  ///< layers before the learned labels
  double kappa = 1.0;           ///< scale of the labels
  StageLoss loss = StageLoss::prototype;
  double temperature = 0.0; ///< prototype; 0: see SilLabels
  Match match = Match::automatic;
  CutInitialisation initialisation = CutInitialisation::cut;
  double cut_gain = 0.1;               ///< factor on the last weights of a stage under cut initialisation
  double noise = 1.0;                  ///< free: sigma, in deviations of the labels
  Switch mixture = Switch::automatic;  ///< free: mixtures of labels as input
  Switch reencode = Switch::automatic; ///< cut activation replaced by posterior x labels
  Switch label_start =
      Switch::automatic;   ///< a later stage of one layer starts as a map that passes the labels on
  double later_rate = 1.0; ///< factor on the learning rate of stages 2..P
  Switch later_hold = Switch::automatic; ///< stages 2..P keep their rate high until near the end
  std::int64_t joint_every = 0; ///< relay: interval of the steps in which gradients cross the cuts; 0: none
  std::int64_t lookahead = 0;   ///< relay: steps between refreshes of the next stage's first layer in a head
  std::int64_t refresh = 0;     ///< relay: steps between refreshes of labels by the weights of the last layer
  double reconstruct = 0.0;     ///< weight of half the mean square error of a reconstructed input
  double transport = 0.0;       ///< weight of half the mean square of what a residual layer adds
  Exits exits = Exits::none;    ///< which predictions of stages the joined network adds up
  std::string cache_directory;  ///< frozen: folder of the spilled activations; empty: the run directory
  std::int64_t recovery_epochs = 0;
  double recovery_rate = 0.5; ///< factor on the learning rate while recovering
};

/// Can the labels of the cuts be trained? Inputs made from labels need fixed ones, and the squared error
/// would shrink them to zero.
inline bool canLearnLabels(const SilSection& sil) {
  return sil.input != StageInput::free && sil.loss == StageLoss::prototype && sil.reencode != Switch::on;
}

inline bool learnsLabels(const SilSection& sil) {
  return sil.labels == LabelKind::learned || (sil.labels == LabelKind::automatic && canLearnLabels(sil));
}

/// Microbatches through joined stages: `joint`, `pipeline`, and the recovery of `sil`.
struct PipelineSection {
  std::int64_t microbatches = 1; ///< parts of a replica's share of a batch, processed in turn
  PipelineSchedule schedule = PipelineSchedule::message_driven;
  std::int64_t limit = 0; ///< most microbatches whose activations a rank keeps; 0: set by the schedule
  PipelineTie tie = PipelineTie::forward_first; ///< message-driven: what is first if both have arrived
  bool caps = false;                            ///< message-driven: lower limits on later ranks
};

/// Replicas that train independently and meet at intervals.
struct LocalSgdSection {
  std::int64_t every = 8; ///< steps from one meeting to the next
  OuterStep outer = OuterStep::average;
  double outer_rate = 0.7;       ///< nesterov
  double outer_momentum = 0.9;   ///< nesterov
  std::int64_t warmup_steps = 0; ///< steps at the start after each of which replicas meet
};

/// Workers of unequal speed that train one model without waiting for one another.
struct HogbatchSection {
  std::int64_t shared_workers = 1; ///< workers from rank 1 on that update the model of their node in place
  ReplicaMerge merge = ReplicaMerge::delta;
  WorkerRule rule = WorkerRule::adaptive;
  std::int64_t lower = 16, upper = 512;            ///< batch of a worker
  std::int64_t lower_shared = 0, upper_shared = 0; ///< batch of a shared worker; 0: like the others
  std::int64_t batch_shared = 0;                   ///< its first batch; 0: training/batch
  double factor = 2.0;                             ///< adaptive: factor by which a batch grows or shrinks
  BatchGrowth growth = BatchGrowth::bounded;       ///< adaptive: when batches change
  double beta = 1.0;                               ///< share of shared updates that survive conflicts
  double rate_cap = 1.0;                           ///< largest factor on the learning rate
  StalenessRule staleness = StalenessRule::none;
  std::int64_t staleness_bound = 100; ///< ringmaster: updates
  SharedUpdate update = SharedUpdate::relaxed;
  std::vector<std::int64_t> slowdown; ///< of each worker; 1 for all others
  std::vector<std::int64_t> speeds;   ///< synchronous: of each worker; empty: measured
  bool tolerate = false;              ///< continue without workers that fail
  std::string replay;                 ///< decisions to repeat; not a key of decks
  std::int64_t replay_batch = 0;      ///< the largest batch of these decisions

  /// Does this worker (0 is rank 1) update the model in place?
  bool isShared(std::size_t worker) const { return static_cast<std::int64_t>(worker) < shared_workers; }
  /// How many times a worker computes each batch.
  std::int64_t slowdownOf(std::size_t worker) const {
    return worker < slowdown.size() ? slowdown[worker] : 1;
  }
  /// Lower bound, upper bound and initial size of a worker's batch.
  struct Bounds {
    std::int64_t lower, upper, start;
  };
  Bounds bounds(bool shared, std::int64_t batch) const {
    if (!shared) return {lower, upper, batch};
    return {lower_shared > 0 ? lower_shared : lower, upper_shared > 0 ? upper_shared : upper,
            batch_shared > 0 ? batch_shared : batch};
  }
  /// The most samples in a pass of any worker.
  std::int64_t largestBatch(std::int64_t batch) const {
    if (rule == WorkerRule::synchronous) return std::max(replay_batch, batch);
    const Bounds others = bounds(false, batch), shared = bounds(shared_workers > 0, batch);
    if (!movesBatches()) return std::max({replay_batch, others.start, shared.start});
    return std::max({replay_batch, others.upper, shared.upper});
  }
  bool movesBatches() const { return rule == WorkerRule::adaptive || rule == WorkerRule::proportional; }
};

/// What all strategies share, and what is specific to each. In a deck they are one section.
struct StrategySection {
  StrategyKind kind = StrategyKind::joint;
  std::int64_t stages = 2;
  std::int64_t replicas = 0; ///< 0: ranks / (stages * parts)
  std::int64_t parts = 1;    ///< ranks that share the layers of a stage
  Split split = Split::grid; ///< what they divide
  /// grid: parts by inputs x by outputs; spatial: parts along each spatial axis; {0}: chosen automatically.
  AxisSizes parts_grid{{0}};
  CutRule cut_rule = CutRule::flops;
  std::vector<std::int64_t> cuts; ///< index of the first layer of stages 2..P, when cut_rule is list
  std::int64_t queue = 4;         ///< batches in flight between two stages
  std::int64_t bucket_kib = 256;  ///< replicas: size of one all-reduce, KiB
  Wire wire = Wire::automatic;    ///< type of values in messages between ranks while training
  SilSection sil;
  PipelineSection pipeline;
  LocalSgdSection local_sgd;
  HogbatchSection hogbatch;
};

struct CheckpointSection {
  std::int64_t every = 0;       ///< steps of the run from one checkpoint to the next; 0: only on request
  std::int64_t keep = 2;        ///< number of latest checkpoints that are kept
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

/// In which activations, and their gradients, are stored between layers. Parts of a stage exchange `Real`.
inline Precision activationPrecision(const RunConfig& config) {
  return config.strategy.parts == 1 ? config.run.precision : Precision::single;
}

/// Are any values rounded to fp16, whose range is so small that they have to be scaled?
inline bool usesFp16(const RunConfig& config) {
  return config.run.precision == Precision::fp16 || config.strategy.wire == Wire::fp16;
}

/// In which gradients are summed over replicas.
inline Precision sumPrecision(const StrategySection& strategy) {
  return strategy.wire == Wire::bf16   ? Precision::bf16
         : strategy.wire == Wire::fp16 ? Precision::fp16
                                       : Precision::single;
}

/// In which activations and their gradients are sent from stage to stage while training.
inline Precision messagePrecision(const RunConfig& config) {
  return config.strategy.wire == Wire::automatic ? activationPrecision(config)
                                                 : sumPrecision(config.strategy);
}

} // namespace partita
