#pragma once

#include <Kokkos_Core.hpp>

#include <algorithm>
#include <string>
#include <vector>

namespace partita::test {

/// The names of all regions that begin during the lifetime of the object.
class Regions {
 public:
  Regions() {
    names().clear();
    Kokkos::Tools::Experimental::set_push_region_callback([](const char* name) { names().push_back(name); });
  }
  ~Regions() { Kokkos::Tools::Experimental::set_push_region_callback(nullptr); }
  Regions(const Regions&) = delete;
  Regions& operator=(const Regions&) = delete;

  static std::vector<std::string>& names() {
    static std::vector<std::string> all;
    return all;
  }
  static bool had(const std::string& name) {
    return std::find(names().begin(), names().end(), name) != names().end();
  }
};

} // namespace partita::test
