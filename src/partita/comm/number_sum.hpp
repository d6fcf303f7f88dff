#pragma once

#include "partita/comm/mpi.hpp"
#include "partita/core/typed_span.hpp"

namespace partita {

/// How MPI knows numbers of a precision, and adds them: of those of 16 bits it has no idea by itself. Sums of
/// two are rounded to the nearest, and the same whichever comes first.
MPI_Datatype mpiType(Precision precision);

class NumberSum {
 public:
  explicit NumberSum(Precision precision);
  ~NumberSum();
  NumberSum(const NumberSum&) = delete;
  NumberSum& operator=(const NumberSum&) = delete;

  MPI_Op get() const { return _operation; }

 private:
  bool _own;
  MPI_Op _operation;
};

} // namespace partita
