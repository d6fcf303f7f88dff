#include "partita/comm/agree.hpp"

#include "partita/comm/loss_watch.hpp"
#include "partita/config/text.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <thread>

namespace partita {

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
  std::int64_t length = text.size();
  world.barrier(); // a broadcast blocks; this wait is watched
  PARTITA_MPI(MPI_Bcast(&length, 1, MPI_INT64_T, root, world.get()));
  text.resize(length);
  PARTITA_MPI(MPI_Bcast(text.data(), mpiCount(length), MPI_CHAR, root, world.get()));
  return text;
}

void requireSame(const Communicator& world, const std::string& text, const std::string& what) {
  const std::string first = broadcast(world, text);
  collectively(world, [&] {
    if (text != first)
      throw UserError("the " + what + " of rank " + std::to_string(world.rank()) +
                      " differs from that of rank 0");
  });
}

void endJob(int rank, const std::string& message, int code) {
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
