#pragma once

namespace partita {

/// The purpose of a message. Each has its own tag, so that messages between the same ranks are never
/// confused, on any communicator. Values are below `tag_count`, since streams put message numbers into the
/// higher bits.
enum class Tag : int {
  evaluation = 1,  ///< activations to evaluate
  relay = 2,       ///< activations for a stage that trains at the same time
  frozen = 3,      ///< activations for a stage that trains later
  forward = 4,     ///< activations of a pipeline
  backward = 5,    ///< their gradients
  chunk = 6,       ///< compressed part of a tensor, for the file
  hash = 7,        ///< hash of the parameters up to a stage
  predictions = 8, ///< logits, for a file
  trace = 9,       ///< operations of a pipeline, for a file
  slice = 10,      ///< part of a tensor, for a rank that needs all of it
  report = 11,     ///< row of the history
  clock = 12,      ///< of rank 0
  agreement = 13,  ///< on a step after which all ranks take an action
  pace = 14,       ///< how far a rank has got and how far it may go
  exits = 15,      ///< what the stages so far predict, in an evaluation
  lookahead = 16,  ///< parameters of the next stage's first layer, for a head
  refresh = 17,    ///< weights of the network's last layer, for a head
  ring = 18,       ///< without meaning: its time is measured
  parts = 19,      ///< values that parts of a stage gather or add up
  order = 20,      ///< work for a worker that trains at its own pace
  result = 21,     ///< of this work
  model = 22,      ///< the parameters of such workers, or changes to them, between nodes
  sum = 23,        ///< parts of gradients that replicas add up
  arrival = 24,    ///< when the message before it arrives on an emulated slow link
};
constexpr int tag_count = 32;

} // namespace partita
