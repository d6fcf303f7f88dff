#include "partita/comm/mailbox.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <stdexcept>

#include "pmpi.hpp"
#include "small_run.hpp"
#include "support/catch.hpp"

namespace partita::test::mailbox {

namespace {

struct Numbered {
  std::int64_t number = 0;
};

/// Takes all messages available with this tag; the numbers from each rank must arrive in order.
void takeAll(Mailbox& mailbox, Tag tag, std::vector<std::int64_t>& next) {
  mailbox.poll();
  while (const auto message = mailbox.take(tag)) {
    std::int64_t& expected = next[message->from];
    REQUIRE(message->tag == tag);
    REQUIRE(message->as<Numbered>().number == expected);
    ++expected;
  }
}

/// Every rank sends `count` messages with each of two tags to all ranks including itself, and takes some in
/// between.
void exchange(std::int64_t count, unsigned seed) {
  const auto ranks = static_cast<std::size_t>(everyone().size());
  std::mt19937_64 random(seed + static_cast<unsigned>(everyone().rank()));
  Mailbox mailbox(everyone());
  std::vector<std::int64_t> reports(ranks), paces(ranks);
  for (std::int64_t number = 0; number < count; ++number) {
    for (int to = 0; to < everyone().size(); ++to) {
      mailbox.send(to, Tag::report, Numbered{number});
      mailbox.send(to, Tag::pace, Numbered{number});
    }
    if (random() % 64 == 0) takeAll(mailbox, Tag::report, reports);
    if (random() % 256 == 0) takeAll(mailbox, Tag::pace, paces);
  }
  mailbox.close();
  takeAll(mailbox, Tag::report, reports);
  takeAll(mailbox, Tag::pace, paces);
  CHECK(reports == std::vector<std::int64_t>(ranks, count));
  CHECK(paces == std::vector<std::int64_t>(ranks, count));
}

} // namespace

TEST_CASE("Small messages arrive in order, and none is lost at the end", "[comm]") {
  const MpiObjects before = mpiObjects();
  exchange(0, 1);
  exchange(20000, 2);
  {
    const MpiDelays delays(3);
    exchange(300, 3);
  }
  CHECK(mpiObjects().requests == before.requests);
  CHECK(mpiObjects().communicators == before.communicators);
}

TEST_CASE("One rank waits for any other", "[comm]") {
  const MpiDelays delays(5);
  Mailbox mailbox(everyone());
  const int ranks = everyone().size();
  if (everyone().rank() == 0) {
    std::vector<int> heard(static_cast<std::size_t>(ranks));
    for (int i = 0; i < 2 * (ranks - 1); ++i) {
      const Mailbox::Message message = mailbox.waitAny({Tag::report, Tag::pace}, "a number");
      CHECK(message.as<Numbered>().number == (message.tag == Tag::report ? 1 : 2));
      ++heard[static_cast<std::size_t>(message.from)];
      mailbox.send(message.from, Tag::agreement, message.as<Numbered>());
    }
    CHECK(std::count(heard.begin() + 1, heard.end(), 2) == ranks - 1);
  } else {
    mailbox.send(0, Tag::report, Numbered{1});
    CHECK(mailbox.waitAny({Tag::agreement}, "an answer").as<Numbered>().number == 1);
    mailbox.send(0, Tag::pace, Numbered{2});
    CHECK(mailbox.waitAny({Tag::agreement}, "an answer").as<Numbered>().number == 2);
  }
  mailbox.close();
}

TEST_CASE("Small messages have any length up to the longest", "[comm]") {
  Mailbox mailbox(everyone());
  const int to = (everyone().rank() + 1) % everyone().size();
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, Mailbox::most_bytes}) {
    std::vector<char> bytes(size);
    std::iota(bytes.begin(), bytes.end(), static_cast<char>(size));
    mailbox.send(to, Tag::report, bytes.data(), size);
    CHECK(mailbox.waitAny({Tag::report}, "bytes").bytes == bytes);
  }
  CHECK(!mailbox.take(Tag::report).has_value());
  const std::vector<char> long_one(Mailbox::most_bytes + 1);
  CHECK_THROWS_AS(mailbox.send(to, Tag::report, long_one.data(), long_one.size()), InternalError);
  mailbox.close();
  CHECK_THROWS_AS(mailbox.send(to, Tag::report, Numbered{}), InternalError);
}

TEST_CASE("Structs travel together, in as few messages as hold them", "[comm]") {
  constexpr std::size_t most = Mailbox::most_bytes / sizeof(Numbered), count = 2 * most + 1;
  Mailbox mailbox(everyone());
  const int to = (everyone().rank() + 1) % everyone().size();
  std::vector<Numbered> numbers(count);
  for (std::size_t i = 0; i < count; ++i) numbers[i].number = static_cast<std::int64_t>(i);
  mailbox.sendAll(to, Tag::report, numbers);
  mailbox.sendAll(to, Tag::report, std::vector<Numbered>()); // nothing
  mailbox.close();
  std::vector<std::size_t> sizes;
  std::int64_t expected = 0;
  while (const auto message = mailbox.take(Tag::report)) {
    const auto part = message->asAll<Numbered>();
    sizes.push_back(part.size());
    for (const Numbered& numbered : part) CHECK(numbered.number == expected++);
  }
  CHECK(sizes == std::vector<std::size_t>{most, most, 1});
}

TEST_CASE("What is under way outlives a mailbox that an exception destroys", "[comm]") {
  const int ranks = everyone().size(), rank = everyone().rank();
  if (ranks == 1) return;
  const MpiRecording recording;
  try {
    Mailbox mailbox(everyone());
    mailbox.send((rank + 1) % ranks, Tag::report, Numbered{17});
    Numbered received;
    PARTITA_MPI(MPI_Recv(&received, sizeof received, MPI_BYTE, (rank + ranks - 1) % ranks,
                         static_cast<int>(Tag::report), recording.all().back().comm, MPI_STATUS_IGNORE));
    throw std::runtime_error("a rank is lost");
  } catch (const std::runtime_error&) { // this rank goes on, and MPI may still read the message
  }
  Numbered sent;
  for (const MpiRecord& record : recording.all())
    if (record.call == MpiCall::send && record.bytes == sizeof sent)
      std::memcpy(&sent, record.buffer, sizeof sent);
  CHECK(sent.number == 17);
}

TEST_CASE("A message of another length is not taken for a struct", "[comm]") {
  const Mailbox::Message message{0, Tag::report, std::vector<char>(3)};
  CHECK_THROWS_AS(message.as<Numbered>(), InternalError);
  CHECK_THROWS_AS(message.asAll<Numbered>(), InternalError);
}

} // namespace partita::test::mailbox
