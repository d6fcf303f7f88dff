#include "partita/comm/message.hpp"

#include "partita/comm/number_sum.hpp"
#include "partita/core/region.hpp"

#include <algorithm>
#include <cstring>
#include <exception>
#include <type_traits>

namespace partita {

namespace {

/// On a slow link, the time of arrival is sent after the values.
std::int64_t stampBytes() {
  return linkModel().slow() ? sizeof(double) : 0;
}

std::vector<MessageSlot> makeSlots(const Channel& channel, std::int64_t depth, std::int64_t values) {
  const MessagePath path = channel.path;
  PARTITA_REQUIRE(!linkModel().slow() || device_is_host || path == MessagePath::staged,
                  "slow links are emulated in host memory only: run/device_aware_mpi = \"off\"");
  constexpr std::int64_t each = sizeof(Real);
  const std::size_t size = (values * bytesOf(channel.wire) + stampBytes() + each - 1) / each;
  std::vector<MessageSlot> slots(depth);
  for (MessageSlot& slot : slots) {
    if (path == MessagePath::direct) {
      slot.direct = Vector(Kokkos::view_alloc(Kokkos::WithoutInitializing, "partita::message"), size);
    } else {
      slot.staged = PinnedVector(Kokkos::view_alloc(Kokkos::WithoutInitializing, "partita::message"), size);
    }
  }
  return slots;
}

/// The buffer as a span of `count` values on the wire.
TypedSpan onTheWire(const Channel& channel, const MessageSlot& slot, std::int64_t count) {
  return {channel.wire, slot.data(), count};
}

template <class Space>
using Bytes = Kokkos::View<char*, Kokkos::LayoutRight, Space>;

/// Copies values from memory of space From to memory of space To; precisions may differ.
template <class To, class From>
void copySpan(const ExecSpace& space, const TypedSpan& from, const TypedSpan& to) {
  if (from.precision != to.precision) return convert(space, from, to);
  const std::size_t bytes = from.bytes();
  Kokkos::deep_copy(space, Bytes<To>(static_cast<char*>(to.data), bytes),
                    Bytes<From>(static_cast<char*>(from.data), bytes));
}

/// Number of values on the wire that the stamp occupies.
std::int64_t stampCount(const Channel& channel) {
  return stampBytes() / bytesOf(channel.wire);
}

/// MPI guarantees tags up to 32767. Numbers repeat only after more messages than a queue can hold.
int tagOf(const Channel& channel, std::int64_t number) {
  return static_cast<int>(channel.tag) + tag_count * static_cast<int>(number % 1000);
}

} // namespace

static_assert(std::is_nothrow_destructible<Sender>::value, "std::unique_ptr holds senders");

Sender::Sender(const Channel& channel, std::int64_t rows, std::int64_t columns, std::int64_t depth,
               std::int64_t& bytes)
    : _channel(channel), _slots(makeSlots(channel, depth, rows * columns)), _requests(_slots.size()),
      _bytes(bytes), _hook([this] { progress(); }, IdleHook::When::all_waits) {}

Sender::~Sender() {
  if (_sent < _given && std::uncaught_exceptions() == 0) countLeftRequests(_given - _sent, _channel.what);
}

void Sender::send(const ExecSpace& space, const TypedMatrix& matrix) {
  const Region region(space, "partita::Sender::send", Phase::communication);
  const std::size_t index = _given % _slots.size();
  Request& request = _requests[index];
  MessageSlot& slot = _slots[index];
  if (_given - _sent == static_cast<std::int64_t>(_slots.size())) start();
  if (request.underWay()) request.wait();
  slot.values = matrix.size();
  const TypedSpan sent = onTheWire(_channel, slot, slot.values);
  PARTITA_REQUIRE(sent.bytes() + stampBytes() <= slot.bytes(),
                  "the matrix is larger than the buffers of its stream");
  if (_channel.path == MessagePath::direct) {
    copySpan<MemSpace, MemSpace>(space, matrix.values(), sent);
  } else {
    copySpan<PinnedSpace, MemSpace>(space, matrix.values(), sent);
  }
  slot.done.set(space);
  ++_given;
  _bytes += sent.bytes();
  progress();
}

void Sender::progress() {
  while (_sent < _given && _slots[_sent % _slots.size()].done.reached() && !postponedAtRandom()) start();
}

/// Sends the oldest message that has not left.
void Sender::start() {
  const std::size_t index = _sent % _slots.size();
  const MessageSlot& slot = _slots[index];
  slot.done.wait();
  delayAtRandom();
  const std::int64_t stamp = stampCount(_channel);
  const TypedSpan sent = onTheWire(_channel, slot, slot.values);
  if (stamp > 0) {
    const double arrival = _link.arrival(sent.bytes());
    std::memcpy(static_cast<char*>(sent.data) + sent.bytes(), &arrival, sizeof arrival);
  }
  ++_sent;
  // Synchronous, so that small messages, which MPI would buffer without limit, also count as in flight.
  Request& request = _requests[index];
  PARTITA_MPI(
      MPI_Issend(sent.data, mpiCount(slot.values + stamp), mpiType(_channel.wire), _channel.peer,
                 tagOf(_channel, _sent), _channel.comm.get(),
                 request.start({WaitedFor::Kind::taker, _channel.what, _channel.worldRank(), _sent})));
}

void Sender::finish() {
  while (_sent < _given) start();
  for (std::size_t i = 0; i < _requests.size(); ++i) { // the oldest first, since it is the one to report
    Request& request = _requests[(_sent + i) % _requests.size()];
    if (request.underWay()) request.wait();
  }
}

Receiver::Receiver(const Channel& channel, std::int64_t rows, std::int64_t columns, std::int64_t depth,
                   std::int64_t count, std::int64_t held)
    : _channel(channel), _columns(columns), _count(count), _capacity(rows * columns + stampCount(channel)),
      _slots(makeSlots(channel, std::min(depth, std::max<std::int64_t>(count, 1)), rows * columns)),
      _requests(_slots.size()) {
  const bool copied = channel.path == MessagePath::staged || channel.wire != channel.stored;
  for (std::int64_t i = 0; copied && i < held; ++i)
    _device.emplace_back("partita::Receiver::device", channel.stored, rows, columns);
  for (std::size_t i = 0; i < _slots.size(); ++i) post();
}

Receiver::~Receiver() {
  for (Request& request : _requests) request.abandon(); // only an abandoned stream has requests left
}

void Receiver::post() {
  if (_posted == _count) return;
  const std::size_t index = _posted % _slots.size();
  ++_posted;
  PARTITA_MPI(MPI_Irecv(
      _slots[index].data(), mpiCount(_capacity), mpiType(_channel.wire), _channel.peer,
      tagOf(_channel, _posted), _channel.comm.get(),
      _requests[index].start({WaitedFor::Kind::message, _channel.what, _channel.worldRank(), _posted})));
}

/// Posts receives into buffers that were released and that no kernel reads any more.
void Receiver::postFree() {
  const auto buffers = static_cast<std::int64_t>(_slots.size());
  while (_posted < _count && _posted - buffers < _released && _slots[_posted % buffers].done.reached() &&
         !postponedAtRandom())
    post();
}

WaitedFor Receiver::awaited() const {
  return {WaitedFor::Kind::message, _channel.what, _channel.worldRank(), _taken + 1};
}

bool Receiver::ready() {
  postFree();
  if (_taken == _posted) return false;
  if (!_here) {
    const std::size_t index = _taken % _slots.size();
    MPI_Status status;
    if (!_requests[index].test(&status)) return false;
    int count = 0;
    PARTITA_MPI(MPI_Get_count(&status, mpiType(_channel.wire), &count));
    const std::int64_t stamp = stampCount(_channel);
    _here = true;
    _values = count - stamp;
    const TypedSpan payload = onTheWire(_channel, _slots[index], _values);
    if (stamp > 0) std::memcpy(&_due, static_cast<const char*>(payload.data) + payload.bytes(), sizeof _due);
  }
  return stampBytes() == 0 || linkSeconds() >= _due;
}

TypedMatrix Receiver::take(const ExecSpace& space, std::int64_t rows) {
  const Region region(space, "partita::Receiver::take", Phase::communication);
  PARTITA_REQUIRE(_taken < _count, "more messages received than announced");
  PARTITA_REQUIRE(_taken - _released < static_cast<std::int64_t>(_slots.size()), "all buffers are held");
  if (!ready()) {
    _asked.set(space);
    while (!ready() && !_asked.reached()) pollBriefly(); // no wait while the device works
  }
  Waiting waiting(awaited());
  while (!ready()) waiting.pause();
  waiting.over();
  _here = false;
  const std::size_t number = _taken++;
  MessageSlot& slot = _slots[number % _slots.size()];
  const std::int64_t rows_here = rows > 0 ? rows : _values / _columns,
                     columns = rows > 0 ? _values / rows : _columns;
  PARTITA_REQUIRE(rows_here * columns == _values,
                  std::string("a message of the wrong size: ") + _channel.what);
  const TypedSpan arrived = onTheWire(_channel, slot, _values);
  if (_device.empty()) return TypedMatrix(arrived, rows_here, columns);
  const TypedMatrix copy = _device[number % _device.size()].shaped(rows_here, columns);
  if (_channel.path == MessagePath::direct) {
    convert(space, arrived, copy.values());
  } else {
    copySpan<MemSpace, PinnedSpace>(space, arrived, copy.values());
  }
  slot.done.set(space);
  return copy;
}

void Receiver::release(const ExecSpace& space) {
  if (_device.empty()) _slots[_released % _slots.size()].done.set(space); // otherwise by `take`
  ++_released;
  postFree();
}

TypedMatrix Receiver::next(const ExecSpace& space) {
  if (_taken > _released) release(space);
  return take(space);
}

} // namespace partita
