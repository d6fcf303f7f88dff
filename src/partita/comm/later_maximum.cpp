#include "partita/comm/later_maximum.hpp"

#include <exception>

namespace partita {

LaterMaximum::~LaterMaximum() {
  // While an exception is on its way others may never answer, and the job is about to end.
  if (started() && std::uncaught_exceptions() == 0) MPI_Wait(&_request, MPI_STATUS_IGNORE);
}

void LaterMaximum::start(const Values& own) {
  _values = own;
  PARTITA_MPI(MPI_Iallreduce(MPI_IN_PLACE, _values.data(), count, MPI_INT64_T, MPI_MAX, _comm.get(), &_request));
}

LaterMaximum::Values LaterMaximum::finish() {
  wait(_request);
  return _values;
}

} // namespace partita
