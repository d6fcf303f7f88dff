#pragma once

#include <string>

namespace partita {

/// The shortest text that TOML reads back as exactly this real number.
std::string realText(double value);

} // namespace partita
