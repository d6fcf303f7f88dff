#pragma once

#include <CLI/CLI.hpp>

#include <string>

namespace partita {

inline constexpr const char* override_help = "changes to the deck, e.g. run/seed=3 strategy/cuts=[2,4]";

/// What is wrong with the name of a file; empty: nothing.
std::string checkPath(const std::string& text);
CLI::Validator pathValidator();

/// Turns HH:MM:SS, MM:SS or seconds into seconds; other texts are refused.
CLI::Validator timeTransform();

} // namespace partita
