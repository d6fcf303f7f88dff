#pragma once

#include "partita/config/parameter_table.hpp"

#include <string>

namespace partita {

/// The present value of a parameter's field as TOML.
std::string tomlText(const Parameter& parameter);

} // namespace partita
