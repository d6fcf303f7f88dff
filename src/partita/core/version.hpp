#pragma once

#include <string>

namespace partita {

/// What this build is made of; recorded at every build, not when CMake was configured.

std::string versionString();  ///< "1.2.3"
std::string gitHash();        ///< "abc1234", "abc1234-dirty" when tracked files had changes, or "unknown"
std::string compilerString(); ///< "GNU 12.2.0"
std::string buildType();      ///< CMake's build type, e.g. "Release"

} // namespace partita
