#pragma once

#include "partita/config/layer_table.hpp"
#include "partita/config/parameter_table.hpp"

namespace partita {

/// What a deck must know about a type of layer besides its keys.
enum class LayerRole {
  plain,
  takes_tokens,     ///< begins a network on text, and only such a network
  row,              ///< consecutive layers: if it is the last layer of the network, so is the last one inside
  keeps_statistics, ///< running ones, which batches update and evaluation reads
};

/// A type of layer as decks have it.
struct LayerType {
  const char* text; ///< what it does, for the deck reference
  void (*add_keys)(Section& section,
                   LayerSpec& spec); ///< its keys except `repeat`, bound to the fields of `spec`
  LayerRole role = LayerRole::plain;
};

const LayerTable<LayerType>& layerTypes();

/// The keys of `spec.type`, which is one of `layerTypes()`, bound to the fields of `spec`.
Section describe(LayerSpec& spec);

} // namespace partita
