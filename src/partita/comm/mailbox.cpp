#include "partita/comm/mailbox.hpp"

#include <utility>

namespace partita {

Mailbox::Mailbox(const Communicator& comm) : _comm(comm.duplicate()), _sent(comm.size()) {}

void Mailbox::send(int to, Tag tag, const void* bytes, std::size_t size) {
  PARTITA_REQUIRE(!_closed, "a message after the mailbox was closed");
  PARTITA_REQUIRE(size <= most_bytes, "the message is too long: " + std::to_string(size) + " bytes");
  const auto* begin = static_cast<const char*>(bytes);
  if (to == rank()) {
    _arrived[static_cast<std::size_t>(tag)].push_back({to, tag, {begin, begin + size}});
    return;
  }
  forgetDelivered();
  Outgoing& message = _outgoing->emplace_back();
  message.bytes.assign(begin, begin + size);
  PARTITA_MPI(MPI_Isend(message.bytes.data(), static_cast<int>(size), MPI_BYTE, to, static_cast<int>(tag),
                        _comm.get(), message.request.start({WaitedFor::Kind::taker, "small message"})));
  ++_sent[to];
}

void Mailbox::forgetDelivered() {
  _outgoing->remove_if([](Outgoing& message) { return message.request.test(); });
}

void Mailbox::poll() {
  forgetDelivered();
  for (;;) {
    int found = 0;
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status status;
    PARTITA_MPI(MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, _comm.get(), &found, &message, &status));
    if (found == 0) return;
    int size = 0;
    PARTITA_MPI(MPI_Get_count(&status, MPI_BYTE, &size));
    Message taken{status.MPI_SOURCE, static_cast<Tag>(status.MPI_TAG), std::vector<char>(size)};
    PARTITA_MPI(MPI_Mrecv(taken.bytes.data(), size, MPI_BYTE, &message, MPI_STATUS_IGNORE));
    ++_received;
    _arrived[status.MPI_TAG].push_back(std::move(taken));
  }
}

std::optional<Mailbox::Message> Mailbox::take(Tag tag) {
  std::deque<Message>& arrived = _arrived[static_cast<std::size_t>(tag)];
  if (arrived.empty()) return std::nullopt;
  Message oldest = std::move(arrived.front());
  arrived.pop_front();
  return oldest;
}

Mailbox::Message Mailbox::waitAny(const std::vector<Tag>& tags, const char* what) {
  Waiting waiting({WaitedFor::Kind::any, what});
  for (;; waiting.pause()) {
    poll();
    for (const Tag tag : tags) {
      if (std::optional<Message> message = take(tag)) {
        waiting.over();
        return *std::move(message);
      }
    }
  }
}

/// A rank is done when it has received as many messages as all others together have sent to it.
void Mailbox::close() {
  _closed = true;
  const Lasting<std::int64_t> expected;
  const Lasting<std::vector<std::int64_t>> sent(_sent);
  Request request;
  PARTITA_MPI(MPI_Ireduce_scatter_block(sent->data(), &*expected, 1, MPI_INT64_T, MPI_SUM, _comm.get(),
                                        request.start({WaitedFor::Kind::all, "number of messages"})));
  request.wait();
  Waiting waiting({WaitedFor::Kind::any, "last messages"});
  for (poll(); _received < *expected || !_outgoing->empty(); poll()) waiting.pause();
  waiting.over();
}

} // namespace partita
