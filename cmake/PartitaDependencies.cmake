# The dependencies of Partita. If a package is missing, configuration ends with one line that says how to get it.
macro(partita_require name cure)
  find_package(${name} ${ARGN} QUIET)
  if(NOT ${name}_FOUND)
    message(FATAL_ERROR "Partita needs ${name}: ${cure}")
  endif()
endmacro()

set(kokkos_cure "set Kokkos_ROOT to its installation, or let ./bootstrap build it.")
partita_require(Kokkos "${kokkos_cure}")
if(Kokkos_VERSION VERSION_LESS 3.4 OR NOT Kokkos_VERSION VERSION_LESS 6)
  message(FATAL_ERROR "Partita needs Kokkos >= 3.4 and < 6, found ${Kokkos_VERSION} in ${Kokkos_DIR}: ${kokkos_cure}")
endif()
# Usually installed together with Kokkos; Kokkos_ROOT is then enough.
partita_require(KokkosKernels "set KokkosKernels_ROOT to its installation, or let ./bootstrap build it."
                HINTS "${Kokkos_DIR}/../../..")
partita_require(MPI "install libopenmpi-dev, or load the MPI module and set MPI_HOME." COMPONENTS C CXX)
partita_require(ParallelHDF5 "install libhdf5-openmpi-dev, or set HDF5_ROOT to a build >= 1.10.3 with --enable-parallel."
                1.10.3)
partita_require(ZLIB "install zlib1g-dev, or set ZLIB_ROOT.")
partita_require(Threads "the C++ compiler has no working thread library.")

# Finds a header-only library by its CMake package, or otherwise by pkg-config. `target` gets only the include path.
# Debian compiles toml++ into a shared library, which would ignore the limits that we set, and which every program that
# links to Partita would have to find.
function(partita_require_headers target package pkgconfig_name cure)
  find_package(${package} CONFIG QUIET)
  set(found ${package}::${package})
  if(NOT ${package}_FOUND)
    find_package(PkgConfig QUIET)
    if(PkgConfig_FOUND)
      pkg_check_modules(${package}_PC QUIET IMPORTED_TARGET ${pkgconfig_name})
    endif()
    set(found PkgConfig::${package}_PC)
  endif()
  if(NOT TARGET ${found})
    message(FATAL_ERROR "Partita needs ${package}: ${cure}")
  endif()
  add_library(${target} INTERFACE)
  target_include_directories(${target} SYSTEM INTERFACE $<TARGET_PROPERTY:${found},INTERFACE_INCLUDE_DIRECTORIES>)
endfunction()

partita_require_headers(partita_toml tomlplusplus tomlplusplus
                        "install libtomlplusplus-dev, or set tomlplusplus_ROOT.")
partita_require_headers(partita_cli11 CLI11 CLI11 "install libcli11-dev, or set CLI11_ROOT.")
partita_require_headers(partita_json nlohmann_json nlohmann_json
                        "install nlohmann-json3-dev, or set nlohmann_json_ROOT.")
