# Does the Kokkos that was found suit Partita? With other back ends, messages would be sent before kernels have written
# them. With unified memory, the host could read a value while a kernel writes it.
foreach(device IN LISTS Kokkos_DEVICES)
  if(NOT device MATCHES "^(SERIAL|OPENMP|THREADS|CUDA|HIP)$")
    message(FATAL_ERROR "Partita does not support Kokkos' back end ${device}, found in ${Kokkos_DIR}: "
                        "use a Kokkos with Serial, OpenMP, Threads, CUDA or HIP.")
  endif()
endforeach()
foreach(option IN LISTS Kokkos_OPTIONS)
  if(option MATCHES "UVM$|UNIFIED_MEMORY$")
    message(FATAL_ERROR "Partita needs separate memories of host and device, but the Kokkos in ${Kokkos_DIR} was built "
                        "with ${option}.")
  endif()
endforeach()

# The libraries that Kokkos Kernels leaves products to. Its own products are at least ten times slower.
get_target_property(kernels_folders Kokkos::kokkoskernels INTERFACE_INCLUDE_DIRECTORIES)
find_file(PARTITA_KERNELS_CONFIG KokkosKernels_config.h PATHS ${kernels_folders} "${KokkosKernels_DIR}/../../../include"
          PATH_SUFFIXES include NO_DEFAULT_PATH)
mark_as_advanced(PARTITA_KERNELS_CONFIG)
set(libraries)
if(PARTITA_KERNELS_CONFIG)
  file(STRINGS "${PARTITA_KERNELS_CONFIG}" libraries REGEX "^#define KOKKOSKERNELS_ENABLE_TPL_(BLAS|MKL|CUBLAS|ROCBLAS)")
  string(REGEX REPLACE "#define KOKKOSKERNELS_ENABLE_TPL_" "" libraries "${libraries}")
  list(REMOVE_DUPLICATES libraries)
endif()
if(Kokkos_DEVICES MATCHES "CUDA")
  set(wanted CUBLAS)
elseif(Kokkos_DEVICES MATCHES "HIP")
  set(wanted ROCBLAS)
else()
  set(wanted BLAS)
endif()
if(PARTITA_KERNELS_CONFIG AND NOT libraries MATCHES "${wanted}|MKL")
  string(CONCAT lack "Kokkos Kernels in ${KokkosKernels_DIR} was built without ${wanted}, and its own products are at "
                     "least ten times slower: build it with -DKokkosKernels_ENABLE_TPL_${wanted}=ON.")
  if(wanted STREQUAL "CUBLAS")
    message(FATAL_ERROR "${lack}")
  endif()
  message(WARNING "${lack}")
endif()
string(REPLACE ";" ", " found_devices "${Kokkos_DEVICES}")
string(REPLACE ";" ", " found_libraries "${libraries}")
message(STATUS "Kokkos ${Kokkos_VERSION} with ${found_devices} in ${Kokkos_DIR}; Kokkos Kernels with ${found_libraries}")
