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

/// What is done by all ranks together after a step.
struct Wishes {
  std::int64_t stop = 0;       ///< the run ends: why, a number of the caller; the largest counts
  std::int64_t checkpoint = 0; ///< 1: the state is kept

  bool any() const { return stop != 0 || checkpoint != 0; }
  void add(const Wishes& others);
};

/// Ranks at different steps agree on one of them, after which all do the same. Any rank may wish at any time;
/// rank 0 collects wishes for a tenth of a second, since a signal reaches ranks one after another. Then:
///
/// 1. Rank 0 sends a proposal to all ranks.
/// 2. A rank answers with a promise: the last step that it completes before it knows the decision. This is
///    the step under way, or the one just completed. It stops after that step until the decision comes.
/// 3. When rank 0 has all promises, it sends the decision to all: the largest of the promised steps.
/// 4. Every rank goes on to that step and acts after it.
///
/// No rank waits for ever. A rank that computes answers after its step, and one that waits for others answers
/// while it waits, so that every proposal is followed by its decision, whatever ranks wait for. The decided
/// step is one that no rank has left yet, and from the decision until then no rank stops because of it. Rank
/// 0 proposes nothing new before it has acted; others may still be on their way to the earlier step, and keep
/// both decisions. Where the decided step is the last one of the run, some ranks may have left it already:
/// then nothing is done. Rank 0 proposes nothing after its last step.
class Agreement {
 public:
  /// Ranks of unequal step numbers act as soon as they hear the decision.
  enum class Meeting { after_same_step, at_once };

  /// From the run step `first`, which is done, to `last`. `ask` says what this rank newly wishes for; it is
  /// asked about once a millisecond, after steps and during waits. Mailbox and pace outlive it.
  Agreement(Mailbox& mailbox, Pace& pace, std::int64_t first, std::int64_t last, std::function<Wishes()> ask,
            Meeting meeting = Meeting::after_same_step);

  /// To be called after each step. Waits where this rank is too fast or has promised to. Returns what all
  /// ranks do after this step.
  Wishes meet(std::int64_t step);

  /// Nothing is sent or answered from here on. Every rank has to have met for the last time.
  void end() { _hook.reset(); }

 private:
  struct Letter {
    enum class Kind { wish, proposal, promise, decision };
    Kind kind;
    std::int64_t number; ///< of the proposal; of a wish: of the last decision that its rank has acted on
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
  void tellAll(const Letter& letter);

  Mailbox& _mailbox;
  Pace& _pace;
  std::int64_t _step, _last;
  std::function<Wishes()> _ask;
  Meeting _meeting;
  Clock::time_point _looked;
  bool _between = false; ///< the step is done and the next one not begun
  std::int64_t _promise = unbounded;
  std::deque<Letter> _decisions; ///< not acted on yet
  std::int64_t _acted = 0;       ///< number of the last decision that was acted on
  bool _stopped = false;
  // Of rank 0.
  Wishes _wanted;
  Clock::time_point _wanted_since;
  std::int64_t _proposal = 0, _kept = 0; ///< number of the latest one, and of the last checkpoint's
  int _missing = 0;                      ///< promises that are not there yet
  std::int64_t _furthest = 0;            ///< of those that are
  std::optional<IdleHook> _hook;
};

} // namespace partita
