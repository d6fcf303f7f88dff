#pragma once

#include "partita/comm/link.hpp"
#include "partita/comm/message_path.hpp"
#include "partita/comm/tags.hpp"
#include "partita/comm/wait.hpp"
#include "partita/core/typed_span.hpp"

namespace partita {

/// A one-way stream of matrices from one rank to another, in order, with a bounded number on their way: a
/// message has left when the other end takes it. Buffers are made once, in the memory that the path of the
/// messages wants. The running number of a message is part of its tag, so that a lost one cannot be taken for
/// the next. Matrices may differ in rows and in columns.

/// One end of a stream.
struct Channel {
  const Communicator& comm;
  int peer;         ///< the rank at the other end, in `comm`
  Tag tag;          ///< tells streams between the same ranks apart
  const char* what; ///< a literal, for reports: "activations"
  MessagePath path;
  Precision wire = Precision::single; ///< in which values travel, rounded; the same at both ends
};

/// A buffer that MPI reads or writes; one of the two is there.
struct MessageSlot {
  using PinnedVector = Kokkos::View<Real*, Kokkos::LayoutRight, PinnedSpace>;
  Vector direct;
  PinnedVector staged;
  Real* data() const { return direct.data() != nullptr ? direct.data() : staged.data(); }
  std::int64_t bytes() const {
    return static_cast<std::int64_t>((direct.size() + staged.size()) * sizeof(Real));
  }
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
  SlowLink _link;
  std::int64_t _sent = 0;
  std::int64_t& _bytes;
};

/// The receiving end: `count` messages are coming; receives are posted as far ahead as there are buffers.
class Receiver {
 public:
  /// `depth` buffers, of which up to `held` are with the caller at once.
  Receiver(const Channel& channel, std::int64_t rows, std::int64_t columns, std::int64_t depth,
           std::int64_t count, std::int64_t held = 1);
  ~Receiver();
  Receiver(const Receiver&) = delete;
  Receiver& operator=(const Receiver&) = delete;

  /// Has the next message come? Does not wait.
  bool ready();
  /// What `ready` is asked for, as the watchdog tells it.
  WaitedFor awaited() const;
  /// The next matrix, waited for: [rows, as many columns as came], or [as many rows as came, columns] where
  /// `rows` is 0. It stays until `release`; the caller may overwrite it.
  Matrix take(const ExecSpace& space, std::int64_t rows = 0);
  /// Gives the oldest matrix back: its buffer receives again.
  void release(const ExecSpace& space);

  /// The next matrix, [rows sent, columns]; valid until the next call.
  Matrix next(const ExecSpace& space);

 private:
  void post();

  Channel _channel;
  int _world_rank; ///< of the other end
  std::int64_t _columns, _count;
  std::int64_t _capacity; ///< of a message, values on the wire
  std::int64_t _posted = 0, _taken = 0, _released = 0;
  std::vector<MessageSlot> _slots;
  std::vector<Request> _requests;
  std::vector<Vector> _device; ///< what messages become that are staged or of 16 bits, one each that is held
  bool _here = false;          ///< the next one
  std::int64_t _values = 0;    ///< of that one
  double _due = 0.0;           ///< on a slow link: not before
};

} // namespace partita
