#pragma once

#include "partita/config/parameter_table.hpp"

namespace partita {

/// The keys of the layers that know channels and places.
Section describeConv2d(LayerSpec& spec);
Section describeConv3d(LayerSpec& spec);
Section describeMaxPool(LayerSpec& spec);
Section describeAveragePool(LayerSpec& spec);
Section describeGlobalAveragePool(LayerSpec& spec);
Section describeFlatten(LayerSpec& spec);
Section describeBatchNorm(LayerSpec& spec);

} // namespace partita
