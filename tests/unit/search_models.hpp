#pragma once

#include "partita/plan/search/transformer.hpp"

namespace partita::test {

inline Transformer smallModel() {
  Transformer model;
  model.name = "small";
  model.layers = 4;
  model.width = 256;
  model.heads = 4;
  model.feed_forward = 1024;
  model.vocabulary = 1000;
  model.sequence = 128;
  return model;
}

inline GraphOperator square(double size) {
  return GraphOperator::product("square", 1.0, size, size, size);
}

} // namespace partita::test
