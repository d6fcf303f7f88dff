#include "partita/optim/optimiser.hpp"

#include "partita/core/loops.hpp"
#include "partita/core/math.hpp"
#include "partita/core/region.hpp"
#include "partita/plan/stage_memory.hpp"

#include <algorithm>
#include <cmath>

namespace partita {

namespace {

// The kernels hold bare pointers, because the reference counts of views keep the host compiler from
// vectorising. An optional factor would do the same: large kernels cannot vectorise a conditional load.
// `Stored` is the type of gradients and of the parameters that layers compute with.

template <class Stored>
KOKKOS_INLINE_FUNCTION Real clipped(const Stored* gradients, const Real* factor, std::int64_t i) {
  return toReal(gradients[i]) * *factor;
}

/// Stores a new parameter, and its rounded copy if layers use one.
template <class Stored>
KOKKOS_INLINE_FUNCTION void put(Real value, Real* parameters, Stored* rounded, std::int64_t i) {
  parameters[i] = value;
  if constexpr (!is_real<Stored>) rounded[i] = fromReal<Stored>(value);
}

/// A kernel that does nothing if the step is left out, with numbers that only the device knows.
template <class Kernel>
struct Gated {
  Kernel kernel;
  const StepNumbers* gate;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i) const {
    if (gate->left_out != 0) return;
    Kernel own = kernel;
    own.take(*gate);
    own(i);
  }
};

/// Calls run(kernel), or run(the kernel behind its gate).
template <class Kernel, class Run>
void withGate(const StepNumbers* gate, const Kernel& kernel, const Run& run) {
  if (gate == nullptr)
    run(kernel);
  else
    run(Gated<Kernel>{kernel, gate});
}

template <class Stored>
struct SgdKernel {
  Real* parameters;
  Stored* rounded;
  const Stored* gradients;
  const Real* factor;
  Real* velocity; // null: no momentum
  Real rate, momentum, decay;
  bool nesterov;

  KOKKOS_INLINE_FUNCTION void take(const StepNumbers&) {}
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i) const {
    const Real p = parameters[i];
    Real direction = clipped(gradients, factor, i) + decay * p;
    if (velocity != nullptr) {
      velocity[i] = momentum * velocity[i] + direction;
      direction = nesterov ? direction + momentum * velocity[i] : velocity[i];
    }
    put(p - rate * direction, parameters, rounded, i);
  }
};

class Sgd : public Optimiser {
 public:
  using Optimiser::Optimiser;

 private:
  void update(const ExecSpace& space, const Part& part, double rate) const override {
    const Region region(space, "partita::Sgd::step", Phase::optimiser);
    withStored(part.gradients.precision, [&](auto stored) {
      using Stored = decltype(stored);
      const SgdKernel<Stored> kernel{part.parameters,
                                     static_cast<Stored*>(part.rounded.data),
                                     static_cast<const Stored*>(part.gradients.data),
                                     part.factor,
                                     part.state[0],
                                     static_cast<Real>(rate),
                                     static_cast<Real>(_section.momentum),
                                     static_cast<Real>(_section.weight_decay),
                                     _section.nesterov};
      withGate(part.gate, kernel, [&](const auto& body) {
        forEachValue(space, "partita::Sgd::step_kernel", part.size(), body);
      });
    });
  }
};

template <class Stored>
struct AdamKernel {
  Real* parameters;
  Stored* rounded;
  const Stored* gradients;
  const Real* factor;
  Real *first, *second;
  Real beta1, beta2, share1, share2; ///< of the old moments, and of what is new
  Real rate, epsilon, inverse_correction2, coupled_decay, decoupled_factor;

  KOKKOS_INLINE_FUNCTION void take(const StepNumbers& numbers) {
    rate = numbers.rate;
    inverse_correction2 = numbers.inverse_correction2;
  }
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i) const {
    const Real p = parameters[i], g = clipped(gradients, factor, i) + coupled_decay * p;
    const Real m = beta1 * first[i] + share1 * g;
    const Real v = beta2 * second[i] + share2 * g * g;
    first[i] = m;
    second[i] = v;
    put(decoupled_factor * p - rate * m / (sqrt(v * inverse_correction2) + epsilon), parameters, rounded, i);
  }
};

class Adam : public Optimiser {
 public:
  using Optimiser::Optimiser;

 private:
  void update(const ExecSpace& space, const Part& part, double rate) const override {
    const Region region(space, "partita::Adam::step", Phase::optimiser);
    const auto t = static_cast<double>(_steps);
    const double correction1 = 1.0 - std::pow(_section.beta1, t),
                 correction2 = 1.0 - std::pow(_section.beta2, t);
    const bool decoupled = _section.kind == OptimiserKind::adamw;
    const double decay = _section.weight_decay;
    withStored(part.gradients.precision, [&](auto stored) {
      using Stored = decltype(stored);
      const AdamKernel<Stored> kernel{part.parameters,
                                      static_cast<Stored*>(part.rounded.data),
                                      static_cast<const Stored*>(part.gradients.data),
                                      part.factor,
                                      part.state[0],
                                      part.state[1],
                                      static_cast<Real>(_section.beta1),
                                      static_cast<Real>(_section.beta2),
                                      static_cast<Real>(1.0 - _section.beta1),
                                      static_cast<Real>(1.0 - _section.beta2),
                                      static_cast<Real>(rate / correction1),
                                      static_cast<Real>(_section.epsilon),
                                      static_cast<Real>(1.0 / correction2),
                                      static_cast<Real>(decoupled ? 0.0 : decay),
                                      static_cast<Real>(decoupled ? 1.0 - rate * decay : 1.0)};
      withGate(part.gate, kernel, [&](const auto& body) {
        forEachValue(space, "partita::Adam::step_kernel", part.size(), body);
      });
    });
  }
};

} // namespace

