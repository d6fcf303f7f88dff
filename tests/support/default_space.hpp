#pragma once

#include "partita/core/types.hpp"

namespace partita::test {

/// The default instance for tests at file scope, where an ExecSpace cannot be made: Kokkos does not run yet.
struct DefaultSpace {
  operator ExecSpace() const { return ExecSpace(); }
};

} // namespace partita::test
