#pragma once

#include "partita/core/stored_vector.hpp"
#include "partita/nn/layer_chain.hpp"
#include "partita/nn/reconstruction.hpp"
#include "partita/plan/stage_plan.hpp"

namespace partita {

/// Memory that a stage uses instead of its own, such as a window that ranks share or a part of a larger
/// buffer. The stage neither copies nor frees it. The stage allocates whatever is empty here.
struct GivenMemory {
  TypedSpan parameters = {}, gradients = {}; ///< aligned, `StagePlan::storedValues` in the stage's precision
  TypedSpan statistics = {};                 ///< `StagePlan::statistics` in single precision
};

/// The precision in which a stage's parameters and gradients are stored, and where they lie.
struct StageStorage {
  Precision precision = Precision::single;
  Placement masters;      ///< of 16-bit parameters
  GivenMemory given = {}; ///< must outlive the stage
};

/// Consecutive layers over ONE flat parameter buffer and ONE flat gradient buffer: an optimiser is one
/// kernel, an all-reduce is one call, a checkpoint is one data set.
class Stage {
 public:
  using GradientReady = LayerChain::GradientReady;
  using ParametersWanted = LayerChain::ParametersWanted;

  /// `values`: the starting parameters, see `initialValues`. `capacity`: rows of the largest batch. Throws
  /// InternalError if memory that is given has another size or precision or is not aligned.
  Stage(const StagePlan& plan, const std::vector<Real>& values, std::int64_t capacity,
        const StageStorage& storage = {});
  Stage(Stage&&) = default; // a copy would share the buffers

  /// Starting parameters of a stage, in the order of its flat buffer. They depend only on (seed, place of
  /// each layer in the whole network).
  static std::vector<Real> initialValues(const StagePlan& plan, std::uint64_t seed);

  /// Seed of the random numbers that layers draw in training.
  void setSeed(std::uint64_t seed) { _seed = seed; }

  const StagePlan& plan() const { return _plan; }
  /// In single precision; empty otherwise.
  const Vector& parameters() const { return _parameters; }
  const Vector& gradients() const { return _gradients; }
  /// The parameters as the optimiser trains them and checkpoints keep them, wherever they are stored.
  const StoredVector& masters() const { return _masters; }
  ParameterBuffers trained() const;                                    ///< for an optimiser
  std::int64_t ownParameters() const { return _chain.storedValues(); } ///< before those of head and decoder
  void setParameters(const ExecSpace& space, const Real* values);      ///< all of them, from the host
  /// Some of them, from the device: the values of the flat buffer from number `begin` on.
  void setParameters(const ExecSpace& space, std::int64_t begin, const Vector& values);
  const std::vector<StageTensor>& tensors() const { return _tensors; }
  /// State that forward passes update during training and that has no gradient; also one flat
  /// buffer.
  const Vector& statistics() const { return _statistics; }
  const std::vector<StageTensor>& statisticsTensors() const { return _statistics_tensors; }
  /// For layers that use the batch of all replicas; must outlive the stage's passes.
  void setReplicas(const ReplicaReduce* replicas) { _replicas = replicas; }
  /// For the layers that this stage shares with other parts of it; must outlive the stage's passes.
  void setParts(PartExchange* parts) { _parts = parts; }
  /// Called by each forward pass, layer by layer, to wait for parameters that are updated late; empty: never.
  void setParametersWanted(ParametersWanted wanted) { _wanted = std::move(wanted); }
  std::int64_t inputs() const { return _chain.inputs(); }
  std::int64_t outputs() const { return _chain.outputs(); }
  /// The precisions of the input, the output and their gradients. An input may also be `Real`.
  Precision inputPrecision() const { return _chain.inputPrecision(); }
  Precision outputPrecision() const { return _plan.layers.back().outputPrecision(); }

  bool hasHead() const { return !_head.empty(); }

  Tape makeTape(std::int64_t capacity) const { return _chain.makeTape(capacity); }
  Tape makeHeadTape(std::int64_t capacity) const { return _head.makeTape(capacity); }

  /// in [rows, inputs()] -> output [rows, outputs()], which lives on the tape.
  TypedMatrix forward(const ExecSpace& space, const Pass& pass, const TypedMatrix& in, Tape& tape);

  /// The work buffer in which a loss leaves dJ/doutput for `backward`, [rows, outputs()].
  Matrix outputGradient(std::int64_t rows) const;
  /// The same buffer for a gradient that is stored like the output.
  TypedMatrix gradientFor(const TypedMatrix& output) const;

  /// dJ/doutput (overwritten), `Real` or stored like the output -> the flat gradients, and dJ/din if
  /// `grad_in` is not empty.
  void backward(const ExecSpace& space, const Pass& pass, const TypedMatrix& in, const Tape& tape,
                const TypedMatrix& grad_out, const TypedMatrix& grad_in, const GradientReady& ready = {});

  /// The stage's own prediction from its output `out`: logits [rows, labels * classes] on `tape`.
  Matrix forwardHead(const ExecSpace& space, const Pass& pass, const Matrix& out, Tape& tape);
  /// The work buffer in which a loss leaves dJ/dlogits for `backwardHead`.
  Matrix logitGradient(const Matrix& logits) const;
  /// dJ/dlogits (overwritten) -> the gradients of the head, and dJ/doutput in `outputGradient`.
  void backwardHead(const ExecSpace& space, const Pass& pass, const Matrix& out, const Tape& tape,
                    const Matrix& grad_logits, const GradientReady& ready = {});
  /// Adds the gradient of the reconstruction error, see `Reconstruction`, to `grad`, the gradient of the
  /// output; both are `Real`. `weight`: of a sample. Does nothing without a decoder. Call between
  /// `backwardHead` and `backward`.
  void addReconstruction(const ExecSpace& space, const Pass& pass, const TypedMatrix& in,
                         const TypedMatrix& out, const DeviceFactor& weight, const TypedMatrix& grad,
                         const GradientReady& ready = {});
  /// In place of `backwardHead` and `addReconstruction` in a step without the stage's own loss: the gradients
  /// of head and decoder are zero.
  void skipHead(const ExecSpace& space, const GradientReady& ready);

 private:
  using Halves = Kokkos::View<std::uint16_t*, Kokkos::LayoutRight, MemSpace>;
  void makeNumbers(const StageStorage& storage, std::int64_t size, std::int64_t capacity);
  void makeStatistics(const TypedSpan& given);
  Pass completed(Pass pass) const;
  static GradientReady shifted(const GradientReady& ready, std::int64_t by);

  StagePlan _plan;
  LayerChain _chain, _head;
  std::unique_ptr<Reconstruction> _decoder; ///< null: none
  std::vector<StageTensor> _tensors, _statistics_tensors;
  Precision _precision;
  Vector _parameters, _gradients, _statistics;
  Halves _halves, _gradient_halves; ///< in place of parameters and gradients
  StoredVector _masters;
  const ReplicaReduce* _replicas = nullptr;
  PartExchange* _parts = nullptr;
  ParametersWanted _wanted;
  Vector _work[2]; ///< gradients of activations in the backward pass, used in turn
  Vector _scratch; ///< shared by all layers, one at a time
  std::uint64_t _seed = 0;
};

} // namespace partita
