# Installs the build into a fresh folder, then configures, builds and runs a small project against this installation and
# no other part of the build. Another project has the sources of Partita in a subfolder.
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "failed (${status}): ${ARGN}")
  endif()
endfunction()

file(REMOVE_RECURSE "${WORK_DIR}")
set(prefix "${WORK_DIR}/prefix")
run(${CMAKE_COMMAND} --install "${BUILD_DIR}" --prefix "${prefix}")

run(${CMAKE_COMMAND} -G "${GENERATOR}" -S "${CONSUMER_DIR}" -B "${WORK_DIR}/build"
    "-DCMAKE_CXX_COMPILER=${CXX_COMPILER}" "-DCMAKE_CXX_FLAGS=${CXX_FLAGS}" "-DCMAKE_BUILD_TYPE=${BUILD_TYPE}"
    "-DPartita_ROOT=${prefix}")
# It takes the Kokkos and, of several MPI and HDF5 libraries, those that Partita was built with.
set(wrappers "^(MPI_CXX_COMPILER|HDF5_C_COMPILER_EXECUTABLE|Kokkos_DIR|KokkosKernels_DIR):")
file(STRINGS "${BUILD_DIR}/CMakeCache.txt" ours REGEX "${wrappers}")
file(STRINGS "${WORK_DIR}/build/CMakeCache.txt" theirs REGEX "${wrappers}")
if(NOT theirs STREQUAL ours)
  message(FATAL_ERROR "built with ${ours}, but the consumer found ${theirs}")
endif()
run(${CMAKE_COMMAND} --build "${WORK_DIR}/build")
run("${WORK_DIR}/build/consumer" "${VERSION}")

# All paths of the build are relative to Partita, also where it is not the whole project.
get_filename_component(sources "${CONSUMER_DIR}/../.." ABSOLUTE)
file(WRITE "${WORK_DIR}/larger/CMakeLists.txt"
     "cmake_minimum_required(VERSION 3.16)\nproject(Larger CXX)\nadd_subdirectory(\"${sources}\" partita)\n")
run(${CMAKE_COMMAND} -G "${GENERATOR}" -S "${WORK_DIR}/larger" -B "${WORK_DIR}/larger/build"
    "-DCMAKE_CXX_COMPILER=${CXX_COMPILER}" "-DCMAKE_CXX_FLAGS=${CXX_FLAGS}"
    "-DKokkos_DIR=${Kokkos_DIR}" "-DKokkosKernels_DIR=${KokkosKernels_DIR}")
run(${CMAKE_COMMAND} --build "${WORK_DIR}/larger/build" --target partita_version)
# A project gets neither its tests nor its installation.
run(${CMAKE_COMMAND} --install "${WORK_DIR}/larger/build" --prefix "${WORK_DIR}/larger/prefix")
if(EXISTS "${WORK_DIR}/larger/prefix" OR EXISTS "${WORK_DIR}/larger/build/partita/tests")
  message(FATAL_ERROR "a project that Partita is a part of has its tests or installs it")
endif()

run("${prefix}/bin/partita" --version)
run("${prefix}/bin/partita" train "${prefix}/share/partita/input-decks/demo.toml" -n)
run("${prefix}/bin/partita" plan predict "${prefix}/share/partita/input-decks/paradl-vgg16.toml" --cluster
    "${prefix}/share/partita/clusters/abci.toml")

foreach(page man/man1/partita.1 bash-completion/completions/partita partita/plot/report.py partita/plot/report.css
             partita/plot/deck-reference.md partita/scripts/byte_pairs.py doc/Partita/input-decks/demo.toml
             doc/Partita/batch doc/Partita/clusters doc/Partita/models)
  if(NOT EXISTS "${prefix}/share/${page}")
    message(FATAL_ERROR "share/${page} was not installed")
  endif()
endforeach()
