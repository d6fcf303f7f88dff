#pragma once

#include "partita/comm/message_path.hpp"
#include "partita/comm/wait.hpp"
#include "partita/core/numbers.hpp"

namespace partita {

/// A one-way stream of matrices from one rank to another, in order, with a bounded number on their way: a
/// message has left when the other end takes it. Buffers are made once, in the memory that the path of the
/// messages wants. The running number of a message is part of its tag, so that a lost one cannot be taken for
/// the next.

/// One end of a stream.
struct Channel {
  const Communicator& comm;
  int peer;         ///< the rank at the other end, in `comm`
  int tag;          ///< tells streams between the same ranks apart: 0..15
  const char* what; ///< a literal, for reports: "activations"
  MessagePath path;
  Precision wire = Precision::single; ///< in which values travel, rounded; the same at both ends
};

/// A buffer that MPI reads or writes, [rows, columns]; one of the two is there. Values of 16 bits fill half
/// of it.
struct MessageSlot {
  Matrix direct;
  PinnedMatrix staged;
  Real* data() const { return direct.data() != nullptr ? direct.data() : staged.data(); }
};

/// The sending end. `send` copies and returns; it waits only where `depth` messages are still on their way.
class Sender {
 public:
  /// Messages of up to rows x columns values; `bytes` counts the payload.
  Sender(const Channel& channel, std::int64_t rows, std::int64_t columns, std::int64_t depth,
         std::int64_t& bytes);
  ~Sender() noexcept(false);
  Sender(const Sender&) = delete;
  Sender& operator=(const Sender&) = delete;

  void send(const ExecSpace& space, const Matrix& matrix);
  void finish(); ///< waits until all messages have left

 private:
  Channel _channel;
  int _world_rank; ///< of the other end
  std::vector<MessageSlot> _slots;
  std::vector<Request> _requests;
  std::int64_t _sent = 0;
  std::int64_t& _bytes;
};

/// The receiving end: `count` messages are coming; receives are posted `depth` ahead.
class Receiver {
 public:
  Receiver(const Channel& channel, std::int64_t rows, std::int64_t columns, std::int64_t depth,
           std::int64_t count);
  ~Receiver();
  Receiver(const Receiver&) = delete;
  Receiver& operator=(const Receiver&) = delete;

  /// The next matrix, [rows sent, columns]; valid until the next call.
  Matrix next(const ExecSpace& space);

 private:
  void post();

  Channel _channel;
  int _world_rank; ///< of the other end
  std::int64_t _columns, _count, _posted = 0, _taken = 0;
  std::vector<MessageSlot> _slots;
  std::vector<Request> _requests;
  Matrix _device; ///< what a message becomes that is staged or of 16 bits
};

} // namespace partita
