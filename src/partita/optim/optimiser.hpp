#pragma once

#include "partita/config/run_config.hpp"
#include "partita/core/types.hpp"

#include <memory>
#include <string>
#include <vector>

namespace partita {

/// One fused kernel over the flat parameters of a stage. The state is flat views of the same length.
class Optimiser {
 public:
  struct State {
    std::string name; ///< "momentum", "first_moment", "second_moment"
    Vector values;
  };

  virtual ~Optimiser() = default;
  /// One update of `parameters` from `gradients`. `factor` multiplies the gradients first and lies on the
  /// device, so that clipping waits for nobody; empty means one.
  virtual void step(const ExecSpace& space, const Vector& parameters, const Vector& gradients, double rate,
                    const Vector& factor) = 0;
  virtual std::vector<State> state() const = 0;
  /// Bytes that one step reads and writes for each parameter: the step is bound by memory.
  virtual int bytesAParameter() const = 0;

  std::int64_t steps() const { return _steps; }
  /// Goes on as if `steps` had been taken; their state is put into `state()` by the caller.
  void resume(std::int64_t steps) { _steps = steps; }

 protected:
  std::int64_t _steps = 0; ///< taken so far; Adam's bias correction counts them
};

/// SGD with (Nesterov) momentum, Adam (Kingma and Ba, arXiv 1412.6980) or AdamW (Loshchilov and Hutter,
/// 1711.05101). Weight decay is added to the gradient by SGD and Adam, and applied to the parameters by
/// AdamW.
std::unique_ptr<Optimiser> makeOptimiser(const OptimiserSection& section, std::int64_t parameters);

/// Names of the state of such an optimiser, in order.
std::vector<std::string> optimiserStates(const OptimiserSection& section);

} // namespace partita
