#pragma once

#include "partita/config/diagnostics.hpp"
#include "partita/config/parameter_table.hpp"
#include "partita/config/toml_tree.hpp"

#include <string>

namespace partita {

/// Sets the field of a parameter from a value of `source`, or reports why it cannot. `name` is the name of
/// the parameter in messages: "training/batch".
void readParameter(const Parameter& parameter, const std::string& name, const TomlNode& node,
                   const Source& source, Diagnostics& diagnostics);

} // namespace partita
