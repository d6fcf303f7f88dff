# Everything that `cmake --install` installs: the program, libraries, headers, decks, plotting scripts, documents, man
# page, shell completion, and the package for find_package(Partita).
include(CMakePackageConfigHelpers)

set(config_dir "${CMAKE_INSTALL_LIBDIR}/cmake/Partita")
install(TARGETS partita_app RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
install(TARGETS partita partita_plan EXPORT PartitaTargets
        ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(EXPORT PartitaTargets NAMESPACE Partita:: DESTINATION "${config_dir}")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/src/partita" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
        FILES_MATCHING PATTERN "*.hpp"
        PATTERN json_value.hpp EXCLUDE PATTERN graph_reader.hpp EXCLUDE) # need a JSON library, and only sources use them
install(DIRECTORY "${PROJECT_SOURCE_DIR}/input-decks" "${PROJECT_SOURCE_DIR}/clusters" "${PROJECT_SOURCE_DIR}/models"
                  "${PROJECT_SOURCE_DIR}/batch"
        USE_SOURCE_PERMISSIONS DESTINATION "${CMAKE_INSTALL_DATADIR}/partita")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/apps/plot" USE_SOURCE_PERMISSIONS
        DESTINATION "${CMAKE_INSTALL_DATADIR}/partita" PATTERN __pycache__ EXCLUDE)
install(FILES "${PROJECT_SOURCE_DIR}/docs/deck-reference.md" # has the defaults that report.py compares a deck with
        DESTINATION "${CMAKE_INSTALL_DATADIR}/partita/plot")
install(PROGRAMS "${PROJECT_SOURCE_DIR}/scripts/byte_pairs.py" DESTINATION "${CMAKE_INSTALL_DATADIR}/partita/scripts")
# In the folders that they have here, because they link to each other. Only their links to sources lead nowhere.
install(FILES "${PROJECT_SOURCE_DIR}/README.md" "${PROJECT_SOURCE_DIR}/CHANGELOG.md"
              "${PROJECT_SOURCE_DIR}/CONTRIBUTING.md" "${PROJECT_SOURCE_DIR}/CITATION.cff" "${PROJECT_SOURCE_DIR}/LICENSE"
        DESTINATION "${CMAKE_INSTALL_DOCDIR}")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/docs" DESTINATION "${CMAKE_INSTALL_DOCDIR}" PATTERN man EXCLUDE)
foreach(folder containers perf perf/scaling spack)
  install(FILES "${PROJECT_SOURCE_DIR}/${folder}/README.md" DESTINATION "${CMAKE_INSTALL_DOCDIR}/${folder}")
endforeach()
file(RELATIVE_PATH data_from_docs "${CMAKE_INSTALL_FULL_DOCDIR}" "${CMAKE_INSTALL_FULL_DATADIR}/partita")
set(documents "${CMAKE_INSTALL_DOCDIR}")
if(NOT IS_ABSOLUTE "${documents}")
  set(documents "\${CMAKE_INSTALL_PREFIX}/${documents}") # which --prefix may change
endif()
foreach(folder input-decks clusters models batch)
  install(CODE "file(CREATE_LINK \"${data_from_docs}/${folder}\" \"\$ENV{DESTDIR}${documents}/${folder}\" SYMBOLIC)")
endforeach()
install(FILES "${PROJECT_SOURCE_DIR}/docs/man/partita.1" DESTINATION "${CMAKE_INSTALL_MANDIR}/man1")
install(FILES "${PROJECT_SOURCE_DIR}/completions/partita.bash" RENAME partita
        DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions")

configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/PartitaConfig.cmake.in"
                              "${PROJECT_BINARY_DIR}/PartitaConfig.cmake" INSTALL_DESTINATION "${config_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/PartitaConfigVersion.cmake"
                                 COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/PartitaConfig.cmake" "${PROJECT_BINARY_DIR}/PartitaConfigVersion.cmake"
              "${PROJECT_SOURCE_DIR}/cmake/FindParallelHDF5.cmake" DESTINATION "${config_dir}")
