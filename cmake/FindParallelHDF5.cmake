# Finds HDF5 with MPI and defines the target ParallelHDF5::ParallelHDF5 (FindHDF5 itself defines a target only since
# CMake 3.19). A serial HDF5 counts as not found: the program would link, but parallel runs would corrupt their files.
set(HDF5_PREFER_PARALLEL TRUE)
find_package(HDF5 QUIET COMPONENTS C)
if(HDF5_PROVIDES_PARALLEL) # the name in HDF5 2, which FindHDF5 knows since CMake 4.3
  set(HDF5_IS_PARALLEL TRUE)
endif()

# Compilers that link HDF5 themselves, such as Cray's, leave the lists of libraries and folders empty.
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(ParallelHDF5 REQUIRED_VARS HDF5_FOUND HDF5_IS_PARALLEL VERSION_VAR HDF5_VERSION)

if(ParallelHDF5_FOUND AND NOT TARGET ParallelHDF5::ParallelHDF5)
  add_library(ParallelHDF5::ParallelHDF5 INTERFACE IMPORTED)
  target_include_directories(ParallelHDF5::ParallelHDF5 INTERFACE ${HDF5_INCLUDE_DIRS})
  target_link_libraries(ParallelHDF5::ParallelHDF5 INTERFACE ${HDF5_LIBRARIES})
endif()
