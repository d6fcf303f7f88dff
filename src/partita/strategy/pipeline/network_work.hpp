#pragma once

#include "partita/data/batch_reader.hpp"
#include "partita/data/order.hpp"
#include "partita/strategy/pipeline/pipeline_work.hpp"
#include "partita/strategy/run_context.hpp"
#include "partita/strategy/stage_updater.hpp"

namespace partita {

/// The stages of this rank as the work of a pipeline: they run one after another, each with one tape per live
/// microbatch. Gradients are accumulated in the order of the microbatches; after the last one they are final
/// and enter the sum over the replicas.
class NetworkWork : public PipelineWork {
 public:
  /// `updaters`: those of the stages, in order. `microbatches`: in a replica's share of a batch; at most
  /// `live` of them are kept at once.
  NetworkWork(const RunContext& context, std::vector<StageUpdater*> updaters, std::int64_t microbatches,
              std::int64_t live);

  /// Begins a batch; `step` as in Pass. The reader delivers its microbatches one after another, holds as many
  /// as are live, and must outlive the batch.
  void begin(BatchReader& reader, std::uint64_t step);

  std::int64_t rows(std::int64_t number) const override;
  TypedMatrix forward(const ExecSpace& space, std::int64_t number, const TypedMatrix& in) override;
  TypedMatrix backward(const ExecSpace& space, std::int64_t number, const TypedMatrix& gradient) override;

 private:
  /// The data kept for a live microbatch.
  struct Live {
    std::vector<JoinedTape> tapes;   ///< one per stage
    std::vector<TypedMatrix> inputs; ///< one per stage
    Labels labels;
  };
  IndexRange sliceOf(std::int64_t number) const;
  Pass passOf(std::int64_t number) const;
  TypedMatrix lossGradient(const ExecSpace& space, std::int64_t number);
  Live& liveOf(std::int64_t number) { return _live[static_cast<std::size_t>(number) % _live.size()]; }

  RunContext _context;
  std::vector<StageUpdater*> _updaters;
  std::int64_t _microbatches, _rows;
  std::int64_t _first_row; ///< first row of this replica in the whole batch
  std::vector<Live> _live;
  std::vector<TypedRows> _input_gradients; ///< of a microbatch; empty for the first stage of all
  BatchReader* _reader = nullptr;
  std::uint64_t _step = 0;
};

} // namespace partita
