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
CLI::Validator countValidator(std::int64_t most);

/// Turns HH:MM:SS, MM:SS or seconds into seconds; other texts are refused, and so are times that no clock
/// could hold.
CLI::Validator timeTransform();

/// An option or operand that names a file; `kind` is what the shell completes.
CLI::Option* fileOption(CLI::App& app, const std::string& name, std::string& value, const std::string& text,
                        const std::string& kind = "FILE");

/// An option with one of these names as its value. CLI::IsMember, from the library, does not suggest the
/// nearest name.
CLI::Option* choiceOption(CLI::App& app, const std::string& name, std::string& value, const std::string& text,
                          const std::vector<std::string>& names);

/// The flag that lets outputs replace files that are not outputs of the same command.
CLI::Option* overwriteFlag(CLI::App& app, bool& overwrite);

/// An option with a whole number from 1 to `most`.
template <class Number>
CLI::Option* countOption(CLI::App& app, const std::string& name, Number& value, const std::string& text,
                         std::int64_t most = 1 << 24) {
  return app.add_option(name, value, text)->check(countValidator(most))->type_name("N");
}

} // namespace partita
