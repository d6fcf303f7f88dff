#pragma once

#include "partita/comm/link.hpp"
#include "partita/comm/message_path.hpp"
#include "partita/comm/tags.hpp"
#include "partita/comm/wait.hpp"
#include "partita/core/asynchronous.hpp"
#include "partita/core/typed_matrix.hpp"

namespace partita {

/// A one-way, ordered stream of matrices from one rank to another with a bounded number of messages in
/// flight: a message is in flight until the other end receives it. Buffers are allocated once, in the memory
/// that the message path requires. The running number of a message is part of its tag, so that the message
/// after a lost one is not mistaken for it. Matrices may differ in rows and columns.

/// One end of a stream.
struct Channel {
  const Communicator& comm;
  int peer;         ///< the rank at the other end, in `comm`
  Tag tag;          ///< distinguishes streams between the same ranks
  const char* what; ///< a literal, for reports: "activations"
  MessagePath path;
  Precision wire = Precision::single;   ///< in which values are sent; the same at both ends
  Precision stored = Precision::single; ///< in which the receiving end hands them out

  int worldRank() const { return comm.worldRank(peer); } ///< of the other end
};

/// A buffer that MPI reads or writes; exactly one of the two vectors is allocated.
struct MessageSlot {
  Vector direct;
  PinnedVector staged;
  std::int64_t values = 0; ///< to be sent
  Event done;              ///< the kernels and copies that write or read it
  Real* data() const { return direct.data() != nullptr ? direct.data() : staged.data(); }
  std::int64_t bytes() const { return (direct.size() + staged.size()) * sizeof(Real); }
};

/// The sending end. `send` asks the device for a copy and returns; it waits only while `depth` messages are
/// in flight. A message leaves once its copy is complete: in the next call of a function of the sender, or
/// while the rank waits for something else. Values of another precision than that of the wire are rounded.
/// Call `finish` after the last message: one that is still in flight when the sender is destroyed counts as a
/// leak, except during stack unwinding.
class Sender {
 public:
  /// Messages of up to rows x columns values; `bytes` counts the payload.
  Sender(const Channel& channel, std::int64_t rows, std::int64_t columns, std::int64_t depth,
         std::int64_t& bytes);
  Sender(const Sender&) = delete;
  Sender& operator=(const Sender&) = delete;
  ~Sender();

  void send(const ExecSpace& space, const TypedMatrix& matrix);
  void progress(); ///< sends what the device has copied; does not wait
  bool allSent() const { return _sent == _given; }
  void finish(); ///< waits until all messages have been received

 private:
  void start();

  Channel _channel;
  std::vector<MessageSlot> _slots;
  std::vector<Request> _requests;
  SlowLink _link;
  std::int64_t _given = 0, _sent = 0; ///< messages; those between them wait for their copies
  std::int64_t& _bytes;
  IdleHook _hook;
};

/// The receiving end of `count` messages; receives are posted for all free buffers.
class Receiver {
 public:
  /// Allocates `depth` buffers, of which the caller may hold up to `held` at once.
  Receiver(const Channel& channel, std::int64_t rows, std::int64_t columns, std::int64_t depth,
           std::int64_t count, std::int64_t held = 1);
  ~Receiver();
  Receiver(const Receiver&) = delete;
  Receiver& operator=(const Receiver&) = delete;

  /// Has the next message arrived? Does not wait.
  bool ready();
  /// The message that `ready` tests for, as the watchdog reports it.
  WaitedFor awaited() const;
  /// Waits for the next matrix and returns it as [rows, as many columns as were sent], or as [as many rows as
  /// were sent, columns] if `rows` is 0. It is valid until `release`; the caller may overwrite it.
  TypedMatrix take(const ExecSpace& space, std::int64_t rows = 0);
  /// Returns the oldest matrix: its buffer receives again.
  void release(const ExecSpace& space);

  /// The next matrix, [rows sent, columns]; valid until the next call.
  TypedMatrix next(const ExecSpace& space);

 private:
  void post();
  void postFree();

  Channel _channel;
  std::int64_t _columns, _count;
  std::int64_t _capacity; ///< of a message, in values on the wire
  std::int64_t _posted = 0, _taken = 0, _released = 0;
  std::vector<MessageSlot> _slots;
  std::vector<Request> _requests;
  std::vector<TypedRows> _device; ///< copies of staged or converted messages, one per held matrix
  bool _here = false;             ///< has the next message arrived?
  std::int64_t _values = 0;       ///< in that message
  double _due = 0.0;              ///< on a slow link: earliest arrival
  Event _asked;                   ///< the work of the device before the last `take` that found no message
};

} // namespace partita
