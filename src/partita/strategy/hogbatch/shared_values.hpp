#pragma once

#include "partita/core/types.hpp"

#include <cstdint>
#include <cstring>

// Values that several processes read and change at the same time, without locks.
//
// Each value is read and written as a whole: a reader sees it as it was before or after a change, never half
// of it. C++ promises this for atomic access only, to one value at a time, which takes several times as long
// as a pass over private memory. On x86-64 and aarch64 no aligned vector load or store divides one of its
// values (guaranteed on aarch64; true of all x86-64 processors, but guaranteed for single values only). Here
// a vector is accessed as a volatile object, so that the compiler neither repeats, merges nor leaves out an
// access. We assume that it makes one instruction of each, as GCC and Clang do; the standard does not say so.
// Elsewhere each value is a relaxed atomic.
#if (defined(__x86_64__) || defined(__aarch64__)) && defined(__GNUC__) && !defined(__CUDACC__) &&            \
    !defined(__SANITIZE_THREAD__)
#define PARTITA_SHARED_VECTORS
#endif

namespace partita {

#ifdef PARTITA_SHARED_VECTORS
/// As many values as one instruction of this build loads or stores.
using RealVector [[gnu::vector_size(vector_bytes), gnu::may_alias]] = Real;

inline void loadShared(const Real* shared, RealVector& values) {
  values = *reinterpret_cast<const volatile RealVector*>(shared);
}
inline void storeShared(Real* shared, const RealVector& values) {
  *reinterpret_cast<volatile RealVector*>(shared) = values;
}
#else
using RealVector = Real;
#endif

inline void loadShared(const Real* shared, Real& value) {
  __atomic_load(shared, &value, __ATOMIC_RELAXED);
}
inline void storeShared(Real* shared, Real value) {
  __atomic_store(shared, &value, __ATOMIC_RELAXED);
}

} // namespace partita
