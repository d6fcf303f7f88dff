#include "partita/comm/arrival_times.hpp"

#include "partita/comm/tags.hpp"

namespace partita {

namespace {

constexpr int arrival_tag = static_cast<int>(Tag::arrival);

} // namespace

ArrivalTimes::Stamp& ArrivalTimes::add(WaitedFor::Kind kind, int peer, const char* what) {
  Stamp& stamp = _stamps.emplace_back();
  stamp.awaited = {kind, what, _comm.worldRank(peer)};
  return stamp;
}

void ArrivalTimes::sent(int peer, std::int64_t bytes, const char* what) {
  if (!linkModel().slow()) return;
  Stamp& stamp = add(WaitedFor::Kind::taker, peer, what);
  stamp.seconds = _links[peer].arrival(bytes);
  PARTITA_MPI(MPI_Isend(&stamp.seconds, 1, MPI_DOUBLE, peer, arrival_tag, _comm.get(),
                        stamp.request.start(stamp.awaited)));
}

void ArrivalTimes::posted(int peer, const char* what) {
  if (!linkModel().slow()) return;
  Stamp& stamp = add(WaitedFor::Kind::message, peer, what);
  PARTITA_MPI(MPI_Irecv(&stamp.seconds, 1, MPI_DOUBLE, peer, arrival_tag, _comm.get(),
                        stamp.request.start(stamp.awaited)));
}

void ArrivalTimes::wait() {
  for (Stamp& stamp : _stamps) {
    stamp.request.wait();
    if (stamp.awaited.kind == WaitedFor::Kind::taker) continue;
    Waiting waiting(stamp.awaited);
    while (linkSeconds() < stamp.seconds) waiting.pause();
    waiting.over();
  }
  _stamps.clear();
}

} // namespace partita
