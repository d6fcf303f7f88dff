#include "partita/comm/later_maximum.hpp"

#include <exception>

namespace partita {

LaterMaximum::~LaterMaximum() {
  // While an exception is on its way others may never answer, and the job is about to end.
  if (started() && std::uncaught_exceptions() == 0) _request.wait();
}

void LaterMaximum::start(const Values& own) {
  _values = own;
  PARTITA_MPI(MPI_Iallreduce(MPI_IN_PLACE, _values.data(), count, MPI_INT64_T, MPI_MAX, _comm.get(),
                             _request.start({WaitedFor::Kind::all, "agreement"})));
}

LaterMaximum::Values LaterMaximum::finish() {
  _request.wait();
  return _values;
}

} // namespace partita
