#pragma once

#include "partita/config/run_config.hpp"
#include "partita/plan/cost/collectives.hpp"

#include <string>
#include <vector>

namespace partita {

/// Links between ranks, by the number of ranks in a ring.
struct LinkTable {
  struct Row {
    std::int64_t ranks = 0; ///< largest ring that the row holds for
    Link link;
  };
  std::vector<Row> rows; ///< sorted by ranks; never empty
  bool assumed = false;  ///< neither measured nor read from a file; not written to one

  /// The link that limits a ring of `ranks` ranks: the first row for at least as many, otherwise the last
  /// row.
  const Link& of(std::int64_t ranks) const;
};

/// ParaDL's contention factors phi in paper mode: how many equal flows share a cable.
struct Contention {
  double data_filter_inside = 1.0; ///< data+filter: exchanges of activations
  double data_filter = 1.0;        ///< data+filter: sums of gradients over the replicas
  double halo = 1.0;               ///< data+spatial
  double gather = 1.0;             ///< data+spatial: before the first layer that is not split
  double leaders = 1.0;            ///< data+spatial: sums of gradients over the replicas
};

/// What is known about one network on a rank of the cluster.
struct NetworkTiming {
  std::string deck;                ///< name of its deck, without folder and suffix
  double seconds_per_sample = 0;   ///< of a training step on one rank; 0: follows from the rank's rate
  std::int64_t spatial_layers = 0; ///< spatial: convolutions that are split; 0: all
  std::int64_t parameters = 0;     ///< finds the network under another name; 0: unknown
  std::int64_t batch = 0;          ///< samples of that step; 0: the batch of the deck in question
  double seconds_per_update = 0.0; ///< of one parameter, by its optimiser; 0: as on average
  double flops_per_sample = 0.0;   ///< of that step; 0: unknown
  std::string precision{};         ///< `run/precision` of that step; empty: unknown

  /// Is the step known to be one of as many FLOPs?
  bool hasFlops(double flops) const;
  /// Are both known, and different?
  bool differsIn(const std::string& its_precision) const {
    return !precision.empty() && !its_precision.empty() && precision != its_precision;
  }
};

/// A measured kernel: the forward and the backward pass of a type of layer, with the shape of KernelShape.
/// Rates are work per second as Effort counts it: FLOPs, plus a number for each value moved.
struct KernelRate {
  std::string type;
  double rows = 1.0, inputs = 1.0, outputs = 1.0, window = 1.0; ///< rows of all samples of the pass
  double forward = 0.0, backward = 0.0;
};

/// The factor by which computing slows down if this many ranks of a node work at once.
struct Concurrency {
  std::int64_t ranks = 1;
  double factor = 1.0;
};

/// How groups of ranks share the cores of a node.
struct CoreSharing {
  std::vector<double> slowdowns; ///< of computing while 0 (not used), 1, 2, ... groups do; empty: none
  std::size_t at_once = 0;       ///< groups that can compute at once; 0: all
};

/// What is known about one network on one rank that works at its own pace: n samples take overhead + n /
/// samples_per_second.
struct WorkerTiming {
  std::string deck;      ///< as NetworkTiming::deck
  std::int64_t rank = 0; ///< of the run
  double overhead = 0.0; ///< seconds per batch
  double samples_per_second = 1.0;
};
/// Overhead and speed from the seconds of a smaller and a larger batch. Without overhead if a fixed part and
/// one per sample cannot explain these.
WorkerTiming workerTiming(std::int64_t small, double small_seconds, std::int64_t large, double large_seconds);

/// A cluster as the cost model sees it. The defaults describe no machine in particular.
struct Cluster {
  std::string name = "a cluster of 4 ranks per node, 1 TFLOP/s per rank, 10 GB/s and 2 us between ranks";
  std::string source = "assumed";
  std::int64_t node_ranks = 4;           ///< ranks per node; in hybrid strategies they share layers
  std::int64_t node_at_once = 0;         ///< ranks of a node that can compute at once; 0: all
  std::int64_t node_cables = 1;          ///< connections of a node to the others
  double memory = 0.0;                   ///< bytes of a rank; 0: no limit
  double flops = 1e12;                   ///< per second and rank
  double bf16_flops = 0.0;               ///< the same for products of such numbers; 0: as fast as of floats
  double fp16_flops = 0.0;               ///< the same
  double seconds_per_update = 0.0;       ///< of one parameter, in networks without a value of their own
  double seconds_per_reduced_byte = 0.0; ///< for the additions of sums over ranks
  double seconds_per_copied_byte = 0.0;  ///< for copies to and from the messages of parts
  double half_size = 16.0;               ///< extent at which a product reaches half of its rate
  double host_bandwidth = 10e9;          ///< bytes per second that offloaded state moves in each direction
  double file_bandwidth = 1e9;           ///< the same for state in files
  bool device = false;                   ///< do ranks compute on a device with memory of its own?
  double overlap = 1.0;                  ///< fraction of a message's time that computing can hide
  LinkTable links{{{0, {2e-6, 1e-10, {}}}}, true};
  LinkTable staged{}; ///< for halos and gathers on another path; no rows: as `links`
  Contention contention{};
  std::vector<NetworkTiming> networks{};
  std::vector<WorkerTiming> workers{};
  std::vector<KernelRate> kernels{};
  std::vector<Concurrency> concurrency{}; ///< sorted by ranks; other measured times are those of a whole node

  /// The rate of products of numbers in this precision; 0: unknown.
  double knownFlops(Precision precision) const {
    return precision == Precision::bf16 ? bf16_flops : precision == Precision::fp16 ? fp16_flops : flops;
  }
  /// Time of computing if this many ranks of a node work, relative to that with all of them. Between measured
  /// numbers, also fractions, it is interpolated.
  double slowdown(double ranks) const;
  /// The same for the groups into which the ranks of a run are divided, relative to that with all of them.
  CoreSharing sharing(std::int64_t groups, std::int64_t ranks) const;
  /// Changing to a plan is worthwhile if it takes less than this fraction of the other one's time.
  /// Smaller differences between predictions mean nothing; predictions are less exact if ranks
  /// share cores.
  double worthwhile(std::int64_t ranks) const { return sharing(ranks, ranks).at_once > 0 ? 0.95 : 0.98; }
  /// The link from stage `group` of `groups` to the next one, if each of `copies` pipelines has ranks that
  /// follow one another. A step waits for the slowest of them, so it lies within a node only if all do.
  const Link& linkAfter(std::int64_t group, std::int64_t groups, std::int64_t copies) const;
  const LinkTable& layerLinks() const { return staged.rows.empty() ? links : staged; }
  /// What is known about a deck with this many parameters (0: unknown), or about another deck with as many;
  /// zeros if neither is known. If a step has other FLOPs per sample (0: unknown), the time per sample is
  /// that of the row times their ratio. Times in another precision (empty: unknown) are left out.
  NetworkTiming timing(const std::string& deck, std::int64_t parameters, double flops_per_sample = 0.0,
                       const std::string& precision = "") const;
  /// The same for one rank; null if nothing is known.
  const WorkerTiming* worker(const std::string& deck, std::int64_t parameters, std::int64_t rank) const;
};

} // namespace partita
