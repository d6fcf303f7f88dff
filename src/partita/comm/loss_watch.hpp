#pragma once

#include "partita/comm/wait.hpp"
#include "partita/core/watched_time.hpp"

#include <atomic>
#include <functional>
#include <optional>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

namespace partita {

/// Ranks are lost, and the others continue without them. Thrown on all remaining ranks, wherever they wait.
class RanksLost : public std::runtime_error {
 public:
  RanksLost(const Communicator& watched, const std::vector<int>& ranks);
  const std::vector<int>& ranks() const { return _ranks; } ///< of the watched communicator

 private:
  std::vector<int> _ranks;
};

/// Notices that other processes of the job have died, so that the remaining ranks can continue without them,
/// or end. MPI libraries do not report this: over shared memory, a message to a dead rank stays in flight
/// forever. So rank 0 looks at the processes of its node (/proc of Linux), and orders all others to leave
/// their waits. A launcher that does not keep the other ranks alive ends the job earlier.
class LossWatch {
 public:
  /// The effect of a loss. A watch that continues the run takes over from one that ends the job.
  enum class After { end, go_on };
  /// `patience`: seconds. A rank that does not reach a wait for this long after a loss is in a call that it
  /// cannot leave, such as opening a file together, and the job ends. `clock`: the seconds since the
  /// construction; empty: those of the system. Collective.
  LossWatch(const Communicator& world, After after, double patience, std::function<double()> clock = {});
  /// For the ranks that remain after a loss under another watch: they start again. Collective on them.
  explicit LossWatch(const LossWatch& before);
  ~LossWatch();
  LossWatch& operator=(const LossWatch&) = delete;

  /// On rank 0: the ranks that have died or were given up so far. Checks a few times per second.
  const std::set<int>& lost();
  /// On rank 0: continues without ranks that do not respond. Returns false if no watch can continue.
  static bool giveUp(const std::vector<int>& ranks);
  /// On rank 0: orders all remaining ranks to throw RanksLost where they wait, and throws it as well.
  [[noreturn]] void leaveTheLost();
  /// On rank 0: until the next call with false, losses are only noted, for a caller that looks at `lost`.
  void hold(bool holds) { _holds = holds; }
  /// The new start is over: from here on, ranks may compute for long between two waits.
  void hasStarted() { _starts = false; }
  /// The results are written: from here on, a loss ends the process at once, with this exit code.
  void resultsAreThere(int code) { _code = code; }
  /// Over the watched ranks.
  const Communicator& ranks() const { return _comm; }

  /// Has this process lost others? Then MPI_Finalize would wait for them forever.
  static bool anyLost();
  /// To be called before this rank ends the job with its message: a launcher that keeps ranks alive if one
  /// dies does so even after MPI_Abort. Ends the visible ranks if this is rank 0 or a watch ends the job.
  static void endOthers();
  /// Ends this process without MPI_Finalize, after all output.
  [[noreturn]] static void leaveProcess(int code);

  /// Does the launcher keep the other ranks alive if one dies?
  static bool launcherGoesOn();

  /// Lasts while all ranks write a file together, which no rank can abandon: a loss then ends the job.
  class Together {
   public:
    Together();
    ~Together();
    Together(const Together&) = delete;
    Together& operator=(const Together&) = delete;
  };

 private:
  static constexpr double between_looks = 0.2; ///< s

  std::vector<int> survivors() const;
  void beginThread();
  void watchInBackground();
  bool isDead(int rank) const;
  double patienceFor(const std::vector<int>& dead) const;
  void look();
  void lookAtRankZero();
  void obey();
  [[noreturn]] void leave();
  std::string names(const std::vector<int>& ranks) const;
  std::string namesOfLost() const { return names({_lost.begin(), _lost.end()}); }
  [[noreturn]] void fail(const std::string& text) const;
  bool filesAreDone();
  double now(); ///< s; the whole job may be suspended after a loss, and then nobody can do anything

  Communicator _comm;
  std::vector<int> _job_ranks = _comm.worldRanks(); ///< asked for early: later MPI may be stuck
  std::vector<double> _processes; ///< by rank: number and start time; number 0: not visible from this rank
  std::set<int> _lost;
  bool _holds = false;
  After _after;
  double _patience;
  bool _ready = false;        ///< every rank knows the processes of all
  std::atomic<int> _code{-1}; ///< if not negative: the results are written
  Clock::time_point _looked;
  WatchedTime _time;
  std::optional<double> _files_since, _alone_since; ///< s
  std::atomic<bool> _left{false};                   ///< RanksLost was thrown: another watch takes over
  std::atomic<bool> _starts{false};
  // For a thread that notices that this one does not reach a wait:
  std::atomic<bool> _ends{false};
  std::atomic<std::int64_t> _calls{0}; ///< of the hook
  std::thread _thread;
  IdleHook _hook;
};

} // namespace partita
