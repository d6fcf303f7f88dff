#pragma once

#include "partita/comm/grid.hpp"
#include "partita/comm/part_exchange.hpp"
#include "partita/comm/replica_reduce.hpp"
#include "partita/nn/loss.hpp"
#include "partita/nn/reencode.hpp"
#include "partita/nn/stage.hpp"

#include <optional>

namespace partita {

/// What a stage of the joined network keeps of a batch for the backward pass.
struct JoinedTape : Tape {
  /// The output re-encoded, stored like the output, and the posterior; empty where the activation itself
  /// crosses the cut.
  TypedRows encoded;
  Matrix posterior;

  /// What the next stage gets: the output, or its re-encoding.
  TypedMatrix joinedOutput() const {
    return encoded.empty() ? output() : encoded.shaped(rows, output().columns);
  }
};

/// One stage on this rank with all that belongs to it: its loss, the labels of the cut after it, its place in
/// the joined network.
struct LocalStage {
  LocalStage(const RunConfig& config, const StagePlan& plan, std::int64_t classes, std::int64_t capacity)
      : LocalStage(config, plan, plan, classes, capacity) {}
  /// `own`: this rank's part of the stage, see `ownStage`; `given`: see StageStorage.
  LocalStage(const RunConfig& config, const StagePlan& whole, const StagePlan& own, std::int64_t classes,
             std::int64_t capacity, const GivenMemory& given = {});

  /// Connects the stage with its other parts; `grid` must outlive the stage.
  void connectParts(Grid& grid);
  /// Makes the stage share statistics with the other replicas; `grid` must outlive the stage.
  void connectReplicas(Grid& grid);

  /// Do messages of its parts from now on belong to training? Only these are counted.
  void countTraffic(bool counts) {
    if (parts != nullptr) parts->countTraffic(counts);
  }

  int index() const { return stage.plan().index; }
  bool last() const { return stage.plan().last(); }

  /// Another tape like `tape`, for batches of up to `capacity` rows.
  JoinedTape makeTape(std::int64_t capacity) const;
  /// Forward pass within the joined network: the stage, and the re-encoding of its output if the cut has one.
  TypedMatrix forwardJoined(const ExecSpace& space, const Pass& pass, const TypedMatrix& in, JoinedTape& on);
  TypedMatrix forwardJoined(const ExecSpace& space, const Pass& pass, const TypedMatrix& in) {
    return forwardJoined(space, pass, in, tape);
  }
  /// The second half of `forwardJoined`, after `stage.forward`.
  void encode(const ExecSpace& space, const Pass& pass, const JoinedTape& on);
  /// dJ/d(joined output) -> gradients, and dJ/din unless `grad_in` is empty; uses the tape of
  /// `forwardJoined`.
  void backwardJoined(const ExecSpace& space, const Pass& pass, const TypedMatrix& in, const JoinedTape& on,
                      const TypedMatrix& grad_out, const TypedMatrix& grad_in,
                      const Stage::GradientReady& ready);

  /// The output on a tape as losses, labels and decoders read it: if they need `Real`, and it is stored in 16
  /// bits, a copy that is valid until the next call.
  TypedMatrix outputForLoss(const ExecSpace& space, const Tape& on) const;
  /// The stage's own prediction from its `output`: the logits of its head or of its fixed labels; for the
  /// last stage and for the squared error the output itself. Valid until the next call.
  TypedMatrix predict(const ExecSpace& space, const Pass& pass, const TypedMatrix& output);
  /// Adds the stage's own loss on `output` to the score. Returns dJ/doutput, in a work buffer of the stage,
  /// and computes the gradients of the head. `ready` is as in `Stage::backward`.
  TypedMatrix lossGradient(const ExecSpace& space, const Pass& pass, const TypedMatrix& output,
                           const Targets& targets, const DeviceFactor& weight,
                           const Stage::GradientReady& ready = {});

  SilLabels labels; ///< fixed labels of the cut after the stage; empty for the last stage and without labels
  Stage stage;
  std::unique_ptr<LabelDecoder> decoder; ///< of fixed labels; null: none, or the squared error
  Tape head_tape;
  /// Fitted weight of the stage's prediction in a joined network that adds them up; none: all are equal.
  std::optional<double> exit_weight;
  std::unique_ptr<Reencode> reencode; ///< null: the activation itself crosses the cut
  JoinedTape tape;
  Score score;
  std::unique_ptr<Loss> loss; ///< the stage's own; null if it gets its gradient from the next stage
  std::unique_ptr<ReplicaReduce> replicas; ///< null: one replica, or a stage without statistics
  std::unique_ptr<PartExchange> parts;     ///< null: one part

 private:
  Matrix perLabel(const Matrix& values) const; ///< reshaped to one row per label

  Matrix _real_output; ///< empty if nothing needs a copy of the output
};

/// The Pass of a training step of a replica, which determines its random numbers.
Pass trainingPass(const RunConfig& config, const Grid& grid, std::int64_t step);

/// The most samples in one pass through a stage: a replica's share of the batch, or a microbatch of it.
std::int64_t passCapacity(const RunConfig& config, int replicas);

/// Labels of the cut after stage `cut`, the same on every rank.
SilLabels labelsOfCut(const RunConfig& config, std::int64_t classes, std::int64_t width, int cut,
                      const ImageLayout& layout = {});

/// The stages this rank owns, in order; `given`: memory for the first one, see StageStorage.
std::vector<std::unique_ptr<LocalStage>> makeLocalStages(const RunConfig& config, const Partition& partition,
                                                         Grid& grid, std::int64_t classes,
                                                         const GivenMemory& given = {});

} // namespace partita
