#include "partita/train/agreement.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace partita {

namespace {

constexpr std::chrono::milliseconds between_looks{1}, collecting{100};

} // namespace

void Wishes::add(const Wishes& others) {
  stop = std::max(stop, others.stop);
  checkpoint = std::max(checkpoint, others.checkpoint);
}

Agreement::Agreement(Mailbox& mailbox, Pace& pace, std::int64_t first, std::int64_t last,
                     std::function<Wishes()> ask)
    : _mailbox(mailbox), _pace(pace), _step(first), _last(last), _ask(std::move(ask)) {
  _hook.emplace([this] { lookIfDue(); });
}

Wishes Agreement::meet(std::int64_t step) {
  _step = step;
  _between = true;
  _pace.reach(step);
  lookIfDue();
  if (!mayLeave()) {
    Waiting waiting({WaitedFor::Kind::any, "agreement"});
    for (look(); !mayLeave(); look()) waiting.pause();
    waiting.over();
  }
  _between = false;
  return act();
}

/// A rank on its way to a decided step is never too far ahead.
bool Agreement::mayLeave() const {
  if (_step >= _promise || collects()) return false;
  return _pace.mayContinue() || (!_decisions.empty() && _decisions.front().step > _step);
}

Wishes Agreement::act() {
  if (_decisions.empty() || _decisions.front().step != _step) return {};
  const Letter decision = _decisions.front();
  _decisions.pop_front();
  _acted = decision.number;
  _stopped = decision.wishes.stop != 0;
  return decision.wishes;
}

void Agreement::lookIfDue() {
  if (Clock::now() - _looked >= between_looks) look();
}

/// Letters that rank 0 sends to itself arrive at once.
void Agreement::look() {
  _looked = Clock::now();
  if (const Wishes wishes = _ask(); wishes.any())
    _mailbox.send(0, Tag::agreement, Letter{Letter::Kind::wish, _acted, _step, wishes});
  _mailbox.poll();
  _pace.look();
  do {
    while (const auto message = _mailbox.take(Tag::agreement)) take(message->as<Letter>());
  } while (_mailbox.rank() == 0 && proposeIfDue());
}

void Agreement::sendToAll(const Letter& letter) {
  for (int rank = 0; rank < _mailbox.size(); ++rank) _mailbox.send(rank, Tag::agreement, letter);
}

void Agreement::take(const Letter& letter) {
  switch (letter.kind) {
  case Letter::Kind::wish:
    return takeWish(letter);
  case Letter::Kind::proposal:
    return promise();
  case Letter::Kind::promise:
    _furthest = std::max(_furthest, letter.step);
    if (--_missing == 0) decide();
    return;
  case Letter::Kind::decision:
    _promise = unbounded;
    _decisions.push_back(letter);
    return;
  }
}

/// If a rank wishes for a checkpoint before it has taken the last agreed one, that one fulfils the wish.
void Agreement::takeWish(const Letter& wish) {
  Wishes wishes = wish.wishes;
  if (wish.number < _kept) wishes.checkpoint = 0;
  if (!_wanted.any()) _wanted_since = Clock::now();
  _wanted.add(wishes);
}

/// Rank 0 does not step on while it collects wishes, so that a slow step does not delay the proposal.
bool Agreement::collects() const {
  return _wanted.any() && _missing == 0 && _decisions.empty() && !_stopped && _step < _last;
}

bool Agreement::proposeIfDue() {
  if (!collects() || Clock::now() - _wanted_since < collecting) return false;
  ++_proposal;
  _furthest = 0;
  _missing = _mailbox.size();
  sendToAll({Letter::Kind::proposal, _proposal, 0, {}});
  return true;
}

void Agreement::promise() {
  _promise = std::min(_last, _between ? _step : _step + 1);
  _mailbox.send(0, Tag::agreement, Letter{Letter::Kind::promise, 0, _promise, {}});
}

void Agreement::decide() {
  const Wishes wishes = _furthest < _last ? std::exchange(_wanted, {}) : Wishes{};
  if (wishes.checkpoint != 0) _kept = _proposal;
  sendToAll({Letter::Kind::decision, _proposal, _furthest, wishes});
}

} // namespace partita
