#include "partita/comm/number_sum.hpp"

#include "partita/core/loops.hpp"

namespace partita {

namespace {

template <class Half>
void add(void* in, void* in_out, int* count, MPI_Datatype*) {
  const auto* a = static_cast<const Half*>(in);
  auto* b = static_cast<Half*>(in_out);
  const int size = *count;
  PARTITA_INDEPENDENT
  for (int i = 0; i < size; ++i) b[i] = toHalf<Half>(toFloat(a[i]) + toFloat(b[i]));
}

} // namespace

MPI_Datatype mpiType(Precision precision) {
  return precision == Precision::single ? mpiType<Real>() : MPI_UINT16_T;
}

NumberSum::NumberSum(Precision precision) : _own(precision != Precision::single), _operation(MPI_SUM) {
  if (!_own) return;
  MPI_User_function* const function = precision == Precision::bf16 ? add<BFloat16> : add<Float16>;
  PARTITA_MPI(MPI_Op_create(function, 1, &_operation));
}

NumberSum::~NumberSum() {
  if (_own) MPI_Op_free(&_operation);
}

} // namespace partita
