#include "partita/comm/watchdog.hpp"

#include "partita/comm/agree.hpp"
#include "partita/core/log.hpp"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <map>
#include <tuple>
#include <type_traits>
#include <utility>

namespace partita {

namespace {

std::string messageText(const std::string& what, std::int64_t number) {
  return number > 0 ? "message " + std::to_string(number) + " (" + what + ")" : what;
}

/// "for message 17 (activations) of rank 0".
std::string objectOf(const Sign& sign) {
  const std::string what = sign.what.data(), peer = "rank " + std::to_string(sign.peer);
  const std::string message = messageText(what, sign.number);
  switch (sign.kind) {
  case WaitedFor::Kind::message:
    if (sign.other_peer >= 0) {
      return "for " + message + " of " + peer + " or " +
             messageText(sign.other_what.data(), sign.other_number) + " of rank " +
             std::to_string(sign.other_peer);
    }
    return "for " + message + " of " + peer;
  case WaitedFor::Kind::any:
    return "for a message of any rank (" + what + ")";
  case WaitedFor::Kind::taker:
    return "for " + peer + " to take " + message;
  case WaitedFor::Kind::all:
    return "for all others (" + what + ")";
  }
  return "";
}

/// A line of the table without the ranks and the seconds: its urgency, and the text before and after the
/// seconds.
using Doing = std::tuple<int, std::string, std::string>;

Doing doingOf(const Sign& sign, bool fresh) {
  const bool waits = sign.waited >= 0.0;
  if (!fresh && !waits) return {0, "no sign for ", "; it was at work"};
  if (!fresh) return {1, "no sign for ", "; it waited " + objectOf(sign)};
  if (!waits) return {4, "at work", ""};
  return {sign.byAll() ? 3 : 2, "waits since ", " " + objectOf(sign)};
}

} // namespace

Sign Sign::ofWait(const WaitedFor& what, double seconds) {
  Sign sign;
  sign.waited = seconds;
  sign.kind = what.kind;
  sign.peer = what.peer;
  sign.number = what.number;
  std::snprintf(sign.what.data(), sign.what.size(), "%s", what.what);
  sign.other_peer = what.other_peer;
  sign.other_number = what.other_number;
  std::snprintf(sign.other_what.data(), sign.other_what.size(), "%s", what.other_what);
  return sign;
}

WaitTable::WaitTable(int ranks, double fresh, double now)
    : _fresh(fresh), _rows(ranks, Row{Sign::ofWork(), now}) {}

void WaitTable::take(int rank, const Sign& sign, double now) {
  _rows[rank] = {sign, now};
}

std::vector<int> WaitTable::stuck(double now, double seconds) const {
  std::vector<bool> held;
  for (const Row& row : _rows) held.push_back(waits(row, now) && now - row.told + row.sign.waited >= seconds);
  // A rank that waits for a rank that can proceed will proceed as well; the ranks left at the end cannot.
  for (bool changed = true; changed;) {
    changed = false;
    const bool all_held = std::find(held.begin(), held.end(), false) == held.end();
    for (std::size_t rank = 0; rank < held.size(); ++rank) {
      const Sign& sign = _rows[rank].sign;
      const auto is_held = [&](int other) {
        return static_cast<std::size_t>(other) < held.size() && held[other];
      };
      const bool peer_held =
          sign.byAll() ? all_held : is_held(sign.peer) && (sign.other_peer < 0 || is_held(sign.other_peer));
      if (!held[rank] || peer_held) continue;
      held[rank] = false;
      changed = true;
    }
  }
  std::vector<int> ranks;
  for (std::size_t rank = 0; rank < held.size(); ++rank)
    if (held[rank]) ranks.push_back(static_cast<int>(rank));
  return ranks;
}

std::vector<int> WaitTable::silent(double now, double seconds) const {
  const bool somebody_waits =
      std::any_of(_rows.begin(), _rows.end(), [&](const Row& row) { return waits(row, now); });
  std::vector<int> ranks;
  if (!somebody_waits) return ranks;
  for (std::size_t rank = 0; rank < _rows.size(); ++rank)
    if (now - _rows[rank].told >= seconds) ranks.push_back(static_cast<int>(rank));
  return ranks;
}

std::string WaitTable::text(double now, std::size_t most) const {
  struct Group {
    std::vector<int> ranks;
    double seconds = 0.0;
  };
  std::map<Doing, Group> groups;
  for (std::size_t rank = 0; rank < _rows.size(); ++rank) {
    const Row& row = _rows[rank];
    const bool fresh = isFresh(row, now);
    Group& group = groups[doingOf(row.sign, fresh)];
    group.ranks.push_back(static_cast<int>(rank));
    group.seconds = std::max(group.seconds, now - row.told + (fresh ? row.sign.waited : 0.0));
  }
  std::string text;
  std::size_t lines = 0;
  for (const auto& [doing, group] : groups) {
    if (lines++ == most) return text + "\n  and more";
    const auto& [urgency, verb, object] = doing;
    std::array<char, 24> seconds{};
    if (verb.back() == ' ') std::snprintf(seconds.data(), seconds.size(), "%.0f s", group.seconds);
    text += (text.empty() ? "  " : "\n  ") + formatRanks(group.ranks) + ": " + verb + seconds.data() + object;
  }
  return text;
}

namespace {

static_assert(std::is_trivially_copyable<Sign>::value, "signs travel as bytes");

std::string wholeSeconds(double seconds) {
  std::array<char, 24> text{};
  std::snprintf(text.data(), text.size(), "%.0f s", seconds);
  return text.data();
}

} // namespace

Watchdog::Actions Watchdog::warnAndEndJob() {
  return {[](const std::string& text) { Log::warning(text); },
          [](const std::string& text) {
            int rank = 0;
            MPI_Comm_rank(MPI_COMM_WORLD, &rank);
            endJob(rank, text, exit_failure);
          }};
}

Watchdog::Watchdog(const Communicator& world, const Limits& limits, Actions actions)
    : _comm(world.duplicate()), _limits(limits), _actions(std::move(actions)),
      _table(_comm.size(), 2.5 * limits.sign, 0.0), _next_warning(limits.warning) {
  setWatcher(this);
}

/// All signs must be received before the communicator is freed, but rank 0 does not know how many there are:
/// each rank waits for its own to be received before it enters the barrier, during which rank 0 keeps
/// receiving.
Watchdog::~Watchdog() noexcept(false) {
  _ending = true;
  if (std::uncaught_exceptions() == 0) {
    if (_request.underWay()) _request.wait();
    _comm.barrier();
  }
  setWatcher(nullptr);
}

double Watchdog::seconds() const {
  return secondsSince(_start);
}

void Watchdog::waiting(const WaitedFor& what, double waited) {
  const double now = seconds();
  if (_ending && _comm.rank() == 0) pump(now);
  if (waited < _limits.sign || now - _told < _limits.sign) return;
  const bool last_sign_sent = _ending && _comm.rank() != 0;
  if (!last_sign_sent) tell(Sign::ofWait(what, waited), now);
  endWithoutRankZero(now);
}

void Watchdog::computing() {
  const double now = seconds();
  if (_told_of_wait || now - _told >= _limits.sign) tell(Sign::ofWork(), now);
}

void Watchdog::tell(const Sign& sign, double now) {
  _told = now;
  if (_comm.rank() == 0) {
    _table.take(0, sign, now);
    _told_of_wait = sign.waited >= 0.0;
    look(now);
    return;
  }
  if (_request.underWay() && !_request.test()) return; // rank 0 has not received the last one yet
  _sign = sign;
  _sent = now;
  _told_of_wait = sign.waited >= 0.0;
  PARTITA_MPI(MPI_Issend(&_sign, sizeof _sign, MPI_BYTE, 0, 0, _comm.get(),
                         _request.start({WaitedFor::Kind::taker, "sign", _comm.worldRank(0), 0})));
}

void Watchdog::pump(double now) {
  for (;;) {
    int waits = 0;
    MPI_Status status;
    PARTITA_MPI(MPI_Iprobe(MPI_ANY_SOURCE, 0, _comm.get(), &waits, &status));
    if (waits == 0) return;
    Sign sign;
    PARTITA_MPI(MPI_Recv(&sign, sizeof sign, MPI_BYTE, status.MPI_SOURCE, 0, _comm.get(), MPI_STATUS_IGNORE));
    _table.take(status.MPI_SOURCE, sign, now);
  }
}

/// Evaluates the reports on rank 0. If rank 0 has not looked for a while, it missed what happened in the
/// meantime and starts over.
void Watchdog::look(double now) {
  if (now - _looked > 2.0 * _limits.sign) _attentive_since = now;
  _looked = now;
  pump(now);
  if (now - _attentive_since >= _limits.stuck) {
    const std::vector<int> stuck = _table.stuck(now, _limits.stuck);
    if (!stuck.empty()) {
      _attentive_since = now;
      _actions.end(formatRanks(stuck) + ": waiting for one another; a message is lost\n" + _table.text(now));
      return;
    }
  }
  if (_limits.silence > 0.0) {
    const std::vector<int> silent = _table.silent(now, _limits.silence);
    if (!silent.empty()) {
      _actions.end(formatRanks(silent) + ": no sign for " + wholeSeconds(_limits.silence) +
                   " (run/watchdog) while others wait\n" + _table.text(now));
      return;
    }
  }
  const std::vector<int> silent = _table.silent(now, _next_warning);
  if (silent.empty()) return;
  _actions.warn(formatRanks(silent) + ": no sign for " + wholeSeconds(_next_warning) +
                " while others wait\n" + _table.text(now));
  _next_warning *= 2.0;
}

void Watchdog::endWithoutRankZero(double now) {
  if (_comm.rank() == 0 || _limits.silence <= 0.0 || !_request.underWay()) return;
  // The ranks time out one after another, so that only one reports.
  const double patience = _limits.silence + _limits.sign * std::min(_comm.rank() - 1, 10);
  if (now - _sent < patience) return;
  _sent = now;
  _actions.end("rank 0: no sign for " + wholeSeconds(patience) +
               " (run/watchdog) while this rank waits\n  rank 0 knows of the others");
}

} // namespace partita
