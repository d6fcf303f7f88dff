#include "partita/strategy/hogbatch/shared_model.hpp"

#include "partita/comm/wait.hpp"
#include "partita/core/error.hpp"
#include "partita/strategy/hogbatch/shared_values.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace partita {

namespace {

// The count of updates, the lock, each mark and the values start at a cache line of their own.
constexpr std::int64_t cache_line = 128; // bytes

constexpr std::int64_t vector_values = sizeof(RealVector) / sizeof(Real);
// Lines are requested for writing this many values before they are changed. One that another worker has
// changed then crosses between the cores once, and not first for reading. The distance covers the time of
// that; requests beyond the end cannot fail.
constexpr std::int64_t ahead_values = 512;
constexpr std::int64_t block_values = 1024; ///< that a thread changes at a time; begins at a whole vector

/// Copies shared values that others may change meanwhile; `shared` is aligned to vectors.
void readShared(const Real* shared, Real* to, std::int64_t size) {
  std::int64_t i = 0;
  for (; i + vector_values <= size; i += vector_values) {
    RealVector values{};
    loadShared(shared + i, values);
    std::memcpy(to + i, &values, sizeof values);
  }
  for (; i < size; ++i) loadShared(shared + i, to[i]);
}

/// The reverse.
void writeShared(const Real* from, Real* shared, std::int64_t size) {
  std::int64_t i = 0;
  for (; i + vector_values <= size; i += vector_values) {
    RealVector values{};
    std::memcpy(&values, from + i, sizeof values);
    storeShared(shared + i, values);
  }
  for (; i < size; ++i) storeShared(shared + i, from[i]);
}

/// An atomic sum: exact, whatever others add meanwhile.
void addShared(Real* to, Real value) {
  Real before = 0, after = 0;
  __atomic_load(to, &before, __ATOMIC_RELAXED);
  do {
    after = before + value;
  } while (!__atomic_compare_exchange(to, &before, &after, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
}

using HostRange = Kokkos::RangePolicy<Kokkos::DefaultHostExecutionSpace, Kokkos::IndexType<std::int64_t>>;

/// What a change makes of `Values`, a number or a vector of them. Each product and its sum are one
/// expression, so that they are rounded as those of the optimiser of one rank.
template <ReplicaMerge Merge>
struct ValueChange {
  const Real *gradient, *parameters; // `parameters` null: the model's own
  Real rate, decay;

  template <class Values>
  Values operator()(std::int64_t i, Values now) const {
    Values slope{}, read = now;
    std::memcpy(&slope, gradient + i, sizeof slope);
    if (parameters != nullptr) std::memcpy(&read, parameters + i, sizeof read);
    if constexpr (Merge == ReplicaMerge::delta) return now - rate * (slope + decay * read);
    const Values next = read - rate * (slope + decay * read);
    return Merge == ReplicaMerge::overwrite ? next : Real(0.5) * (now + next);
  }
};

/// Changes a block of the model. What others change meanwhile may be lost. `Shared`: they see each value as a
/// whole.
template <bool Shared, class Change>
struct BlockKernel {
  Change change;
  Real* model;
  std::int64_t size, blocks, first;

  void operator()(std::int64_t number) const {
    const std::int64_t block = (first + number) % blocks;
    const std::int64_t end = std::min(size, (block + 1) * block_values);
    std::int64_t i = block * block_values;
    for (; i + vector_values <= end; i += vector_values) changeAt<RealVector>(i);
    for (; i < end; ++i) changeAt<Real>(i);
  }

 private:
  template <class Values>
  void changeAt(std::int64_t i) const {
    Values now{};
    if constexpr (Shared) {
      __builtin_prefetch(model + i + ahead_values, 1);
      loadShared(model + i, now);
      storeShared(model + i, change(i, now));
    } else {
      std::memcpy(&now, model + i, sizeof now);
      now = change(i, now);
      std::memcpy(model + i, &now, sizeof now);
    }
  }
};

struct AtomicKernel {
  ValueChange<ReplicaMerge::delta> change;
  Real* model;

  void operator()(std::int64_t i) const {
    Real read = 0;
    if (change.parameters == nullptr)
      __atomic_load(model + i, &read, __ATOMIC_RELAXED);
    else
      read = change.parameters[i];
    addShared(model + i, -(change.rate * (change.gradient[i] + change.decay * read)));
  }
};

template <class Kernel>
void runOnHost(const Kernel& kernel, std::int64_t iterations) {
  const Kokkos::DefaultHostExecutionSpace host;
  Kokkos::parallel_for("partita::SharedModel::change_kernel", HostRange(host, 0, iterations), kernel);
}

/// Workers that change the model at the same time begin at different blocks, and do not need the same lines.
template <bool Shared, class Change>
void changeBlocks(const Change& change, int rank, Real* model, std::int64_t size) {
  constexpr double golden = 0.618; // its multiples are far apart between 0 and 1
  const std::int64_t blocks = (size + block_values - 1) / block_values;
  const double place = golden * rank;
  const auto first = static_cast<std::int64_t>((place - std::floor(place)) * static_cast<double>(blocks));
  runOnHost(BlockKernel<Shared, Change>{change, model, size, blocks, first}, blocks);
}

/// A rank that stopped for long may have been given up, and another one may hold its lock.
void release(std::int64_t* lock, int rank) {
  std::int64_t holder = rank + 1;
  __atomic_compare_exchange_n(lock, &holder, 0, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

} // namespace

void changeModel(const ModelChange& change, double rate, Real* model, std::int64_t size) {
  const auto *const gradient = change.gradient, *const parameters = change.parameters;
  const auto step = static_cast<Real>(rate), decay = static_cast<Real>(change.decay);
  const ReplicaMerge merge = parameters != nullptr ? change.merge : ReplicaMerge::delta;
  if (merge == ReplicaMerge::overwrite)
    return changeBlocks<true>(ValueChange<ReplicaMerge::overwrite>{gradient, parameters, step, decay},
                              change.rank, model, size);
  if (merge == ReplicaMerge::average)
    return changeBlocks<true>(ValueChange<ReplicaMerge::average>{gradient, parameters, step, decay},
                              change.rank, model, size);
  const ValueChange<ReplicaMerge::delta> added{gradient, parameters, step, decay};
  if (change.update == SharedUpdate::atomic) return runOnHost(AtomicKernel{added, model}, size);
  if (change.update == SharedUpdate::relaxed) return changeBlocks<true>(added, change.rank, model, size);
  changeBlocks<false>(added, change.rank, model, size);
}

/// The batch whose change a rank has begun and ended: its number plus one, or zero for none. `begun` is
/// `forbidden` once the rank may begin no further change.
struct SharedModel::Mark {
  static constexpr std::int64_t forbidden = -1;
  std::int64_t begun, ended;
  Applied applied;
};

std::int64_t SharedModel::bytes(std::int64_t values, int ranks) {
  static_assert(sizeof(Mark) <= cache_line, "ranks write their marks side by side");
  return (2 + ranks) * cache_line + values * static_cast<std::int64_t>(sizeof(Real));
}

SharedModel::SharedModel(const SharedWindow& window, std::int64_t values, int ranks) : _size(values) {
  PARTITA_REQUIRE(window.data() != nullptr && window.bytes() >= bytes(values, ranks),
                  "a window that does not hold the model");
  auto* const begin = static_cast<char*>(window.data());
  _version = reinterpret_cast<std::int64_t*>(begin);
  _lock = reinterpret_cast<std::int64_t*>(begin + cache_line);
  _marks = begin + 2 * cache_line;
  _values = reinterpret_cast<Real*>(_marks + ranks * cache_line);
}

SharedModel::Mark* SharedModel::markOf(int rank) const {
  return reinterpret_cast<Mark*>(_marks + rank * cache_line);
}

SharedModel::Progress SharedModel::giveUp(int rank, std::int64_t number) const {
  Mark& mark = *markOf(rank);
  std::int64_t begun = __atomic_load_n(&mark.begun, __ATOMIC_ACQUIRE);
  // If the change begins at this moment, the exchange fails and `begun` gets its number.
  if (begun != number + 1)
    __atomic_compare_exchange_n(&mark.begun, &begun, Mark::forbidden, false, __ATOMIC_SEQ_CST,
                                __ATOMIC_ACQUIRE);
  Progress progress;
  progress.begun = begun == number + 1;
  progress.ended = __atomic_load_n(&mark.ended, __ATOMIC_ACQUIRE) == number + 1;
  if (progress.ended) progress.applied = mark.applied;
  return progress;
}

void SharedModel::freeLockOf(int rank) const {
  release(_lock, rank);
}

std::int64_t SharedModel::read(Real* to) const {
  const std::int64_t begin = version();
  readShared(_values, to, _size);
  return begin;
}

void SharedModel::write(const Real* from) const {
  writeShared(from, _values, _size);
}

Applied SharedModel::apply(const ModelChange& change, std::int64_t read) const {
  Mark& mark = *markOf(change.rank);
  std::int64_t before = __atomic_load_n(&mark.begun, __ATOMIC_RELAXED);
  if (before == Mark::forbidden || !__atomic_compare_exchange_n(&mark.begun, &before, change.number + 1,
                                                                false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
    return {};
  mark.applied = changed(change, read);
  __atomic_store_n(&mark.ended, change.number + 1, __ATOMIC_RELEASE);
  return mark.applied;
}

Applied SharedModel::changed(const ModelChange& change, std::int64_t read) const {
  Applied applied;
  applied.staleness = version() - read;
  const double factor = change.staleness.factor(applied.staleness);
  if (!(factor > 0.0)) return applied;
  applied.rate = change.rate * factor;
  changeModel(change, applied.rate, _values, _size);
  applied.version = __atomic_fetch_add(_version, 1, __ATOMIC_ACQ_REL);
  applied.staleness = applied.version - read; // others may have changed the model meanwhile
  if (change.parameters != nullptr && change.merge == ReplicaMerge::overwrite)
    applied.overwritten = applied.version - read;
  return applied;
}

SharedModel::Lock::Lock(const SharedModel& model, bool wanted, int rank)
    : _held(wanted ? model._lock : nullptr), _rank(rank) {
  if (_held == nullptr) return;
  Waiting waiting({WaitedFor::Kind::any, "lock of the model"}); // answers others: the holder may have stopped
  for (std::int64_t free = 0;
       !__atomic_compare_exchange_n(_held, &free, rank + 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
       free = 0)
    waiting.pause();
  waiting.over();
}

std::unique_ptr<SharedModel::Lock> SharedModel::Lock::unlessHeld(const SharedModel& model, bool wanted) {
  std::int64_t free = 0;
  if (wanted &&
      !__atomic_compare_exchange_n(model._lock, &free, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
    return nullptr;
  return std::unique_ptr<Lock>(new Lock(wanted ? model._lock : nullptr, 0));
}

SharedModel::Lock::~Lock() {
  if (_held != nullptr) release(_held, _rank);
}

} // namespace partita
