#pragma once

#include "partita/config/parameter_table.hpp"

#include <string>
#include <vector>

namespace partita {

/// The parameters of a deck, bound to the fields of `config`, which must outlive the table.
ParameterTable describe(RunConfig& config);

/// A type of layer: its name in decks, and the keys it takes, bound to the fields of a spec.
struct LayerDescription {
  std::string name;
  Section (*describe)(LayerSpec& spec);
};

const std::vector<LayerDescription>& layerTypes();
std::vector<std::string> layerTypeNames();

/// Keys that several types have.
void addActivation(Section& section, LayerSpec& spec, const std::string& text);
void addRepeat(Section& section, LayerSpec& spec);

/// The keys of `spec.type`, which is one of `layerTypes()`.
Section describe(LayerSpec& spec);

} // namespace partita
