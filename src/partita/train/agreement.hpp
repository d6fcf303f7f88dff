#pragma once

#include "partita/comm/mailbox.hpp"
#include "partita/core/clock.hpp"
#include "partita/train/pace.hpp"

#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <optional>

namespace partita {

/// What all ranks do together after a step.
struct Wishes {
  std::int64_t stop = 0; ///< the run ends: the reason, a number defined by the caller; the largest one wins
  std::int64_t checkpoint = 0; ///< 1: a checkpoint is taken

  bool any() const { return stop != 0 || checkpoint != 0; }
  void add(const Wishes& others);
};

/// Lets ranks at different steps agree on one step after which all do the same. Any rank may send a wish at
/// any time; rank 0 collects wishes for a tenth of a second, since a signal reaches the ranks one after
/// another. Then:
///
/// 1. Rank 0 sends a proposal to all ranks.
/// 2. Each rank answers with a promise: the last step that it completes before it knows the decision. This is
///    the step under way, or the one just completed. The rank stops after that step until the decision
///    arrives.
/// 3. When rank 0 has all promises, it sends the decision to all ranks: the largest of the promised steps.
/// 4. Every rank continues to that step and acts after it.
///
/// No rank waits forever. A rank that computes answers after its step, and a rank that waits for others
/// answers while it waits, so every proposal is followed by its decision, whatever the ranks wait for. No
/// rank has gone beyond the decided step when it is chosen, and from the decision until that step the
/// agreement stops no rank. Rank 0 makes no new proposal before it has acted; other ranks may still be on
/// their way to the earlier step, and keep both decisions. If the decided step is the last step of the run,
/// some ranks may already have left it: then nothing is done. Rank 0 makes no proposal after its last step.
/// Wishes of the last steps are thus left over; whoever lets the ranks meet at the end can fulfil them.
class Agreement {
 public:
  /// Covers the steps after run step `first`, which is done, up to `last`. `ask` returns the new wishes of
  /// this rank; it is called about once per millisecond, after steps and during waits. Mailbox and pace must
  /// outlive the object.
  Agreement(Mailbox& mailbox, Pace& pace, std::int64_t first, std::int64_t last, std::function<Wishes()> ask);

  /// To be called after each step. Waits if this rank is too far ahead or has promised to stop here. Returns
  /// what all ranks do after this step.
  Wishes meet(std::int64_t step);

  /// On rank 0, after it has met for the last time: does a rank still wish for a checkpoint, as far as is
  /// known?
  bool leavesCheckpoint() const { return _wanted.checkpoint != 0; }

  /// Ends all sending and answering. All ranks must have met for the last time.
  void end() { _hook.reset(); }

 private:
  struct Letter {
    enum class Kind { wish, proposal, promise, decision };
    Kind kind;
    std::int64_t number; ///< of the proposal; in a wish: of the last decision that its rank has acted on
    std::int64_t step;
    Wishes wishes;
  };
  static constexpr std::int64_t unbounded = std::numeric_limits<std::int64_t>::max();

  void look();
  void lookIfDue();
  bool mayLeave() const;
  Wishes act();
  void take(const Letter& letter);
  void takeWish(const Letter& wish);
  void promise();
  void decide();
  bool proposeIfDue();
  bool collects() const;
  void sendToAll(const Letter& letter);

  Mailbox& _mailbox;
  Pace& _pace;
  std::int64_t _step, _last;
  std::function<Wishes()> _ask;
  Clock::time_point _looked;
  bool _between = false; ///< the step is done and the next one has not begun
  std::int64_t _promise = unbounded;
  std::deque<Letter> _decisions; ///< not acted on yet
  std::int64_t _acted = 0;       ///< number of the last decision that was acted on
  bool _stopped = false;
  // Used by rank 0 only.
  Wishes _wanted;
  Clock::time_point _wanted_since;
  std::int64_t _proposal = 0, _kept = 0; ///< numbers of the latest proposal and of the last checkpoint's
  int _missing = 0;                      ///< promises not yet received
  std::int64_t _furthest = 0;            ///< largest promise received
  std::optional<IdleHook> _hook;
};

} // namespace partita
