#pragma once

#include "partita/comm/mpi.hpp"
#include "partita/config/user_error.hpp"

#include <cstddef>
#include <functional>
#include <string>
#include <type_traits>
#include <vector>

namespace partita {

/// A user error known to every rank: rank 0 reports it and all ranks end normally.
class AgreedError : public UserError {
 public:
  explicit AgreedError(const std::vector<std::string>& messages, bool by_system = false)
      : UserError(messages) {
    _by_system = by_system;
    ++alive;
  }
  AgreedError(const AgreedError& other) : UserError(other) { ++alive; }
  AgreedError& operator=(const AgreedError&) = default;
  ~AgreedError() override { --alive; }

  /// Has this thread thrown one that no handler has ended yet? All ranks then leave the same scopes, so that
  /// destructors may wait for other ranks.
  static bool underWay() { return alive > 0; }

 private:
  static thread_local int alive;
};

/// Runs `work` on every rank; if it throws a UserError on any rank, all ranks throw an AgreedError with the
/// messages of the lowest such rank. Without this, a file that one node cannot read would leave the other
/// ranks waiting. Collective. `work` may communicate only if a rank on which it fails leaves no other
/// waiting: it fails on all ranks concerned, does its part of the messages before it throws, or ends the job.
void collectively(const Communicator& world, const std::function<void()>& work);

/// The text of rank `root`, on every rank. Collective.
std::string broadcast(const Communicator& world, std::string text, int root = 0);

namespace detail {

/// The count of rank `root`.
std::size_t broadcastCount(const Communicator& world, std::size_t count, int root);
void broadcastBytes(const Communicator& world, void* to, std::size_t bytes, int root);

} // namespace detail

/// Replaces the values by those of rank `root`, which may be more or fewer. Collective.
template <class T>
void broadcast(const Communicator& world, std::vector<T>& values, int root = 0) {
  static_assert(std::is_trivially_copyable<T>::value, "values travel as bytes");
  values.resize(detail::broadcastCount(world, values.size(), root));
  detail::broadcastBytes(world, values.data(), values.size() * sizeof(T), root);
}

/// Throws AgreedError "the WHAT of rank N differs from that of rank 0" if the text of any rank differs from
/// that of rank 0: the ranks would otherwise wait for one another forever. Collective.
void requireSame(const Communicator& world, const std::string& text, const std::string& what);

/// Exit codes of a program that did not finish (docs/user-guide.md).
constexpr int exit_failure = 1, exit_user_error = 2, exit_stopped = 75; // EX_TEMPFAIL: may be tried again

/// What `endJob` calls first, such as the removal of files that are half written.
void beforeJobEnds(void (*call)());

/// Called when this rank alone has found that the job cannot continue: prints the reason after "partita: rank
/// N: " and ends the job, since the others would wait forever. Takes some seconds on ranks other than 0, so
/// that only one rank reports. If several threads of a rank call it, the first one reports.
[[noreturn]] void endJob(int rank, const std::string& message, int code);

} // namespace partita
