#include "partita/comm/wait_table.hpp"

#include "partita/config/text.hpp"
#include "partita/core/log.hpp"

#include <algorithm>
#include <cstdio>
#include <map>
#include <tuple>
#include <utility>

namespace partita {

namespace {

std::string messageText(const std::string& what, std::int64_t number) {
  return number > 0 ? "message " + std::to_string(number) + " (" + what + ")" : what;
}

/// "for message 17 (activations) from rank 0".
std::string objectOf(const Sign& sign) {
  const std::string what = sign.what.data(), peer = "rank " + std::to_string(sign.peer);
  const std::string message = messageText(what, sign.number);
  switch (sign.kind) {
  case WaitedFor::Kind::message:
    if (sign.other_peer >= 0) {
      return "for " + message + " from " + peer + " or " +
             messageText(sign.other_what.data(), sign.other_number) + " from rank " +
             std::to_string(sign.other_peer);
    }
    return "for " + message + " from " + peer;
  case WaitedFor::Kind::any:
    return "for a message from any rank (" + what + ")";
  case WaitedFor::Kind::taker:
    return "for " + peer + " to receive " + message;
  case WaitedFor::Kind::all:
    return "for all other ranks (" + what + ")";
  }
  return "";
}

/// " (stage 2, live microbatches: 3)".
std::string placeOf(const Sign& sign) {
  if (sign.stage == 0) return "";
  return " (stage " + std::to_string(sign.stage) + ", live microbatches: " + std::to_string(sign.live) + ")";
}

/// A line of the table without the ranks and the seconds: its urgency, and the text before and after the
/// seconds.
using Doing = std::tuple<int, std::string, std::string>;

Doing doingOf(const Sign& sign, bool fresh) {
  const bool waits = sign.waited >= 0.0;
  if (!fresh && !waits) return {0, "no response for ", "; it was computing"};
  if (!fresh) return {1, "no response for ", "; it was waiting " + objectOf(sign) + placeOf(sign)};
  if (!waits) return {4, "computing", ""};
  return {sign.byAll() ? 3 : 2, "waiting ", " " + objectOf(sign) + placeOf(sign)};
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
  sign.stage = what.stage;
  sign.live = what.live;
  return sign;
}

WaitTable::WaitTable(std::vector<int> job_ranks, double fresh, double now)
    : _fresh(fresh), _job_ranks(std::move(job_ranks)), _rows(_job_ranks.size(), Row{Sign::ofWork(), now}) {}

void WaitTable::take(int rank, const Sign& sign, double now) {
  _rows[rank] = {sign, now};
}

std::optional<std::size_t> WaitTable::rowOf(int job_rank) const {
  const auto found = std::lower_bound(_job_ranks.begin(), _job_ranks.end(), job_rank);
  if (found == _job_ranks.end() || *found != job_rank) return std::nullopt;
  return static_cast<std::size_t>(found - _job_ranks.begin());
}

std::vector<int> WaitTable::stuck(double now, double seconds) const {
  std::vector<bool> held;
  for (const Row& row : _rows)
    held.push_back(waits(row, now) && now - row.reported + row.sign.waited >= seconds);
  // A rank that waits for a rank that can proceed will proceed as well; the ranks left at the end cannot.
  for (bool changed = true; changed;) {
    changed = false;
    const bool all_held = std::find(held.begin(), held.end(), false) == held.end();
    for (std::size_t rank = 0; rank < held.size(); ++rank) {
      const Sign& sign = _rows[rank].sign;
      const auto is_held = [&](int job_rank) {
        const auto row = rowOf(job_rank);
        return row && held[*row];
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
    if (now - _rows[rank].reported >= seconds) ranks.push_back(static_cast<int>(rank));
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
    group.ranks.push_back(_job_ranks[rank]);
    group.seconds = std::max(group.seconds, now - row.reported + (fresh ? row.sign.waited : 0.0));
  }
  std::string text;
  std::size_t lines = 0;
  for (const auto& [doing, group] : groups) {
    if (lines++ == most) return text + "\n  and more";
    const auto& [urgency, verb, object] = doing;
    const std::string seconds = verb.back() == ' ' ? formatted("%.0f s", group.seconds) : "";
    text += (text.empty() ? "  " : "\n  ") + formatRanks(group.ranks) + ": " + verb + seconds + object;
  }
  return text;
}

} // namespace partita
