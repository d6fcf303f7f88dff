# Runs at every build (cmake -P). It writes the source file with version and git hash only if they have changed, so that
# a build without changes compiles nothing.
execute_process(COMMAND git rev-parse --show-prefix --short=7 HEAD WORKING_DIRECTORY "${SOURCE_DIR}"
                OUTPUT_VARIABLE answer ERROR_QUIET RESULT_VARIABLE failed OUTPUT_STRIP_TRAILING_WHITESPACE)
set(GIT_HASH unknown)
# If the prefix is not empty, the sources are an unpacked archive inside another repository.
if(NOT failed AND answer MATCHES "^\n([0-9a-f]+)$")
  set(GIT_HASH "${CMAKE_MATCH_1}")
  execute_process(COMMAND git --no-optional-locks status --porcelain --untracked-files=no
                  WORKING_DIRECTORY "${SOURCE_DIR}" OUTPUT_VARIABLE changes ERROR_QUIET)
  if(changes)
    string(APPEND GIT_HASH "-dirty")
  endif()
endif()
configure_file("${SOURCE_DIR}/cmake/version.cpp.in" "${OUTPUT}" @ONLY)
