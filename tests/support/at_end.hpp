#pragma once

#include <functional>
#include <vector>

namespace partita::test {

/// Clean-up of objects that live as long as the tests do and must be destroyed before MPI_Finalize.
inline std::vector<std::function<void()>>& atEnd() {
  static std::vector<std::function<void()>> functions;
  return functions;
}

} // namespace partita::test
