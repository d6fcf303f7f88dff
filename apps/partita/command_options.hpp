#pragma once

#include "partita/config/parameter_table.hpp"

#include <CLI/CLI.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace partita {

inline constexpr const char* override_help = "changes to the deck, e.g. run/seed=3 strategy/cuts=[2,4]";

/// What is wrong with the name of a file; empty: nothing.
std::string checkPath(const std::string& text);
CLI::Validator pathValidator();

/// Refuses anything that is not a finite number in the range. CLI::Range, from the library, lets
/// NaN pass.
CLI::Validator numberValidator(const Interval& range);

/// Refuses what is not a whole number from 1 to `most`.
CLI::Validator countValidator(std::int64_t most = 1 << 24);

/// Refuses anything that is not one of these names. CLI::IsMember, from the library, does not
/// suggest the nearest name.
CLI::Validator choiceValidator(const std::vector<std::string>& names);

/// Turns HH:MM:SS, MM:SS or seconds into seconds; other texts are refused, and so are times that no clock
/// could hold.
CLI::Validator timeTransform();

} // namespace partita
