#include "partita/optim/optimiser.hpp"

#include "partita/core/loops.hpp"
#include "partita/core/math.hpp"
#include "partita/core/region.hpp"

#include <cmath>

namespace partita {

namespace {

// The kernels hold bare pointers: the reference counts of views would keep the host compiler from
// vectorising.

KOKKOS_INLINE_FUNCTION Real clipped(const Real* gradients, const Real* factor, std::int64_t i) {
  return factor != nullptr ? gradients[i] * *factor : gradients[i];
}

struct SgdKernel {
  Real* parameters;
  const Real *gradients, *factor; // no factor: one
  Real* velocity;                 // none: no momentum
  Real rate, momentum, decay;
  bool nesterov;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i) const {
    Real direction = clipped(gradients, factor, i) + decay * parameters[i];
    if (velocity != nullptr) {
      velocity[i] = momentum * velocity[i] + direction;
      direction = nesterov ? direction + momentum * velocity[i] : velocity[i];
    }
    parameters[i] -= rate * direction;
  }
};

class Sgd : public Optimiser {
 public:
  Sgd(const OptimiserSection& section, std::int64_t parameters) : _section(section) {
    if (section.momentum > 0.0) _velocity = Vector("partita::Sgd::velocity", parameters);
  }

  void step(const ExecSpace& space, const Vector& parameters, const Vector& gradients, double rate,
            const Vector& factor) override {
    const Region region(space, "partita::Sgd::step", Phase::optimiser);
    ++_steps;
    forEachValue(space, "partita::Sgd::step_kernel", static_cast<std::int64_t>(parameters.extent(0)),
                 SgdKernel{parameters.data(), gradients.data(), factor.data(), _velocity.data(),
                           static_cast<Real>(rate), static_cast<Real>(_section.momentum),
                           static_cast<Real>(_section.weight_decay), _section.nesterov});
  }
  std::vector<State> state() const override {
    return _velocity.size() > 0 ? std::vector<State>{{"momentum", _velocity}} : std::vector<State>{};
  }
  int bytesAParameter() const override {
    return static_cast<int>(sizeof(Real)) * (_velocity.size() > 0 ? 5 : 3);
  }

 private:
  OptimiserSection _section;
  Vector _velocity;
};

struct AdamKernel {
  Real* parameters;
  const Real *gradients, *factor; // no factor: one
  Real *first, *second;
  Real beta1, beta2, rate, epsilon, inverse_correction2, coupled_decay, decoupled_factor;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i) const {
    const Real p = parameters[i], g = clipped(gradients, factor, i) + coupled_decay * p;
    const Real m = beta1 * first[i] + (1 - beta1) * g;
    const Real v = beta2 * second[i] + (1 - beta2) * g * g;
    first[i] = m;
    second[i] = v;
    parameters[i] = decoupled_factor * p - rate * m / (sqrt(v * inverse_correction2) + epsilon);
  }
};

class Adam : public Optimiser {
 public:
  Adam(const OptimiserSection& section, std::int64_t parameters)
      : _section(section), _first("partita::Adam::first_moment", parameters),
        _second("partita::Adam::second_moment", parameters) {}

  void step(const ExecSpace& space, const Vector& parameters, const Vector& gradients, double rate,
            const Vector& factor) override {
    const Region region(space, "partita::Adam::step", Phase::optimiser);
    const auto t = static_cast<double>(++_steps);
    const double correction1 = 1.0 - std::pow(_section.beta1, t),
                 correction2 = 1.0 - std::pow(_section.beta2, t);
    const bool decoupled = _section.kind == OptimiserKind::adamw;
    const double decay = _section.weight_decay;
    forEachValue(space, "partita::Adam::step_kernel", static_cast<std::int64_t>(parameters.extent(0)),
                 AdamKernel{parameters.data(), gradients.data(), factor.data(), _first.data(), _second.data(),
                            static_cast<Real>(_section.beta1), static_cast<Real>(_section.beta2),
                            static_cast<Real>(rate / correction1), static_cast<Real>(_section.epsilon),
                            static_cast<Real>(1.0 / correction2), static_cast<Real>(decoupled ? 0.0 : decay),
                            static_cast<Real>(decoupled ? 1.0 - rate * decay : 1.0)});
  }
  std::vector<State> state() const override { return {{"first_moment", _first}, {"second_moment", _second}}; }
  int bytesAParameter() const override { return static_cast<int>(sizeof(Real)) * 7; }

 private:
  OptimiserSection _section;
  Vector _first, _second;
};

} // namespace

std::unique_ptr<Optimiser> makeOptimiser(const OptimiserSection& section, std::int64_t parameters) {
  if (section.kind == OptimiserKind::sgd) return std::make_unique<Sgd>(section, parameters);
  return std::make_unique<Adam>(section, parameters);
}

std::vector<std::string> optimiserStates(const OptimiserSection& section) {
  std::vector<std::string> names;
  for (const Optimiser::State& state : makeOptimiser(section, 1)->state()) names.push_back(state.name);
  return names;
}

} // namespace partita
