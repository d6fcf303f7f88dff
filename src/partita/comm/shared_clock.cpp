#include "partita/comm/shared_clock.hpp"

#include "partita/comm/tags.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace partita {

namespace {

constexpr int clock_tag = static_cast<int>(Tag::clock);
constexpr int questions = 20; // at least one is answered without competition for the cores

void answer(const Communicator& comm, const std::function<double()>& own) {
  for (int rank = 1; rank < comm.size(); ++rank) {
    for (int question = 0; question < questions; ++question) {
      PARTITA_MPI(MPI_Recv(nullptr, 0, MPI_DOUBLE, rank, clock_tag, comm.get(), MPI_STATUS_IGNORE));
      const double now = own();
      PARTITA_MPI(MPI_Send(&now, 1, MPI_DOUBLE, rank, clock_tag, comm.get()));
    }
  }
}

/// The offset from the local clock to that of rank 0.
double ask(const Communicator& comm, const std::function<double()>& own) {
  double least = std::numeric_limits<double>::lowest(), most = std::numeric_limits<double>::max();
  for (int question = 0; question < questions; ++question) {
    double there = 0.0;
    const double asked = own();
    PARTITA_MPI(MPI_Send(nullptr, 0, MPI_DOUBLE, 0, clock_tag, comm.get()));
    PARTITA_MPI(MPI_Recv(&there, 1, MPI_DOUBLE, 0, clock_tag, comm.get(), MPI_STATUS_IGNORE));
    least = std::max(least, there - own());
    most = std::min(most, there - asked);
  }
  const bool same_clock = least <= 0.0 && most >= 0.0;
  return same_clock ? 0.0 : (least + most) / 2.0;
}

} // namespace

SharedClock::SharedClock(const Communicator& comm, std::function<double()> own) : _own(std::move(own)) {
  if (comm.rank() == 0) {
    answer(comm, _own);
  } else {
    _offset = ask(comm, _own);
  }
  _offset -= comm.maximum(seconds());
}

} // namespace partita
