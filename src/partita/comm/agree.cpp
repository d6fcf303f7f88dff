#include "partita/comm/agree.hpp"

#include "partita/comm/chunks.hpp"
#include "partita/comm/lasting.hpp"
#include "partita/comm/loss_watch.hpp"
#include "partita/config/text.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <thread>

namespace partita {

thread_local int AgreedError::alive = 0;

void collectively(const Communicator& world, const std::function<void()>& work) {
  std::string text;
  bool by_system = false;
  try {
    work();
  } catch (const UserError& error) {
    text = joined(error.messages(), "\n") + "\n";
    by_system = error.bySystem();
  }
  // Rank and kind of failure are combined in one number, so that the minimum gives those of the lowest rank.
  const std::int64_t nobody = 2 * std::int64_t{world.size()},
                     own = text.empty() ? nobody : 2 * std::int64_t{world.rank()} + (by_system ? 1 : 0),
                     first = world.minimum(own);
  if (first == nobody) return;
  const int rank = static_cast<int>(first / 2);
  throw AgreedError(split(broadcast(world, std::move(text), rank), '\n'), first % 2 == 1);
}

std::string broadcast(const Communicator& world, std::string text, int root) {
  text.resize(detail::broadcastCount(world, text.size(), root));
  detail::broadcastBytes(world, text.data(), text.size(), root);
  return text;
}

std::size_t detail::broadcastCount(const Communicator& world, std::size_t count, int root) {
  auto shared = static_cast<std::int64_t>(count);
  broadcastBytes(world, &shared, sizeof shared, root);
  return static_cast<std::size_t>(shared);
}

/// In chunks, because MPI counts with an int, and a large model has more bytes.
void detail::broadcastBytes(const Communicator& world, void* to, std::size_t bytes, int root) {
  const Lasting<std::vector<char>> chunk(std::vector<char>(std::min(chunk_bytes, bytes)));
  const bool sends = world.rank() == root;
  for (std::size_t sent = 0; sent < bytes; sent += chunk_bytes) {
    char* const place = static_cast<char*>(to) + sent;
    const std::size_t size = std::min(chunk_bytes, bytes - sent);
    if (sends) std::memcpy(chunk->data(), place, size);
    const auto count = static_cast<std::int64_t>(size);
    Request request;
    PARTITA_MPI(MPI_Ibcast(chunk->data(), mpiCount(count), MPI_BYTE, root, world.get(),
                           request.start({WaitedFor::Kind::all, "broadcast", -1, 0, "", -1, 0, count})));
    request.wait();
    if (!sends) std::memcpy(place, chunk->data(), size);
  }
}

void requireSame(const Communicator& world, const std::string& text, const std::string& what) {
  const std::string first = broadcast(world, text);
  collectively(world, [&] {
    if (text != first)
      throw UserError("the " + what + " of rank " + std::to_string(world.worldRank(world.rank())) +
                      " differs from that of rank 0");
  });
}

namespace {

std::atomic<void (*)()> last_call{nullptr};
std::atomic<bool> job_ends{false};

/// For a thread that fails while another one of this rank already reports, which ends the process first.
[[noreturn]] void waitForEnd(int code) {
  std::this_thread::sleep_for(std::chrono::seconds(10));
  std::_Exit(code);
}

} // namespace

void beforeJobEnds(void (*call)()) {
  last_call = call;
}

void endJob(int rank, const std::string& message, int code) {
  if (auto* const call = last_call.load()) call();
  if (job_ends.exchange(true)) waitForEnd(code);
  std::signal(SIGTERM, SIG_DFL); // which the launcher sends when another rank has reported
  // A failure on one rank soon shows on others, often on all at once: the lowest rank reports it, and the job
  // has ended before the next rank's turn.
  std::this_thread::sleep_for(std::chrono::seconds(std::min(rank, 3)));
  std::cerr << "partita: rank " << rank << ": " << message << std::endl;
  // Once asked to kill the job, the launcher may drop output that it has not forwarded yet.
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  LossWatch::endOthers();
  MPI_Abort(MPI_COMM_WORLD, code);
  std::abort();
}

} // namespace partita
