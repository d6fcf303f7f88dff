#pragma once

#include "partita/config/names.hpp"
#include "partita/plan/search/operator_graph.hpp"

#include <cstdint>
#include <string>

namespace partita {

enum class TransformerNorm { layer, rms };
enum class TransformerActivation { relu, gelu, silu };

template <>
const std::vector<std::string>& namesOf<TransformerNorm>();
template <>
const std::vector<std::string>& namesOf<TransformerActivation>();

/// The dimensions of a transformer, as a file of models/ gives them.
struct Transformer {
  std::string name, source;
  std::int64_t layers = 12, width = 768, heads = 12, feed_forward = 3072;
  std::int64_t vocabulary = 50257, sequence = 1024;
  TransformerNorm norm = TransformerNorm::layer;
  TransformerActivation activation = TransformerActivation::gelu;
  bool gated = false;    ///< the feed-forward part multiplies two products
  bool rotary = false;   ///< positions rotate the queries and keys; otherwise a table is added
  bool biases = true;    ///< of products
  bool segments = false; ///< a table of two kinds of segments and a norm after the embedding, as in BERT
  std::int64_t least_parts = 1, most_parts = 8; ///< degrees of tensor parallelism to consider
  std::int64_t expert_stages = 0, expert_replicas = 0, expert_parts = 0; ///< plan of an expert; 0: none
};

/// Reads a file of models/. Throws UserError with all mistakes and their places.
Transformer loadTransformer(const std::string& path);
Transformer parseTransformer(const std::string& text, const std::string& name);

/// Can this many devices share it? Their number must divide the heads and the feed-forward part.
bool divides(const Transformer& model, std::int64_t tensor_degree);

/// Its layers on each of the `tensor_degree` devices that share them, for microbatches of `microbatch`
/// samples: the embedding, the blocks and the head.
ModelChain chainOf(const Transformer& model, int tensor_degree, std::int64_t microbatch);

} // namespace partita
