#pragma once

#include "partita/data/batch_reader.hpp"
#include "partita/data/order.hpp"
#include "partita/strategy/pipeline/pipeline_work.hpp"
#include "partita/strategy/run_context.hpp"
#include "partita/strategy/stage_updater.hpp"

namespace partita {

/// The stages of this rank as the work of a pipeline: one behind the other, each with as many tapes as there
/// are live microbatches. Gradients add up in the order of the microbatches; with the last one they are final
/// and go on to the sum over the replicas.
class NetworkWork : public PipelineWork {
 public:
  /// `updaters`: of the stages, in order. `microbatches` of a replica's share of a batch; `live` of them are
  /// kept at once at most.
  NetworkWork(const RunContext& context, const std::vector<StageUpdater*>& updaters,
              std::int64_t microbatches, std::int64_t live);

  /// The next microbatches are those of a batch; `step` as in Pass. The reader has them one behind the other,
  /// as many held as are live, and outlives the batch.
  void begin(BatchReader& reader, std::uint64_t step);

  std::int64_t rows(std::int64_t number) const override;
  Matrix forward(const ExecSpace& space, std::int64_t number, const Matrix& in) override;
  Matrix backward(const ExecSpace& space, std::int64_t number, const Matrix& gradient) override;

 private:
  /// What a live microbatch leaves behind.
  struct Live {
    std::vector<JoinedTape> tapes; ///< a stage
    std::vector<Matrix> inputs;    ///< a stage
    Labels labels;
  };
  Slice sliceOf(std::int64_t number) const;
  Pass passOf(std::int64_t number) const;
  Matrix lossGradient(const ExecSpace& space, std::int64_t number);
  Live& liveOf(std::int64_t number) { return _live[static_cast<std::size_t>(number) % _live.size()]; }

  RunContext _context;
  std::vector<StageUpdater*> _updaters;
  std::int64_t _microbatches, _rows;
  std::int64_t _first_row; ///< of this replica in the whole batch
  std::vector<Live> _live;
  std::vector<Matrix> _input_gradients; ///< buffers, [rows of a microbatch, inputs]; none for the very first
  BatchReader* _reader = nullptr;
  std::uint64_t _step = 0;
};

} // namespace partita
