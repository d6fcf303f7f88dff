#pragma once

#include "partita/config/parameter_table.hpp"

#include <CLI/CLI.hpp>

#include <string>

namespace partita {

inline constexpr const char* override_help = "changes to the deck, e.g. run/seed=3 strategy/cuts=[2,4]";

/// What is wrong with the name of a file; empty: nothing.
std::string checkPath(const std::string& text);
CLI::Validator pathValidator();
/// The same for the run directory, whose files are listed one per line.
CLI::Validator directoryValidator();

/// Refuses what is not a finite number in a range. That of the library, CLI::Range, lets NaN pass.
CLI::Validator numberValidator(const Interval& range);

/// Turns HH:MM:SS, MM:SS or seconds into seconds; other texts are refused, and so are times that no clock
/// could hold.
CLI::Validator timeTransform();

} // namespace partita
