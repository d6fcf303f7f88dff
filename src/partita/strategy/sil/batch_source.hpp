#pragma once

#include "partita/comm/message.hpp"
#include "partita/data/batch_reader.hpp"
#include "partita/strategy/local_stage.hpp"

#include <functional>
#include <memory>

namespace partita {

/// A batch that a stage learns from.
struct StageBatch {
  TypedMatrix in;
  Targets targets;
};

/// Where a stage's batches come from. Each call returns the next one in training order, valid until the next
/// call.
using BatchSource = std::function<StageBatch(const ExecSpace& space)>;

/// Features and labels from a reader: the data of the first stage, or the spilled outputs of a finished
/// stage.
inline BatchSource readerSource(std::shared_ptr<BatchReader> reader) {
  return [reader = std::move(reader)](const ExecSpace& space) -> StageBatch {
    const Batch batch = reader->next(space);
    return {batch.features, {batch.labels, Matrix()}};
  };
}

/// Relay on one rank: the output that the previous stage has just computed, before its update.
inline BatchSource handedSource(const LocalStage& before, std::shared_ptr<BatchReader> labels) {
  return [&before, labels = std::move(labels)](const ExecSpace& space) -> StageBatch {
    return {before.tape.joinedOutput(), {labels->next(space).labels, Matrix()}};
  };
}

/// Relay between ranks: the same output as a message; labels are read here and need not be sent.
inline BatchSource receivedSource(std::shared_ptr<Receiver> receiver, std::shared_ptr<BatchReader> labels) {
  return [receiver = std::move(receiver), labels = std::move(labels)](const ExecSpace& space) -> StageBatch {
    const Labels classes = labels->next(space).labels;
    return {receiver->next(space), {classes, Matrix()}};
  };
}

} // namespace partita
