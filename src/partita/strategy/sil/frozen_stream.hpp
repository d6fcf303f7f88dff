#pragma once

#include "partita/strategy/run_context.hpp"
#include "partita/strategy/sil/activation_cache.hpp"
#include "partita/strategy/sil/batch_source.hpp"
#include "partita/strategy/stage_updater.hpp"

namespace partita {

/// `frozen`: the outputs of a finished stage on their way to the next one. They are computed and sent once,
/// in segments, in the order of the first epoch of the next stage, which trains on them as they arrive and
/// spills them for later epochs.
class FrozenStream {
 public:
  /// A stream towards `stage`; both its ranks must construct it.
  FrozenStream(const RunContext& context, int stage);

  /// Does this rank own the finished stage, and another one `stage`?
  bool feedsFromHere() const;

  /// For the feeding rank: sends outputs for the rows of `inputs`, batch by batch as the training rank takes
  /// them, and after the first epoch the rows that no batch contained. Without `beginFeeding` nothing is
  /// sent.
  void beginFeeding(const RowSource& inputs);
  void feedBatch(const ExecSpace& space);
  void feedRest(const ExecSpace& space);
  void finish(); ///< waits until all that was sent has been received

  /// For the training rank: batches of the first epoch, whose rows are also stored in `cache`. `inputs` is
  /// used if this rank owns the finished stage as well. The source must not outlive the stream.
  BatchSource makeSource(const RowSource& inputs, ActivationCache& cache);
  /// Spills what has not been taken: after the first epoch, the rows that no batch contained.
  void drain(const ExecSpace& space);

 private:
  /// Each call returns the next segment, from this rank or another one.
  using Segments = std::function<TypedMatrix(const ExecSpace& space)>;

  Segments computedSegments(const RowSource& inputs) const;
  LocalStage& finishedStage() const;
  TypedMatrix takeSegment(const ExecSpace& space); // spills it
  void sendNext(const ExecSpace& space);

  RunContext _context;
  int _stage;
  std::int64_t _whole_segments, _segments, _capacity;
  BatchReader::RowsOf _order;
  BatchRows _segment; ///< taken last
  std::int64_t _taken = 0;
  Segments _incoming;
  ActivationCache* _cache = nullptr;
  Segments _outgoing;
  std::unique_ptr<Sender> _sender;
  std::int64_t _sent = 0;
};

} // namespace partita
