#pragma once

#include "partita/comm/wait.hpp"

#include <atomic>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

namespace partita {

/// Ranks are lost, and the others go on without them. Thrown wherever a rank waits, by all that are left.
class RanksLost : public std::runtime_error {
 public:
  explicit RanksLost(const std::vector<int>& ranks);
  const std::vector<int>& ranks() const { return _ranks; }

 private:
  std::vector<int> _ranks;
};

/// Notices that other processes of the job have died, so that the ranks that are left can go on without them,
/// or end. MPI libraries do not tell: over shared memory, a message to a dead rank stays under way for ever.
/// So rank 0 looks at the processes of its node (/proc of Linux), and orders all others to leave their waits.
/// Where the launcher does not let the others live, it ends the job before.
class LossWatch {
 public:
  /// What a loss leads to. A watch that goes on takes over from one that ends the job.
  enum class After { end, go_on };
  /// `patience`: seconds. A rank that does not come to a wait for so long after a loss is in a call that it
  /// cannot leave, such as opening a file together, and the job ends. Collective.
  LossWatch(const Communicator& world, After after, double patience);
  /// For the ranks that another watch has left. Collective on them.
  explicit LossWatch(const LossWatch& before);
  ~LossWatch();
  LossWatch& operator=(const LossWatch&) = delete;

  /// On rank 0: the ranks that have died or were given up so far. Looks a few times per second.
  const std::set<int>& lost();
  /// On rank 0: goes on without ranks that give no sign. Returns false if no watch goes on without any.
  static bool giveUp(const std::vector<int>& ranks);
  /// On rank 0: orders all ranks that are left to throw RanksLost where they wait, and throws it as well.
  [[noreturn]] void leaveTheLost();
  /// On rank 0: until the next call with false, losses are only noted, for a caller that looks at `lost`.
  void hold(bool holds) { _holds = holds; }
  /// The results are there: from here on, a loss ends the process at once, with this exit code.
  void resultsAreThere(int code) { _code = code; }
  /// Of the ranks that it watches.
  const Communicator& ranks() const { return _comm; }

  /// Has this process lost others? Then MPI_Finalize would wait for them for ever.
  static bool anyLost();
  /// Before this rank ends the job with its message: a launcher that lets ranks live if one dies does so even
  /// after MPI_Abort. Ends those that are to be seen, if this is rank 0 or a watch ends the job.
  static void endOthers();
  /// Ends this process without MPI_Finalize, after all output.
  [[noreturn]] static void leaveProcess(int code);

  /// Was the launcher told to let the others live if a rank dies?
  static bool launcherGoesOn();

  /// While all ranks write a file together, which nobody can leave: a loss then ends the job.
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
  void look();
  void lookAtRankZero();
  void obey();
  [[noreturn]] void leave();
  [[noreturn]] void fail(const std::string& text) const;
  bool filesAreDone();

  Communicator _comm;
  std::vector<double> _processes; ///< by rank: number and start time; number 0: not visible from this rank
  std::set<int> _lost;
  bool _holds = false;
  After _after;
  double _patience;
  bool _ready = false; ///< every rank knows the processes of all
  int _code = -1;      ///< if not negative: the results are there
  Clock::time_point _looked, _files_since{}, _alone_since{};
  std::atomic<bool> _left{false}; ///< RanksLost was thrown: another watch takes over
  // For a thread that notices that this one does not come to a wait:
  std::atomic<bool> _ends{false};
  std::atomic<std::int64_t> _calls{0}; ///< of the hook
  std::thread _thread;
  IdleHook _hook;
};

} // namespace partita
