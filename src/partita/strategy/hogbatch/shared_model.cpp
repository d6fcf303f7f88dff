#include "partita/strategy/hogbatch/shared_model.hpp"

#include "partita/core/error.hpp"

#include <thread>

namespace partita {

namespace {

// The count of updates, the lock and the values begin in cache lines of their own.
constexpr std::int64_t cache_line = 128; // bytes

/// One value of the model, changed by `ModelChange`.
struct HogbatchChange {
  Real* model;
  const Real *gradient, *parameters; // `parameters` null: the model's own
  Real rate, decay;

  Real direction(std::int64_t i, Real own) const {
    return gradient[i] + decay * (parameters == nullptr ? own : parameters[i]);
  }

  void relaxed(std::int64_t i) const {
    const Real own = relaxedLoad(model + i);
    relaxedStore(model + i, own - rate * direction(i, own));
  }
  void atomic(std::int64_t i) const { atomicAdd(model + i, -(rate * direction(i, relaxedLoad(model + i)))); }
  void plain(std::int64_t i) const { model[i] = model[i] - rate * direction(i, model[i]); }
  void overwrite(std::int64_t i) const {
    const Real read = parameters == nullptr ? relaxedLoad(model + i) : parameters[i];
    relaxedStore(model + i, read - rate * direction(i, read));
  }
  void average(std::int64_t i) const {
    const Real own = relaxedLoad(model + i), read = parameters == nullptr ? own : parameters[i];
    relaxedStore(model + i, Real(0.5) * (own + (read - rate * direction(i, read))));
  }
};

using HostRange = Kokkos::RangePolicy<Kokkos::DefaultHostExecutionSpace, Kokkos::IndexType<std::int64_t>>;
using Member = void (HogbatchChange::*)(std::int64_t) const;

template <Member How>
struct HogbatchKernel {
  HogbatchChange change;
  void operator()(std::int64_t i) const { (change.*How)(i); }
};

template <Member How>
void changeAll(const HogbatchChange& change, std::int64_t size) {
  const Kokkos::DefaultHostExecutionSpace host;
  Kokkos::parallel_for("partita::SharedModel::change_kernel", HostRange(host, 0, size),
                       HogbatchKernel<How>{change});
}

} // namespace

void changeModel(const ModelChange& change, double rate, Real* model, std::int64_t size) {
  const HogbatchChange values{model, change.gradient, change.parameters, static_cast<Real>(rate),
                              static_cast<Real>(change.decay)};
  const bool replica = change.parameters != nullptr;
  if (replica && change.merge == ReplicaMerge::overwrite)
    return changeAll<&HogbatchChange::overwrite>(values, size);
  if (replica && change.merge == ReplicaMerge::average)
    return changeAll<&HogbatchChange::average>(values, size);
  switch (change.update) {
  case SharedUpdate::relaxed:
    return changeAll<&HogbatchChange::relaxed>(values, size);
  case SharedUpdate::atomic:
    return changeAll<&HogbatchChange::atomic>(values, size);
  case SharedUpdate::plain:
    return changeAll<&HogbatchChange::plain>(values, size);
  }
}

std::int64_t SharedModel::bytes(std::int64_t values) {
  return 2 * cache_line + values * static_cast<std::int64_t>(sizeof(Real));
}

SharedModel::SharedModel(const SharedWindow& window, std::int64_t values) : _size(values) {
  PARTITA_REQUIRE(window.data() != nullptr && window.bytes() >= bytes(values),
                  "a window that does not hold the model");
  auto* const begin = static_cast<char*>(window.data());
  _version = reinterpret_cast<std::int64_t*>(begin);
  _lock = reinterpret_cast<std::int64_t*>(begin + cache_line);
  _values = reinterpret_cast<Real*>(begin + 2 * cache_line);
}

std::int64_t SharedModel::read(Real* to) const {
  const std::int64_t begin = version();
  for (std::int64_t i = 0; i < _size; ++i) to[i] = relaxedLoad(_values + i);
  return begin;
}

void SharedModel::write(const Real* from) const {
  for (std::int64_t i = 0; i < _size; ++i) relaxedStore(_values + i, from[i]);
}

Applied SharedModel::apply(const ModelChange& change, std::int64_t read, const StalenessScale& scale) const {
  Applied applied;
  applied.staleness = version() - read;
  const double factor = scale.factor(applied.staleness);
  if (!(factor > 0.0)) return applied;
  applied.rate = change.rate * factor;
  changeModel(change, applied.rate, _values, _size);
  applied.version = __atomic_fetch_add(_version, 1, __ATOMIC_ACQ_REL);
  if (change.parameters != nullptr && change.merge == ReplicaMerge::overwrite)
    applied.lost = applied.version - read;
  return applied;
}

SharedModel::Lock::Lock(const SharedModel& model, bool wanted) : _held(wanted ? model._lock : nullptr) {
  if (_held == nullptr) return;
  while (__atomic_exchange_n(_held, 1, __ATOMIC_ACQUIRE) != 0) std::this_thread::yield();
}

SharedModel::Lock::~Lock() {
  if (_held != nullptr) __atomic_store_n(_held, 0, __ATOMIC_RELEASE);
}

} // namespace partita
