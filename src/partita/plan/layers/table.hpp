#pragma once

#include "partita/plan/layer_rules.hpp"

namespace partita {

/// One function per layer type, or per set of types that differ only in name; each file of this folder has
/// one family.

// dense.cpp
const LayerRules& denseRules();
const LayerRules& elementwiseRules();
// exchange.cpp
const LayerRules& exchangeRules(); ///< of steps between layers, which no deck has
// group.cpp
const LayerRules& blockRules();
const LayerRules& residualRules();
// image.cpp
const LayerRules& conv2dRules();
const LayerRules& conv3dRules();
const LayerRules& maxPoolRules();
const LayerRules& averagePoolRules();
const LayerRules& globalAveragePoolRules();
const LayerRules& flattenRules();
// norm.cpp
const LayerRules& batchNormRules();
const LayerRules& groupNormRules();
const LayerRules& layerNormRules();
const LayerRules& rmsNormRules();
// sequence.cpp
const LayerRules& embeddingRules();
const LayerRules& attentionRules();

/// A layer with the activation of `layer` alone.
LayerSpec activationOf(const LayerSpec& layer);
/// A layer that averages adjacent windows of `window` positions along each axis.
LayerSpec averagePool(std::int64_t window);
/// A convolution that maps the channels at each position of an image or a volume.
LayerSpec pointwiseConvolution(std::int64_t channels, bool volume);

} // namespace partita
