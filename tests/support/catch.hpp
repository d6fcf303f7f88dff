#pragma once

/// Catch2 2.x and 3.x under one set of names: Catch::Approx (also plain Approx) and
/// Catch::Matchers::ContainsSubstring.

#if __has_include(<catch2/catch_all.hpp>)

#include <catch2/catch_all.hpp>

using Catch::Approx;

#else

#include <catch2/catch.hpp>

#include <string>

namespace Catch {
using Detail::Approx;
namespace Matchers {
inline auto ContainsSubstring(const std::string& text) {
  return Contains(text);
}
} // namespace Matchers
} // namespace Catch

#endif
