#pragma once

#include <functional>
#include <vector>

namespace partita::test {

/// What lives as long as the tests do and must go before MPI_Finalize.
inline std::vector<std::function<void()>>& atEnd() {
  static std::vector<std::function<void()>> functions;
  return functions;
}

} // namespace partita::test
