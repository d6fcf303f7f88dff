#pragma once

#include "partita/config/run_config.hpp"
#include "partita/core/stored_vector.hpp"
#include "partita/optim/bucket_stream.hpp"
#include "partita/optim/step_gate.hpp"

#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace partita {

/// Updates the flat parameters of a stage with one fused kernel per bucket, or a single one if the state is
/// on the device.
class Optimiser {
 public:
  struct State {
    std::string name; ///< "momentum", "first_moment", "second_moment"
    StoredVector values;
  };
  /// Called before the gradients from `begin` on are read.
  using GradientWanted = std::function<void(std::int64_t begin)>;

  Optimiser(const OptimiserSection& section, const std::vector<std::string>& states, std::int64_t parameters);
  virtual ~Optimiser();
  Optimiser(const Optimiser&) = delete;
  Optimiser& operator=(const Optimiser&) = delete;

  /// One update of `trained`, which is the same object in every call. Gradients are first multiplied by
  /// `factor`, which is on the device so that clipping does not wait; empty means one. With a `gate`, only
  /// the device knows whether the step is taken; `steps` then counts it until `resume` corrects that.
  void step(const ExecSpace& space, const ParameterBuffers& trained, double rate, const Vector& factor,
            const GradientWanted& wanted = {}, const StepNumbers* gate = nullptr);
  /// The same in disjoint parts, at any time and in any order, if the state is on the device and there is no
  /// `factor`. `begin` precedes the parts of an update.
  void begin(const ParameterBuffers& trained);
  void stepPart(const ExecSpace& space, const ParameterBuffers& trained, double rate, std::int64_t begin,
                std::int64_t end);
  /// Updates only the first values from now on; the others and their state stay as they are.
  void learnOnly(std::int64_t values) { _learning = values; }
  const std::vector<State>& state() const { return _state; }
  /// Bytes that one step reads and writes per parameter in single precision; steps are memory-bound.
  int bytesPerParameter() const { return sizeof(Real) * (3 + 2 * _state.size()); }

  std::int64_t steps() const { return _steps; }
  /// Continues as if `steps` had been taken; the caller fills `state()`.
  void resume(std::int64_t steps) { _steps = steps; }

 protected:
  /// The range [begin, end) of all buffers, on the device.
  struct Part {
    std::int64_t begin, end;
    Real* parameters; ///< the masters, if there are any
    Real* state[2];
    TypedSpan gradients, rounded; ///< `rounded`: the values layers compute with; unused in single precision
    const Real* factor;           ///< one number
    const StepNumbers* gate;      ///< null: the step is taken
    std::int64_t size() const { return end - begin; }
  };
  virtual void update(const ExecSpace& space, const Part& part, double rate) const = 0;
  void updateLearning(const ExecSpace& space, Part part, double rate) const;
  Part partOf(const ParameterBuffers& trained, const BucketStream::Bucket& bucket, const Vector& factor,
              const StepNumbers* gate) const;

  OptimiserSection _section;
  std::int64_t _steps = 0; ///< taken so far, including the current one; used by Adam's bias correction

 private:
  std::vector<State> _state;
  std::int64_t _learning = std::numeric_limits<std::int64_t>::max();
  Vector _one;                           ///< the factor if none is given
  std::unique_ptr<BucketStream> _stream; ///< made by the first step
};

/// SGD with (Nesterov) momentum, Adam (Kingma and Ba, arXiv 1412.6980) or AdamW (Loshchilov and Hutter,
/// 1711.05101). Weight decay is added to the gradient by SGD and Adam, and applied to the parameters by
/// AdamW. The section says where the state is stored.
std::unique_ptr<Optimiser> makeOptimiser(const OptimiserSection& section, std::int64_t parameters);

/// Learning rate of step 0 <= step < steps: linear warm-up, then constant, dropping by `step_factor` every
/// `step_epochs`, or falling on a half cosine to `final_fraction` (Loshchilov and Hutter, arXiv 1608.03983).
double learningRate(const OptimiserSection& optimiser, std::int64_t step, std::int64_t steps,
                    std::int64_t steps_per_epoch);

/// For a stage whose inputs still change while it learns: after the same warm-up,
/// learning_rate (f + (1 - f) (1 - p^4)), where f is `final_fraction` and p rises from 0 to 1 over the rest
/// of the run. It stays high for most of the run and ends where the cosine does.
double heldLearningRate(const OptimiserSection& optimiser, std::int64_t step, std::int64_t steps);

} // namespace partita
