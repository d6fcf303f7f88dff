#pragma once

#include "partita/comm/message.hpp"
#include "partita/data/batch_reader.hpp"
#include "partita/strategy/local_stage.hpp"

#include <memory>

namespace partita {

/// A batch that a stage learns from.
struct StageBatch {
  TypedMatrix in;
  Targets targets;
};

/// Where a stage's batches come from, one class per kind of source. Batches come in training order, each
/// once.
class BatchSource {
 public:
  virtual ~BatchSource() = default;
  virtual StageBatch next(const ExecSpace& space) = 0; ///< valid until the next call
};

/// Features and labels from a reader: the data of the first stage, or the spilled outputs of a finished
/// stage.
class ReaderSource : public BatchSource {
 public:
  explicit ReaderSource(std::unique_ptr<BatchReader> reader) : _reader(std::move(reader)) {}
  StageBatch next(const ExecSpace& space) override {
    const Batch batch = _reader->next(space);
    return {batch.features, {batch.labels, Matrix()}};
  }

 private:
  std::unique_ptr<BatchReader> _reader;
};

/// Relay on one rank: the output that the previous stage has just computed, before its update.
class HandedSource : public BatchSource {
 public:
  HandedSource(const LocalStage& before, std::unique_ptr<BatchReader> labels)
      : _before(before), _labels(std::move(labels)) {}
  StageBatch next(const ExecSpace& space) override {
    return {_before.tape.joinedOutput(), {_labels->next(space).labels, Matrix()}};
  }

 private:
  const LocalStage& _before;
  std::unique_ptr<BatchReader> _labels;
};

/// Relay between ranks: the same output as a message; labels are read here and need not be sent.
class ReceivedSource : public BatchSource {
 public:
  ReceivedSource(std::unique_ptr<Receiver> receiver, std::unique_ptr<BatchReader> labels)
      : _receiver(std::move(receiver)), _labels(std::move(labels)) {}
  StageBatch next(const ExecSpace& space) override {
    const Labels labels = _labels->next(space).labels;
    return {_receiver->next(space), {labels, Matrix()}};
  }

 private:
  std::unique_ptr<Receiver> _receiver;
  std::unique_ptr<BatchReader> _labels;
};

} // namespace partita
