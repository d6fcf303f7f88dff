#pragma once

#include "partita/comm/mpi.hpp"
#include "partita/core/types.hpp"

namespace partita {

/// A one-way stream of matrices from one rank to another, in order, with a bounded number on their way.
/// Buffers are made once. On a host back end they are what MPI reads and writes; on a device the matrices are
/// staged through pinned host memory.

/// The sending end. `send` copies and returns; it waits only where `depth` messages are still on their way.
class Sender {
 public:
  /// Messages of up to rows x columns values to rank `to` of `comm`; `bytes` counts the payload.
  Sender(const Communicator& comm, int to, int tag, std::int64_t rows, std::int64_t columns,
         std::int64_t depth, std::int64_t& bytes);
  ~Sender() noexcept(false);
  Sender(const Sender&) = delete;
  Sender& operator=(const Sender&) = delete;

  void send(const ExecSpace& space, const Matrix& matrix);
  void finish(); ///< waits until all messages have left

 private:
  MPI_Comm _comm;
  int _to, _tag;
  std::vector<PinnedMatrix> _slots;
  std::vector<MPI_Request> _requests;
  std::size_t _next = 0;
  std::int64_t& _bytes;
};

/// The receiving end: `count` messages are coming; receives are posted `depth` ahead.
class Receiver {
 public:
  Receiver(const Communicator& comm, int from, int tag, std::int64_t rows, std::int64_t columns,
           std::int64_t depth, std::int64_t count);
  ~Receiver();
  Receiver(const Receiver&) = delete;
  Receiver& operator=(const Receiver&) = delete;

  /// The next matrix, [rows sent, columns]; valid until the next call.
  Matrix next(const ExecSpace& space);

 private:
  void post(std::size_t slot);

  MPI_Comm _comm;
  int _from, _tag;
  std::int64_t _columns, _unposted, _taken = 0;
  std::vector<PinnedMatrix> _slots;
  std::vector<MPI_Request> _requests;
  Matrix _device; ///< only where the device is not the host
};

} // namespace partita
