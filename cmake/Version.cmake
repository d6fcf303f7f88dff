# Runs at every build (cmake -P): writes the source file with version and git hash, and only when they changed, so
# that a build without a change compiles nothing.
execute_process(COMMAND git rev-parse --show-prefix --short=7 HEAD WORKING_DIRECTORY "${SOURCE_DIR}"
                OUTPUT_VARIABLE answer ERROR_QUIET RESULT_VARIABLE failed OUTPUT_STRIP_TRAILING_WHITESPACE)
set(GIT_HASH unknown)
# A prefix that is not empty means that the repository is one around an unpacked archive of ours.
if(NOT failed AND answer MATCHES "^\n([0-9a-f]+)$")
  set(GIT_HASH "${CMAKE_MATCH_1}")
  execute_process(COMMAND git --no-optional-locks status --porcelain --untracked-files=no
                  WORKING_DIRECTORY "${SOURCE_DIR}" OUTPUT_VARIABLE changes ERROR_QUIET)
  if(changes)
    string(APPEND GIT_HASH "-dirty")
  endif()
endif()
configure_file("${SOURCE_DIR}/cmake/version.cpp.in" "${OUTPUT}" @ONLY)
