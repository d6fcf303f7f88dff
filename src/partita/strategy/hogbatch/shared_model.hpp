#pragma once

#include "partita/comm/shared_window.hpp"
#include "partita/config/run_config.hpp"
#include "partita/core/types.hpp"
#include "partita/nn/stage.hpp"
#include "partita/plan/hogbatch/update_scale.hpp"

#include <memory>

namespace partita {

/// How one result changes the model: parameters -= rate (gradient + decay parameters), merged as the deck
/// says.
struct ModelChange {
  const Real* gradient = nullptr;
  const Real* parameters = nullptr; ///< that the gradient was computed from; null: the model, in place
  double rate = 0.0, decay = 0.0;
  ReplicaMerge merge = ReplicaMerge::delta;
  SharedUpdate update = SharedUpdate::relaxed;
  StalenessScale staleness; ///< may reduce the rate, or drop the result
  int rank = 0;             ///< of the worker
  std::int64_t number = 0;  ///< of the batch
};

/// Makes the change, with another rate, to `size` values that start at `model`, a multiple of 64 bytes.
void changeModel(const ModelChange& change, double rate, Real* model, std::int64_t size);

/// What became of a result.
struct Applied {
  std::int64_t version = -1;    ///< of the model that was changed; negative: the result was dropped
  std::int64_t staleness = 0;   ///< updates of the model since its gradient's parameters were read
  std::int64_t overwritten = 0; ///< updates of others
  double rate = 0.0;            ///< including the factor for its staleness
};

/// The parameters that asynchronous workers train, in memory that all ranks of a node share, and the number
/// of updates so far. Workers read and change them without locks (Hogwild, arXiv 1106.5730), so a reader may
/// see part of an update. `Lock` prevents this in runs that can be repeated bit for bit.
class SharedModel {
 public:
  /// Bytes of a window for this many values and ranks.
  static std::int64_t bytes(std::int64_t values, int ranks);
  SharedModel(const SharedWindow& window, std::int64_t values, int ranks);

  std::int64_t size() const { return _size; }
  Real* values() const { return _values; }
  /// Memory for a stage that computes directly with the shared parameters.
  GivenMemory memory() const { return {{Precision::single, _values, _size}, {}, {}}; }

  /// Number of updates so far.
  std::int64_t version() const { return __atomic_load_n(_version, __ATOMIC_ACQUIRE); }
  void setVersion(std::int64_t version) const { __atomic_store_n(_version, version, __ATOMIC_RELEASE); }

  /// Copies the parameters. Returns the version at the beginning of the copy.
  std::int64_t read(Real* to) const;
  void write(const Real* from) const;
  /// Makes a change that was computed from version `read`, and counts the update, unless it is too old or the
  /// rank was given up.
  Applied apply(const ModelChange& change, std::int64_t read) const;

  /// The progress of a rank in changing the model by a batch.
  struct Progress {
    bool begun = false, ended = false;
    Applied applied; ///< if `ended`
  };
  /// Gives up a rank, even if its process is still alive: if it has not begun the change by this batch, it
  /// never will. Returns its progress.
  Progress giveUp(int rank, std::int64_t number) const;
  /// Frees the lock if this rank holds it.
  void freeLockOf(int rank) const;

  /// Excludes all other holders of a lock.
  class Lock {
   public:
    /// `wanted`: without it, nothing is locked. Waits while another rank holds the lock.
    Lock(const SharedModel& model, bool wanted, int rank);
    /// For rank 0, which frees the lock of a rank that has died and so must not wait for it: null while
    /// another rank holds the lock.
    static std::unique_ptr<Lock> unlessHeld(const SharedModel& model, bool wanted);
    ~Lock();
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

   private:
    Lock(std::int64_t* held, int rank) : _held(held), _rank(rank) {}
    std::int64_t* _held; ///< null: nothing is locked
    int _rank;
  };

 private:
  struct Mark; ///< of a rank, in the window
  Mark* markOf(int rank) const;
  Applied changed(const ModelChange& change, std::int64_t read) const;

  std::int64_t* _version;
  std::int64_t* _lock; ///< 1 + rank of the holder; 0: free
  char* _marks;
  Real* _values;
  std::int64_t _size;
};

} // namespace partita