Optimiser::Optimiser(const OptimiserSection& section, const std::vector<std::string>& states,
                     std::int64_t parameters)
    : _section(section), _one("partita::Optimiser::one", 1) {
  Kokkos::deep_copy(ExecSpace(), _one, Real(1));
  fence(ExecSpace(), "partita::Optimiser::one");
  const Placement placement = placementOf(section);
  for (const std::string& name : states)
    _state.push_back({name, StoredVector(placement, "partita::Optimiser::" + name, parameters)});
}

Optimiser::~Optimiser() = default;

void Optimiser::begin(const ParameterBuffers& trained) {
  ++_steps;
  if (_stream != nullptr) return;
  std::vector<StoredVector> vectors{trained.masters};
  bool offloaded = trained.masters.offloaded();
  for (const State& state : _state) {
    vectors.push_back(state.values);
    offloaded = offloaded || state.values.offloaded();
  }
  const std::int64_t size = trained.parameters.size;
  _stream =
      std::make_unique<BucketStream>(size, std::move(vectors), offloaded ? _section.offload_bucket : size);
}

Optimiser::Part Optimiser::partOf(const ParameterBuffers& trained, const BucketStream::Bucket& bucket,
                                  const Vector& factor, const StepNumbers* gate) const {
  const TypedSpan values = trained.parameters.part(bucket.begin, bucket.end);
  const bool own_masters = trained.masters.size() > 0;
  return {bucket.begin,
          bucket.end,
          own_masters ? bucket.values[0] : static_cast<Real*>(values.data),
          {bucket.values[1], bucket.values[2]},
          trained.gradients.part(bucket.begin, bucket.end),
          values,
          factor.size() > 0 ? factor.data() : _one.data(),
          gate};
}

void Optimiser::updateLearning(const ExecSpace& space, Part part, double rate) const {
  part.end = std::min(part.end, _learning);
  if (part.size() > 0) update(space, part, rate);
}

void Optimiser::step(const ExecSpace& space, const ParameterBuffers& trained, double rate,
                     const Vector& factor, const GradientWanted& wanted, const StepNumbers* gate) {
  begin(trained);
  _stream->run(space, [&](const BucketStream::Bucket& bucket) {
    if (wanted) wanted(bucket.begin);
    updateLearning(space, partOf(trained, bucket, factor, gate), rate);
  });
}

void Optimiser::stepPart(const ExecSpace& space, const ParameterBuffers& trained, double rate,
                         std::int64_t begin, std::int64_t end) {
  updateLearning(space, partOf(trained, _stream->onDevice(begin, end), Vector(), nullptr), rate);
}

std::unique_ptr<Optimiser> makeOptimiser(const OptimiserSection& section, std::int64_t parameters) {
  const std::vector<std::string> states = optimiserStates(section);
  if (section.kind == OptimiserKind::sgd) return std::make_unique<Sgd>(section, states, parameters);
  return std::make_unique<Adam>(section, states, parameters);
}

namespace {

/// Progress 0..1 after the warm-up, or the factor during the warm-up.
struct Progress {
  bool warming;
  double value;
};

Progress progressAt(const OptimiserSection& optimiser, std::int64_t step, std::int64_t steps) {
  const std::int64_t warmup = std::min(optimiser.warmup_steps, steps);
  if (step < warmup) return {true, static_cast<double>(step + 1) / static_cast<double>(warmup)};
  return {false, static_cast<double>(step - warmup) /
                     static_cast<double>(std::max<std::int64_t>(1, steps - warmup))};
}

} // namespace

double learningRate(const OptimiserSection& optimiser, std::int64_t step, std::int64_t steps,
                    std::int64_t steps_per_epoch) {
  const double base = optimiser.learning_rate;
  const Progress progress = progressAt(optimiser, step, steps);
  if (progress.warming) return base * progress.value;
  switch (optimiser.schedule) {
  case ScheduleKind::step: {
    const std::int64_t drops = step / std::max<std::int64_t>(1, optimiser.step_epochs * steps_per_epoch);
    return base * std::pow(optimiser.step_factor, static_cast<double>(drops));
  }
  case ScheduleKind::cosine: {
    const double wave = 0.5 * (1.0 + std::cos(3.14159265358979323846 * progress.value));
    return base * (optimiser.final_fraction + (1.0 - optimiser.final_fraction) * wave);
  }
  case ScheduleKind::constant:
    break;
  }
  return base;
}

double heldLearningRate(const OptimiserSection& optimiser, std::int64_t step, std::int64_t steps) {
  const double base = optimiser.learning_rate, last = optimiser.final_fraction;
  const Progress progress = progressAt(optimiser, step, steps);
  if (progress.warming) return base * progress.value;
  return base * (last + (1.0 - last) * (1.0 - std::pow(progress.value, 4)));
}

} // namespace partita
