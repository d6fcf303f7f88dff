#include "partita/comm/watchdog.hpp"

#include "partita/comm/agree.hpp"
#include "partita/comm/loss_watch.hpp"
#include "partita/config/text.hpp"
#include "partita/core/log.hpp"

#include <algorithm>
#include <exception>
#include <type_traits>
#include <utility>
#include <vector>

namespace partita {

namespace {

static_assert(std::is_trivially_copyable<Sign>::value, "signs travel as bytes");

constexpr double lost_signs = 2.5; // periods without a sign, after which the last one is out of date

/// Of a time without a look, at most these seconds count: more than those after which the watchdog starts
/// over.
double longestGap(const Watchdog::Limits& limits) {
  constexpr double part = 0.1;
  return std::max(3.0 * limits.sign, part * (limits.silence > 0.0 ? limits.silence : limits.warning));
}

std::string wholeSeconds(double seconds) {
  return formatted("%.0f s", seconds);
}

} // namespace

Watchdog::Actions Watchdog::warnAndEndJob() {
  return {[](const std::string& text) { Log::warning(text); },
          [](const std::string& text) {
            int rank = 0;
            MPI_Comm_rank(MPI_COMM_WORLD, &rank);
            endJob(rank, text, exit_failure);
          },
          LossWatch::giveUp};
}

Watchdog::Watchdog(const Communicator& world, const Limits& limits, Actions actions,
                   std::function<double()> seconds)
    : _comm(world.duplicate()), _limits(limits), _actions(std::move(actions)),
      _table(_comm.worldRanks(), lost_signs * limits.sign, 0.0), _time(std::move(seconds)),
      _next_warning(limits.warning) {
  setWatcher(this);
}

Watchdog::~Watchdog() noexcept(false) {
  const struct Unset { // also if the last wait throws
    ~Unset() { setWatcher(nullptr); }
  } unset;
  const bool unwinding = std::uncaught_exceptions() > 0;
  if (unwinding && !AgreedError::underWay()) return; // the other ranks may never come here
  try {
    end();
  } catch (const std::exception&) { // a loss
    if (!unwinding) throw;
  }
}

void Watchdog::restart(const Limits& limits) {
  _limits = limits;
  _attentive_since = countedSeconds();
  _next_warning = limits.warning;
  _table = WaitTable(_comm.worldRanks(), lost_signs * limits.sign, _attentive_since);
}

/// All signs must be received before the communicator is freed, but rank 0 does not know how many there are:
/// each rank waits for its own to be received before it enters the barrier, during which rank 0 keeps
/// receiving.
void Watchdog::end() {
  _ending = true;
  if (_request.underWay()) _request.wait();
  _comm.barrier();
}

double Watchdog::countedSeconds() {
  return _time.look(longestGap(_limits));
}

void Watchdog::waiting(const WaitedFor& what, double waited) {
  const double now = countedSeconds();
  if (_ending && _comm.rank() == 0) pump(now);
  if (waited < _limits.sign || now - _reported < _limits.sign) return;
  const bool last_sign_sent = _ending && _comm.rank() != 0;
  if (!last_sign_sent) report(Sign::ofWait(what, waited), now);
  endWithoutRankZero(now);
}

void Watchdog::computing() {
  const double now = countedSeconds();
  if (_reported_wait || now - _reported >= _limits.sign) report(Sign::ofWork(), now);
}

void Watchdog::report(const Sign& sign, double now) {
  _reported = now;
  if (_comm.rank() == 0) {
    _table.take(0, sign, now);
    _reported_wait = sign.waited >= 0.0;
    look(now);
    return;
  }
  if (_request.underWay() && !_request.test()) return; // rank 0 has not received the last one yet
  *_sign = sign;
  _sent = now;
  _reported_wait = sign.waited >= 0.0;
  PARTITA_MPI(MPI_Issend(&*_sign, sizeof sign, MPI_BYTE, 0, 0, _comm.get(),
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
      _actions.end(names(stuck) + ": waiting for one another; a message is lost\n" + _table.text(now));
      return;
    }
  }
  if (_limits.silence > 0.0) {
    const std::vector<int> silent = _table.silent(now, _limits.silence);
    if (!silent.empty()) {
      if (_actions.lose && _actions.lose(silent)) return;
      _actions.end(names(silent) + ": no response for " + wholeSeconds(_limits.silence) +
                   " (run/watchdog) while others wait\n" + _table.text(now));
      return;
    }
  }
  const std::vector<int> silent = _table.silent(now, _next_warning);
  if (silent.empty()) return;
  _actions.warn(names(silent) + ": no response for " + wholeSeconds(_next_warning) + " while others wait\n" +
                _table.text(now));
  _next_warning *= 2.0;
}

std::string Watchdog::names(const std::vector<int>& ranks) const {
  return formatRanks(_comm.worldRanks(ranks));
}

void Watchdog::endWithoutRankZero(double now) {
  if (_comm.rank() == 0 || _limits.silence <= 0.0 || !_request.underWay()) return;
  // The ranks time out one after another, so that only one reports.
  const double patience = _limits.silence + _limits.sign * std::min(_comm.rank() - 1, 10);
  if (now - _sent < patience) return;
  _sent = now;
  _actions.end("rank 0: no response for " + wholeSeconds(patience) +
               " (run/watchdog) while this rank waits\n  only rank 0 knows what the other ranks do");
}

} // namespace partita
