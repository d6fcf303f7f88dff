#pragma once

#include "partita/plan/stage_plan.hpp"

#include <algorithm>

#include "support/matrices.hpp"

namespace partita::test {

inline std::int64_t storedValuesOf(const std::vector<LayerPlan>& layers) {
  std::int64_t size = 0;
  for (const LayerPlan& layer : layers) size += layer.storedValues();
  return size;
}

/// Converts the parameters of some layers from packed tensors, without gaps, to the layout of a flat buffer,
/// and back.

inline Values asStored(const std::vector<LayerPlan>& layers, const Values& packed) {
  Values stored(static_cast<std::size_t>(storedValuesOf(layers)), 0.0);
  auto from = packed.begin();
  for (const StageTensor& tensor : parameterTensors(layers)) {
    std::copy_n(from, tensor.size, stored.begin() + tensor.offset);
    from += tensor.size;
  }
  return stored;
}

inline Values packedOf(const std::vector<LayerPlan>& layers, const Values& stored) {
  Values packed;
  for (const StageTensor& tensor : parameterTensors(layers)) {
    const auto begin = stored.begin() + tensor.offset;
    packed.insert(packed.end(), begin, begin + tensor.size);
  }
  return packed;
}

} // namespace partita::test
