#include "partita/comm/part_exchange.hpp"
#include "partita/comm/part_places.hpp"
#include "partita/comm/wait_times.hpp"
#include "partita/core/region.hpp"

namespace partita {

// How parts exchange the places at their borders.

/// The messages between this part and the others, whose values lie one after another in `work`: from here
/// the places that others need, and to here those that this one needs, or the reverse.
PartExchange::Messages PartExchange::haloMessages(const ExchangePlan& plan, std::int64_t rows, bool forward,
                                                  const Vector& work) const {
  Messages messages;
  Real* next = work.data();
  for (int other = 0; other < _parts.size(); ++other) {
    if (other == plan.place) continue;
    const std::int64_t gives = plan.valuesSent(plan.place, other) * rows,
                       gets = plan.valuesSent(other, plan.place) * rows;
    if (gives > 0) (forward ? messages.out : messages.in).push_back({other, next, gives});
    next += gives;
    if (gets > 0) (forward ? messages.in : messages.out).push_back({other, next, gets});
    next += gets;
  }
  return messages;
}

void PartExchange::haloForward(const ExecSpace& space, const ExchangePlan& plan, const Matrix& own,
                               const Matrix& needed, const Vector& work, Travel travel) {
  const Region region(space, "partita::PartExchange::halo", Phase::communication);
  const std::int64_t rows = own.extent(0);
  const Places from = ownedBy(plan, own), to = neededBy(plan, needed);
  const Messages messages = haloMessages(plan, rows, true, work);
  if (travel != Travel::arrive) {
    for (const Piece& piece : messages.out) {
      const Block block = plan.sent(plan.place, piece.peer);
      copyPlaces(space, from, {piece.values, block, plan.channels}, block, rows);
    }
    post(space, waits::halos, messages.out, messages.in);
    copyPlaces(space, from, to, plan.sent(plan.place, plan.place), rows);
  }
  if (travel == Travel::depart) return;
  complete(space);
  for (const Piece& piece : messages.in) {
    const Block block = plan.sent(piece.peer, plan.place);
    copyPlaces(space, {piece.values, block, plan.channels}, to, block, rows);
  }
}

void PartExchange::haloBackward(const ExecSpace& space, const ExchangePlan& plan, const Matrix& needed,
                                const Matrix& own, const Vector& work, Travel travel) {
  const Region region(space, "partita::PartExchange::halo", Phase::communication);
  const std::int64_t rows = needed.extent(0);
  const Places from = neededBy(plan, needed), to = ownedBy(plan, own);
  const Messages messages = haloMessages(plan, rows, false, work);
  if (travel != Travel::arrive) {
    for (const Piece& piece : messages.out) {
      const Block block = plan.sent(piece.peer, plan.place);
      copyPlaces(space, from, {piece.values, block, plan.channels}, block, rows);
    }
    post(space, waits::halos, messages.out, messages.in);
  }
  if (travel == Travel::depart) return;
  Kokkos::deep_copy(space, own, Real(0));
  copyPlaces(space, from, to, plan.sent(plan.place, plan.place), rows);
  complete(space);
  for (const Piece& piece : messages.in) {
    const Block block = plan.sent(plan.place, piece.peer);
    addPlaces(space, {piece.values, block, plan.channels}, to, block, rows);
  }
}

} // namespace partita
