#include "partita/comm/message.hpp"

#include "partita/core/region.hpp"

#include <algorithm>
#include <exception>

namespace partita {

namespace {

std::vector<PinnedMatrix> makeSlots(std::int64_t depth, std::int64_t rows, std::int64_t columns) {
  std::vector<PinnedMatrix> slots;
  for (std::int64_t i = 0; i < depth; ++i) {
    slots.emplace_back(Kokkos::view_alloc(Kokkos::WithoutInitializing, "partita::message"), rows, columns);
  }
  return slots;
}

PinnedMatrix topRowsPinned(const PinnedMatrix& slot, std::int64_t rows) {
  return PinnedMatrix(slot.data(), static_cast<std::size_t>(rows), slot.extent(1));
}

} // namespace

Sender::Sender(const Communicator& comm, int to, int tag, std::int64_t rows, std::int64_t columns,
               std::int64_t depth, std::int64_t& bytes)
    : _comm(comm.get()), _to(to), _tag(tag), _slots(makeSlots(depth, rows, columns)),
      _requests(_slots.size(), MPI_REQUEST_NULL), _bytes(bytes) {}

Sender::~Sender() noexcept(false) {
  if (std::uncaught_exceptions() == 0) finish();
}

void Sender::send(const ExecSpace& space, const Matrix& matrix) {
  const Region region(space, "partita::Sender::send", Phase::communication);
  const std::size_t slot = _next++ % _slots.size();
  wait(_requests[slot]);
  const PinnedMatrix buffer = topRowsPinned(_slots[slot], static_cast<std::int64_t>(matrix.extent(0)));
  Kokkos::deep_copy(space, buffer, matrix);
  fence(space, "partita::Sender::send");
  const auto count = static_cast<std::int64_t>(buffer.size());
  PARTITA_MPI(MPI_Isend(buffer.data(), mpiCount(count), mpiType<Real>(), _to, _tag, _comm, &_requests[slot]));
  _bytes += count * static_cast<std::int64_t>(sizeof(Real));
}

void Sender::finish() {
  for (MPI_Request& request : _requests) wait(request);
}

Receiver::Receiver(const Communicator& comm, int from, int tag, std::int64_t rows, std::int64_t columns,
                   std::int64_t depth, std::int64_t count)
    : _comm(comm.get()), _from(from), _tag(tag), _columns(columns), _unposted(count),
      _slots(makeSlots(std::min(depth, std::max<std::int64_t>(count, 1)), rows, columns)),
      _requests(_slots.size(), MPI_REQUEST_NULL) {
  if (!device_is_host) _device = makeMatrix("partita::Receiver::device", rows, columns);
  for (std::size_t slot = 0; slot < _slots.size(); ++slot) post(slot);
}

Receiver::~Receiver() {
  for (MPI_Request& request : _requests) { // only an abandoned stream has any left
    if (request == MPI_REQUEST_NULL) continue;
    MPI_Cancel(&request);
    MPI_Request_free(&request);
  }
}

void Receiver::post(std::size_t slot) {
  if (_unposted == 0) return;
  --_unposted;
  PARTITA_MPI(MPI_Irecv(_slots[slot].data(), mpiCount(static_cast<std::int64_t>(_slots[slot].size())),
                        mpiType<Real>(), _from, _tag, _comm, &_requests[slot]));
}

Matrix Receiver::next(const ExecSpace& space) {
  const Region region(space, "partita::Receiver::next", Phase::communication);
  if (_taken > 0) { // nobody reads the previous message any more
    fence(space, "partita::Receiver::next");
    post(static_cast<std::size_t>(_taken - 1) % _slots.size());
  }
  const std::size_t slot = static_cast<std::size_t>(_taken++) % _slots.size();
  PARTITA_REQUIRE(_requests[slot] != MPI_REQUEST_NULL, "more messages taken than announced");
  MPI_Status status;
  wait(_requests[slot], &status);
  int count = 0;
  PARTITA_MPI(MPI_Get_count(&status, mpiType<Real>(), &count));
  const PinnedMatrix buffer = topRowsPinned(_slots[slot], count / _columns);
  if constexpr (device_is_host) {
    return Matrix(buffer.data(), buffer.extent(0), buffer.extent(1));
  } else {
    Matrix device = topRows(_device, static_cast<std::int64_t>(buffer.extent(0)));
    Kokkos::deep_copy(space, device, buffer);
    return device;
  }
}

} // namespace partita
