#pragma once

#include <cstdint>
#include <memory>
#include <string>

struct cudnnContext; // of cuDNN

/// Causal attention by the graphs that cuDNN's frontend offers. Its headers take minutes to compile with
/// nvcc, so this file and its source include neither Kokkos nor what needs it, and are compiled for the host
/// alone.
namespace partita::cudnn {

/// All heads of some samples, or some heads of one, as they lie in memory for `AttentionShape`: `head_width`
/// neighbouring values per position, next to those of the others of `all_heads`.
struct AttentionBlock {
  std::int64_t samples, heads, positions, head_width, all_heads;
  bool bf16; ///< otherwise fp16
  bool back;
};

/// Where the first value of each tensor of a block is. The last four are for the backward pass only.
struct AttentionAddresses {
  void *query, *key, *value, *out, *sums;
  void *grad_out = nullptr, *grad_query = nullptr, *grad_key = nullptr, *grad_value = nullptr;
};

class AttentionGraph {
 public:
  virtual ~AttentionGraph() = default;
  virtual std::int64_t scratchBytes() const = 0;
  /// Starts it on the stream of the handle. Returns what went wrong, or an empty text.
  virtual std::string start(cudnnContext* handle, const AttentionAddresses& addresses,
                            void* scratch) const = 0;
};

/// Compiled for the device of the handle. Null if this build is without the frontend, or if the library has
/// no reproducible algorithm.
std::unique_ptr<AttentionGraph> compileAttention(cudnnContext* handle, const AttentionBlock& block);

/// Is this build with the frontend?
bool hasFrontend();

} // namespace partita::cudnn
