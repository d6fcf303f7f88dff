#pragma once

#include <string>

namespace partita {

/// What has to survive a crash of the machine. Both throw UserError with the path and what the system says.

/// What was written to a file is on the disk when this returns.
void syncFile(const std::string& path);

/// Gives a finished file its name, in one step: there is always the old one or the new one.
void publishFile(const std::string& from, const std::string& to);

} // namespace partita
