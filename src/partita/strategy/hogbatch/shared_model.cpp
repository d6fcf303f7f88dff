#include "partita/strategy/hogbatch/shared_model.hpp"

#include "partita/core/error.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <thread>

namespace partita {

namespace {

// The count of updates, the lock, each mark and the values start at a cache line of their own.
constexpr std::int64_t cache_line = 128; // bytes

/// Eight bytes of values. Relaxed atomic access to all of them at once takes half as many instructions as
/// four bytes at a time.
using Word [[gnu::may_alias]] = std::uint64_t;
constexpr std::int64_t per_word = sizeof(Word) / sizeof(Real);
constexpr std::int64_t block_values = 512; ///< size of private copies, which stay in the cache

/// Copies shared values that others may change meanwhile; `from` is aligned to words.
void readShared(const Real* from, Real* to, std::int64_t size) {
  const std::int64_t whole = size / per_word * per_word;
#pragma GCC unroll 8
  for (std::int64_t i = 0; i < whole; i += per_word) {
    const Word word = __atomic_load_n(reinterpret_cast<const Word*>(from + i), __ATOMIC_RELAXED);
    std::memcpy(to + i, &word, sizeof(word));
  }
  for (std::int64_t i = whole; i < size; ++i) __atomic_load(from + i, to + i, __ATOMIC_RELAXED);
}

/// The reverse; `to` is aligned to words.
void writeShared(const Real* from, Real* to, std::int64_t size) {
  const std::int64_t whole = size / per_word * per_word;
#pragma GCC unroll 8
  for (std::int64_t i = 0; i < whole; i += per_word) {
    Word word = 0;
    std::memcpy(&word, from + i, sizeof(word));
    __atomic_store_n(reinterpret_cast<Word*>(to + i), word, __ATOMIC_RELAXED);
  }
  for (std::int64_t i = whole; i < size; ++i) {
    Real value = from[i];
    __atomic_store(to + i, &value, __ATOMIC_RELAXED);
  }
}

/// An atomic sum: exact, whatever others add meanwhile.
void addShared(Real* to, Real value) {
  Real before = 0, after = 0;
  __atomic_load(to, &before, __ATOMIC_RELAXED);
  do {
    after = before + value;
  } while (!__atomic_compare_exchange(to, &before, &after, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
}

/// Prefetches shared values that will be changed soon, for writing. Another core may have changed them last:
/// a line fetched for reading would have to be fetched again before it is written.
void expectChange([[maybe_unused]] const Real* values, [[maybe_unused]] std::int64_t size) {
#if defined(__GNUC__)
  constexpr std::int64_t line = 64 / sizeof(Real);
  for (std::int64_t i = 0; i < size; i += line) __builtin_prefetch(values + i, 1);
#endif
}

using HostRange = Kokkos::RangePolicy<Kokkos::DefaultHostExecutionSpace, Kokkos::IndexType<std::int64_t>>;

/// Changes a block of the model, or a copy that is written back. What others change meanwhile may be lost.
struct BlockChange {
  const Real *gradient, *parameters; // `parameters` null: the model's own
  Real rate, decay;
  ReplicaMerge merge;

  void operator()(std::int64_t first, std::int64_t size, Real* own) const {
    const Real step = rate, shrink = decay;
    switch (merge) {
    case ReplicaMerge::delta:
      return each(first, size, own, [step, shrink](Real now, Real read, Real slope) {
        return now - step * (slope + shrink * read);
      });
    case ReplicaMerge::overwrite:
      return each(first, size, own, [step, shrink](Real, Real read, Real slope) {
        return read - step * (slope + shrink * read);
      });
    case ReplicaMerge::average:
      return each(first, size, own, [step, shrink](Real now, Real read, Real slope) {
        return Real(0.5) * (now + (read - step * (slope + shrink * read)));
      });
    }
  }

 private:
  template <class Next>
  void each(std::int64_t first, std::int64_t size, Real* own, Next next) const {
    const Real* const slope = gradient + first;
    if (parameters == nullptr) { // a second pointer to `own` would look like aliasing to the compiler
      for (std::int64_t i = 0; i < size; ++i) own[i] = next(own[i], own[i], slope[i]);
    } else {
      const Real* const read = parameters + first;
      for (std::int64_t i = 0; i < size; ++i) own[i] = next(own[i], read[i], slope[i]);
    }
  }
};

struct RelaxedKernel {
  BlockChange change;
  Real* model;
  std::int64_t size;

  void operator()(std::int64_t block) const {
    const std::int64_t first = block * block_values, count = std::min(block_values, size - first);
    std::array<Real, block_values> own;
    expectChange(model + first + count, std::min(block_values, size - first - count));
    readShared(model + first, own.data(), count);
    change(first, count, own.data());
    writeShared(own.data(), model + first, count);
  }
};

struct AtomicKernel {
  BlockChange change;
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

struct PlainKernel {
  BlockChange change;
  Real* model;
  std::int64_t size;

  void operator()(std::int64_t block) const {
    const std::int64_t first = block * block_values;
    change(first, std::min(block_values, size - first), model + first);
  }
};

template <class Kernel>
void runOnHost(const Kernel& kernel, std::int64_t iterations) {
  const Kokkos::DefaultHostExecutionSpace host;
  Kokkos::parallel_for("partita::SharedModel::change_kernel", HostRange(host, 0, iterations), kernel);
}

} // namespace

void changeModel(const ModelChange& change, double rate, Real* model, std::int64_t size) {
  const bool replica = change.parameters != nullptr;
  const BlockChange values{change.gradient, change.parameters, static_cast<Real>(rate),
                           static_cast<Real>(change.decay), replica ? change.merge : ReplicaMerge::delta};
  const std::int64_t blocks = (size + block_values - 1) / block_values;
  if (values.merge != ReplicaMerge::delta || change.update == SharedUpdate::relaxed)
    return runOnHost(RelaxedKernel{values, model, size}, blocks);
  if (change.update == SharedUpdate::atomic) return runOnHost(AtomicKernel{values, model}, size);
  runOnHost(PlainKernel{values, model, size}, blocks);
}

/// The batch whose change a rank has begun and ended: its number plus one, or zero for none.
struct SharedModel::Mark {
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

SharedModel::Progress SharedModel::progressOf(int rank, std::int64_t number) const {
  const Mark& mark = *markOf(rank);
  Progress progress;
  progress.begun = __atomic_load_n(&mark.begun, __ATOMIC_ACQUIRE) == number + 1;
  progress.ended = __atomic_load_n(&mark.ended, __ATOMIC_ACQUIRE) == number + 1;
  if (progress.ended) progress.applied = mark.applied;
  return progress;
}

void SharedModel::freeLockOf(int rank) const {
  std::int64_t holder = rank + 1;
  __atomic_compare_exchange_n(_lock, &holder, 0, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

std::int64_t SharedModel::read(Real* to) const {
  const std::int64_t begin = version();
  readShared(_values, to, _size);
  return begin;
}

void SharedModel::write(const Real* from) const {
  writeShared(from, _values, _size);
}

Applied SharedModel::apply(const ModelChange& change, std::int64_t read, const StalenessScale& scale) const {
  if (change.rank < 0) return applyUnmarked(change, read, scale);
  Mark& mark = *markOf(change.rank);
  __atomic_store_n(&mark.begun, change.number + 1, __ATOMIC_SEQ_CST);
  mark.applied = applyUnmarked(change, read, scale);
  __atomic_store_n(&mark.ended, change.number + 1, __ATOMIC_RELEASE);
  return mark.applied;
}

Applied SharedModel::applyUnmarked(const ModelChange& change, std::int64_t read,
                                   const StalenessScale& scale) const {
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

SharedModel::Lock::Lock(const SharedModel& model, bool wanted, int rank)
    : _held(wanted ? model._lock : nullptr) {
  if (_held == nullptr) return;
  for (std::int64_t free = 0;
       !__atomic_compare_exchange_n(_held, &free, rank + 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
       free = 0)
    std::this_thread::yield();
}

SharedModel::Lock::~Lock() {
  if (_held != nullptr) __atomic_store_n(_held, 0, __ATOMIC_RELEASE);
}

} // namespace partita
