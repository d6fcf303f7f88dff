#include "partita/train/pace.hpp"

#include <algorithm>
#include <utility>

namespace partita {

namespace {

constexpr double lead = 0.5;                                 // s of the slowest rank
constexpr std::int64_t shortest_lead = 2;                    // steps
constexpr double step_interval = 0.05, bound_interval = 0.1; // s between messages

} // namespace

Pace::Pace(Mailbox& mailbox, std::int64_t first, int walkers, bool walks,
           std::function<Clock::time_point()> now)
    : _mailbox(mailbox), _walkers(walkers), _walks(walks && walkers > 1), _step(first), _sent_step(first),
      _now(std::move(now)), _slowest(first) {
  if (_walks) _bound = first + shortest_lead;
}

void Pace::look() {
  while (const auto message = _mailbox.take(Tag::pace)) {
    const auto step = message->as<std::int64_t>();
    if (_mailbox.rank() == 0) {
      _steps[message->from] = step;
    } else {
      _bound = step;
    }
  }
  if (!_walks) return;
  sendOwnStep();
  if (_mailbox.rank() == 0) sendBound();
}

void Pace::sendOwnStep() {
  if (_mailbox.rank() == 0) _steps[0] = _step;
  if (_step == _sent_step || (mayContinue() && secondsSince(_sent_at) < step_interval)) return;
  _sent_step = _step;
  _sent_at = _now();
  if (_mailbox.rank() != 0) _mailbox.send(0, Tag::pace, _step);
}

/// Sends the bound at once if a rank waits for it, and now and then otherwise. The speed is taken over at
/// least a tenth of a second: steps that arrive within less time may have been under way for longer.
void Pace::sendBound() {
  if (static_cast<int>(_steps.size()) < _walkers) return;
  const auto less = [](const auto& one, const auto& other) { return one.second < other.second; };
  const std::int64_t slowest = std::min_element(_steps.begin(), _steps.end(), less)->second;
  const std::int64_t fastest = std::max_element(_steps.begin(), _steps.end(), less)->second;
  const double seconds = secondsSince(_bound_sent_at);
  if (slowest <= _slowest || (fastest < _bound && seconds < bound_interval)) return;
  const double speed = static_cast<double>(slowest - _slowest) / std::max(seconds, bound_interval);
  _bound = std::max(_bound, slowest + std::max(shortest_lead, static_cast<std::int64_t>(lead * speed)));
  _slowest = slowest;
  if (!_resting) _interval.measured(seconds);
  _bound_sent_at = _now();
  for (const auto& [rank, step] : _steps)
    if (rank != 0) _mailbox.send(rank, Tag::pace, _bound);
}

void Pace::rested(double seconds) {
  _resting = false;
  const auto rest = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  _bound_sent_at = std::min(_now(), _bound_sent_at + rest); // which may have been sent meanwhile
}

double Pace::secondsOfSlowest() const {
  return _walks ? std::max(_interval.last(), _interval.counted(secondsSince(_bound_sent_at))) : 0.0;
}

} // namespace partita
