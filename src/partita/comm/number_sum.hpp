#pragma once

#include "partita/comm/mpi.hpp"
#include "partita/core/typed_span.hpp"

namespace partita {

/// The MPI data type for a precision, and the MPI operation that sums it: MPI has neither for 16-bit numbers.
/// Sums of two are rounded to nearest and do not depend on the order of the two.
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
