#pragma once

namespace partita {

/// What a message is about. Each has a tag of its own, so that messages between the same ranks are never
/// taken for one another, on whatever communicator they travel. 0 to 15, since streams number their messages
/// in the bits above.
enum class Tag : int {
  evaluation = 1,  ///< activations to evaluate
  relay = 2,       ///< activations for a stage that learns meanwhile
  frozen = 3,      ///< activations for a stage that learns later
  forward = 4,     ///< activations of a pipeline
  backward = 5,    ///< their gradients
  chunk = 6,       ///< compressed part of a tensor on its way to the file
  hash = 7,        ///< hash of the parameters up to a stage
  predictions = 8, ///< logits for a file
  trace = 9,       ///< operations of a pipeline for a file
  slice = 10,      ///< part of a tensor on its way to a rank that wants all of it
  report = 11,     ///< row of the history
  clock = 12,      ///< of rank 0
  agreement = 13,  ///< on a step after which all ranks do something
  pace = 14,       ///< how far a rank is and may go
};
constexpr int tag_count = 16;

} // namespace partita
