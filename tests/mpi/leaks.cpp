#include "partita/comm/message.hpp"
#include "partita/comm/mpi.hpp"
#include "partita/comm/wait.hpp"

#include "small_run.hpp"
#include "support/catch.hpp"
#include "support/link_scope.hpp"

namespace partita::test::leaks {

TEST_CASE("A communicator that is not freed is reported", "[leaks]") {
  const int before = mpiObjects().communicators;
  auto leaked = std::make_unique<Communicator>(everyone().duplicate());
  CHECK(mpiObjects().communicators == before + 1);
  CHECK(describeLeaks() == std::to_string(before + 1) + " communicators not freed");
  Communicator moved = std::move(*leaked);
  leaked.reset();
  CHECK(mpiObjects().communicators == before + 1);
  moved = everyone().duplicate();
  CHECK(mpiObjects().communicators == before + 1);
}

TEST_CASE("A request that is never completed is reported", "[leaks]") {
  const MpiObjects before = mpiObjects();
  MPI_Request left = MPI_REQUEST_NULL;
  int value = 0;
  {
    Request request;
    MPI_Request* handle = request.start({WaitedFor::Kind::message, "a number", everyone().rank(), 1});
    PARTITA_MPI(MPI_Irecv(&value, 1, MPI_INT, everyone().rank(), 3, everyone().get(), handle));
    left = *handle;
  }
  CHECK(mpiObjects().requests == before.requests + 1);
  CHECK_THAT(describeLeaks(), Catch::Matchers::ContainsSubstring("1 request not completed (a number)"));
  MPI_Cancel(&left);
  MPI_Request_free(&left);
  countLeftRequests(-1, before.last_request);
}

TEST_CASE("A message that was given to a sender and never left is reported", "[leaks]") {
  const MpiObjects before = mpiObjects();
  const LinkScope links({0.0, 0.0, 1e-6, 3}); // half of the messages do not leave at once
  const Channel own{everyone(), everyone().rank(), Tag::forward, "a matrix", MessagePaths().messages};
  const Matrix matrix = makeMatrix("partita::test::matrix", 1, 3);
  const ExecSpace space;
  bool left = true;
  for (int i = 0; left && i < 100; ++i) {
    std::int64_t bytes = 0;
    Receiver receiver(own, 1, 3, 1, 1);
    Sender sender(own, 1, 3, 1, bytes);
    sender.send(space, matrix);
    left = sender.allSent();
    if (!left) continue;
    receiver.next(space);
    sender.finish();
  }
  CHECK_FALSE(left);
  CHECK(mpiObjects().requests == before.requests + 1);
  CHECK_THAT(describeLeaks(), Catch::Matchers::ContainsSubstring("1 request not completed (a matrix)"));
  countLeftRequests(-1, before.last_request);
}

TEST_CASE("A request is started once at a time", "[leaks]") {
  const int own = everyone().rank();
  int sent = 7, received = 0;
  Request receive, send;
  PARTITA_MPI(MPI_Irecv(&received, 1, MPI_INT, own, 3, everyone().get(), receive.start({})));
  CHECK_THROWS_AS(receive.start({}), InternalError);
  PARTITA_MPI(MPI_Isend(&sent, 1, MPI_INT, own, 3, everyone().get(), send.start({})));
  send.wait();
  receive.wait();
  CHECK(received == 7);
  CHECK(!receive.underWay());
}

} // namespace partita::test::leaks
