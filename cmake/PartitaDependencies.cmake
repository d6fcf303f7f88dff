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
include("${CMAKE_CURRENT_LIST_DIR}/PartitaKokkos.cmake") # checks that these two suit Partita
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

# Libraries that a build can do without. partita_find_optional(<NAME> <what for> <header> <its folders below the prefix>
# <library> <root> <cure>): declares PARTITA_ENABLE_<NAME>, and sets PARTITA_<NAME>_INCLUDE_DIR and PARTITA_<NAME>_LIBRARY,
# and PARTITA_HAVE_<NAME> if both are found. We name them ourselves since pkg-config would also link the BLAS that CBC was
# built with, and the CMake package of oneDNN asks for OpenCL.
function(partita_find_optional name purpose header folder library root cure)
  set(PARTITA_ENABLE_${name} AUTO CACHE STRING "${purpose} ${library}: ON, OFF, or AUTO to use it where it is found")
  set_property(CACHE PARTITA_ENABLE_${name} PROPERTY STRINGS ON OFF AUTO)
  set(PARTITA_HAVE_${name} OFF PARENT_SCOPE)
  if(NOT PARTITA_ENABLE_${name})
    return()
  endif()
  find_path(PARTITA_${name}_INCLUDE_DIR ${header} HINTS ${${root}} ENV ${root} PATH_SUFFIXES ${folder})
  find_library(PARTITA_${name}_LIBRARY ${library} HINTS ${${root}} ENV ${root} PATH_SUFFIXES lib lib64)
  mark_as_advanced(PARTITA_${name}_INCLUDE_DIR PARTITA_${name}_LIBRARY)
  if(PARTITA_${name}_INCLUDE_DIR AND PARTITA_${name}_LIBRARY)
    set(PARTITA_HAVE_${name} ON PARENT_SCOPE)
    message(STATUS "${name}: ${PARTITA_${name}_LIBRARY}")
  elseif(NOT PARTITA_ENABLE_${name} STREQUAL AUTO)
    message(FATAL_ERROR
            "PARTITA_ENABLE_${name} is ${PARTITA_ENABLE_${name}}, but ${header} or ${library} is missing: ${cure}")
  else()
    message(STATUS "${name}: not found")
  endif()
endfunction()

# Solvers of integer programs, for schedules of operators (docs/placement.md). The built-in search needs none.
partita_find_optional(HIGHS Solver interfaces/highs_c_api.h include/highs highs highs_ROOT
                      "set highs_ROOT to its installation, such as highsbox/highs_dist of the Python package highsbox.")
partita_find_optional(CBC Solver Cbc_C_Interface.h include/coin CbcSolver Cbc_ROOT
                      "install coinor-libcbc-dev, or set Cbc_ROOT to its installation.")

# Products of 16-bit numbers and convolutions on hosts. It computes in float and in host memory.
if(PARTITA_PRECISION STREQUAL float AND NOT Kokkos_DEVICES MATCHES "CUDA|HIP|SYCL")
  partita_find_optional(ONEDNN "Library" oneapi/dnnl/dnnl.hpp include dnnl onednn_ROOT
                        "install libdnnl-dev, or set onednn_ROOT to its installation.")
elseif(PARTITA_ENABLE_ONEDNN AND NOT PARTITA_ENABLE_ONEDNN STREQUAL AUTO)
  message(FATAL_ERROR "PARTITA_ENABLE_ONEDNN is ON, but oneDNN is only for builds that compute in float on the host.")
endif()

# Products, convolutions, attention and sums over ranks on NVIDIA devices. The library of products comes with CUDA.
if(Kokkos_DEVICES MATCHES "CUDA")
  if(NOT DEFINED CUDAToolkit_ROOT AND NOT DEFINED ENV{CUDAToolkit_ROOT})
    find_program(PARTITA_NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH /usr/local/cuda PATH_SUFFIXES bin)
    mark_as_advanced(PARTITA_NVCC)
    get_filename_component(CUDAToolkit_ROOT "${PARTITA_NVCC}" REALPATH)
    get_filename_component(CUDAToolkit_ROOT "${CUDAToolkit_ROOT}/../.." ABSOLUTE)
  endif()
  partita_find_optional(CUBLASLT "Products by" cublasLt.h include cublasLt CUDAToolkit_ROOT
                        "set CUDAToolkit_ROOT to the folder of CUDA.")
  set(cudnn_folders ${cudnn_ROOT} $ENV{cudnn_ROOT} ${CUDAToolkit_ROOT})
  partita_find_optional(CUDNN "Convolutions by" cudnn_graph.h include cudnn cudnn_folders
                        "set cudnn_ROOT to its installation, version 9 or newer.")
  if(PARTITA_HAVE_CUDNN)
    set(cudnn_frontend_folders ${cudnn_frontend_ROOT} $ENV{cudnn_frontend_ROOT} ${CUDAToolkit_ROOT})
    # Headers only, whose newer versions compile kernels by NVRTC.
    partita_find_optional(CUDNN_FRONTEND "Attention by the frontend of cuDNN, with" cudnn_frontend.h include nvrtc
                          cudnn_frontend_folders "set cudnn_frontend_ROOT to its installation, version 1.5 or newer.")
    find_path(PARTITA_CUDA_INCLUDE_DIR cuda_runtime.h HINTS ${CUDAToolkit_ROOT} ENV CUDAToolkit_ROOT PATH_SUFFIXES include)
    mark_as_advanced(PARTITA_CUDA_INCLUDE_DIR)
  elseif(PARTITA_ENABLE_CUDNN_FRONTEND AND NOT PARTITA_ENABLE_CUDNN_FRONTEND STREQUAL AUTO)
    message(FATAL_ERROR "PARTITA_ENABLE_CUDNN_FRONTEND is ON, but this build is without cuDNN.")
  endif()
  set(nccl_folders ${nccl_ROOT} $ENV{nccl_ROOT} ${CUDAToolkit_ROOT})
  partita_find_optional(NCCL "Sums of gradients by" nccl.h include nccl nccl_folders
                        "set nccl_ROOT to its installation, version 2.13 or newer.")
else()
  foreach(name CUBLASLT CUDNN CUDNN_FRONTEND NCCL)
    if(PARTITA_ENABLE_${name} AND NOT PARTITA_ENABLE_${name} STREQUAL AUTO)
      message(FATAL_ERROR "PARTITA_ENABLE_${name} is ON, but that library is only for builds with CUDA.")
    endif()
  endforeach()
endif()
