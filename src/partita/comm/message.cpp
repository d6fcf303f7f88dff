#include "partita/comm/message.hpp"

#include "partita/comm/number_sum.hpp"
#include "partita/core/region.hpp"

#include <algorithm>
#include <exception>

namespace partita {

namespace {

std::vector<MessageSlot> makeSlots(MessagePath path, std::int64_t depth, std::int64_t rows,
                                   std::int64_t columns) {
  std::vector<MessageSlot> slots(static_cast<std::size_t>(depth));
  for (MessageSlot& slot : slots) {
    if (path == MessagePath::direct) {
      slot.direct = makeMatrix("partita::message", rows, columns);
    } else {
      slot.staged = PinnedMatrix(Kokkos::view_alloc(Kokkos::WithoutInitializing, "partita::message"),
                                 static_cast<std::size_t>(rows), static_cast<std::size_t>(columns));
    }
  }
  return slots;
}

PinnedMatrix topRowsPinned(const PinnedMatrix& slot, std::int64_t rows) {
  return PinnedMatrix(slot.data(), static_cast<std::size_t>(rows), slot.extent(1));
}

/// The buffer as `count` values that travel.
Numbers onTheWire(const Channel& channel, const MessageSlot& slot, std::int64_t count) {
  return {channel.wire, slot.data(), count};
}

/// MPI promises tags up to 32767. Numbers come back after more messages than a queue can hold.
int tagOf(const Channel& channel, std::int64_t number) {
  return channel.tag + 16 * static_cast<int>(number % 2000);
}

} // namespace

Sender::Sender(const Channel& channel, std::int64_t rows, std::int64_t columns, std::int64_t depth,
               std::int64_t& bytes)
    : _channel(channel), _world_rank(channel.comm.worldRank(channel.peer)),
      _slots(makeSlots(channel.path, depth, rows, columns)), _requests(_slots.size()), _bytes(bytes) {}

Sender::~Sender() noexcept(false) {
  if (std::uncaught_exceptions() == 0) finish();
}

void Sender::send(const ExecSpace& space, const Matrix& matrix) {
  const Region region(space, "partita::Sender::send", Phase::communication);
  const auto index = static_cast<std::size_t>(_sent) % _slots.size();
  Request& request = _requests[index];
  const MessageSlot& slot = _slots[index];
  if (request.underWay()) request.wait();
  const auto rows = static_cast<std::int64_t>(matrix.extent(0)),
             count = static_cast<std::int64_t>(matrix.size());
  const Numbers sent = onTheWire(_channel, slot, count);
  if (_channel.wire != Precision::single) {
    convert(space, matrix, sent);
  } else if (_channel.path == MessagePath::direct) {
    Kokkos::deep_copy(space, topRows(slot.direct, rows), matrix);
  } else {
    Kokkos::deep_copy(space, topRowsPinned(slot.staged, rows), matrix);
  }
  fence(space, "partita::Sender::send");
  ++_sent;
  // Synchronous: small messages, which MPI would buffer without limit, count as on their way too.
  PARTITA_MPI(MPI_Issend(sent.data, mpiCount(count), mpiType(_channel.wire), _channel.peer,
                         tagOf(_channel, _sent), _channel.comm.get(),
                         request.start({WaitedFor::Kind::taker, _channel.what, _world_rank, _sent})));
  _bytes += sent.bytes();
}

void Sender::finish() {
  for (std::size_t i = 0; i < _requests.size(); ++i) { // the oldest first: that is the one to tell of
    Request& request = _requests[(static_cast<std::size_t>(_sent) + i) % _requests.size()];
    if (request.underWay()) request.wait();
  }
}

Receiver::Receiver(const Channel& channel, std::int64_t rows, std::int64_t columns, std::int64_t depth,
                   std::int64_t count)
    : _channel(channel), _world_rank(channel.comm.worldRank(channel.peer)), _columns(columns), _count(count),
      _slots(makeSlots(channel.path, std::min(depth, std::max<std::int64_t>(count, 1)), rows, columns)),
      _requests(_slots.size()) {
  if (channel.path == MessagePath::staged || channel.wire != Precision::single)
    _device = makeMatrix("partita::Receiver::device", rows, columns);
  for (std::size_t i = 0; i < _slots.size(); ++i) post();
}

Receiver::~Receiver() {
  for (Request& request : _requests) request.abandon(); // only an abandoned stream has any left
}

void Receiver::post() {
  if (_posted == _count) return;
  const auto index = static_cast<std::size_t>(_posted) % _slots.size();
  const auto capacity = static_cast<std::int64_t>(_slots[index].direct.size() + _slots[index].staged.size());
  ++_posted;
  PARTITA_MPI(
      MPI_Irecv(_slots[index].data(), mpiCount(capacity), mpiType(_channel.wire), _channel.peer,
                tagOf(_channel, _posted), _channel.comm.get(),
                _requests[index].start({WaitedFor::Kind::message, _channel.what, _world_rank, _posted})));
}

Matrix Receiver::next(const ExecSpace& space) {
  const Region region(space, "partita::Receiver::next", Phase::communication);
  if (_taken > 0) { // nobody reads the previous message any more
    fence(space, "partita::Receiver::next");
    post();
  }
  PARTITA_REQUIRE(_taken < _count, "more messages taken than announced");
  const auto index = static_cast<std::size_t>(_taken++) % _slots.size();
  MPI_Status status;
  _requests[index].wait(&status);
  int count = 0;
  PARTITA_MPI(MPI_Get_count(&status, mpiType(_channel.wire), &count));
  const std::int64_t rows = count / _columns;
  if (_device.size() == 0) return topRows(_slots[index].direct, rows);
  const Matrix device = topRows(_device, rows);
  if (_channel.wire != Precision::single) {
    convert(space, onTheWire(_channel, _slots[index], count), device);
    return device;
  }
  Kokkos::deep_copy(space, device, topRowsPinned(_slots[index].staged, rows));
  return device;
}

} // namespace partita
