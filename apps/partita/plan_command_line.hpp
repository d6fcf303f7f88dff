#pragma once

#include "command_line.hpp"

namespace partita {

/// Defines the commands of `partita plan` and their options.
void definePlan(CLI::App& plan, Arguments& arguments);

/// The arguments of these commands, for `essence`.
std::vector<std::string> planWords(const Arguments& arguments);

} // namespace partita
