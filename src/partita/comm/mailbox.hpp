#pragma once

#include "partita/comm/lasting.hpp"
#include "partita/comm/tags.hpp"
#include "partita/comm/wait.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <list>
#include <optional>
#include <type_traits>
#include <vector>

namespace partita {

/// Small messages from any rank to any rank, by tag. Sending does not wait for the receiver: an outgoing
/// message is kept until it is delivered, and an incoming one until it is taken. Used by the main thread
/// only.
class Mailbox {
 public:
  /// Maximum message size: every MPI library accepts it before the receiver asks for it.
  static constexpr std::size_t most_bytes = 2048;

  struct Message {
    int from = 0;
    Tag tag{};
    std::vector<char> bytes;

    /// The struct that was sent.
    template <class T>
    T as() const {
      static_assert(std::is_trivially_copyable<T>::value, "travels as bytes");
      PARTITA_REQUIRE(bytes.size() == sizeof(T), "a message of another length");
      T value;
      std::memcpy(&value, bytes.data(), sizeof(T));
      return value;
    }
    /// The structs that were sent together.
    template <class T>
    std::vector<T> asAll() const {
      static_assert(std::is_trivially_copyable<T>::value, "travels as bytes");
      PARTITA_REQUIRE(!bytes.empty() && bytes.size() % sizeof(T) == 0, "a message of another length");
      std::vector<T> values(bytes.size() / sizeof(T));
      std::memcpy(values.data(), bytes.data(), bytes.size());
      return values;
    }
  };

  /// Uses its own communicator. Collective.
  explicit Mailbox(const Communicator& comm);

  int rank() const { return _comm.rank(); }
  int size() const { return _comm.size(); }

  /// Never blocks. Messages from one rank to another arrive in the order in which they were sent.
  void send(int to, Tag tag, const void* bytes, std::size_t size);
  template <class T>
  void send(int to, Tag tag, const T& value) {
    static_assert(std::is_trivially_copyable<T>::value && sizeof(T) <= most_bytes, "travels as bytes");
    send(to, tag, &value, sizeof value);
  }
  /// Sends structs in as few messages as possible, for `Message::asAll`.
  template <class T>
  void sendAll(int to, Tag tag, const std::vector<T>& values) {
    static_assert(std::is_trivially_copyable<T>::value && sizeof(T) <= most_bytes, "travels as bytes");
    constexpr std::size_t most = most_bytes / sizeof(T);
    for (std::size_t first = 0; first < values.size(); first += most)
      send(to, tag, values.data() + first, std::min(most, values.size() - first) * sizeof(T));
  }

  /// Receives all messages that have arrived, from any rank, and frees those that have been delivered.
  void poll();
  /// The oldest message with this tag, as of the last poll.
  std::optional<Message> take(Tag tag);
  /// Waits for a message with one of these tags from any rank. `what` is a literal, for the watchdog.
  Message waitAny(const std::vector<Tag>& tags, const char* what);

  /// Afterwards every message ever sent has arrived and can be taken; no more may be sent. Collective.
  void close();

 private:
  struct Outgoing {
    std::vector<char> bytes;
    Request request;
  };

  void forgetDelivered();

  Communicator _comm;
  std::array<std::deque<Message>, tag_count> _arrived; ///< by tag
  Lasting<std::list<Outgoing>> _outgoing; ///< the loss of a rank may end the training before their delivery
  std::vector<std::int64_t> _sent;        ///< messages, by receiver
  std::int64_t _received = 0;
  bool _closed = false;
};

} // namespace partita
