#pragma once

#include "partita/comm/message.hpp"
#include "partita/strategy/run_context.hpp"
#include "partita/strategy/stage_updater.hpp"

#include <map>
#include <memory>

namespace partita {

/// Refreshes the parts of heads that are copies of later stages' parameters (`StagePlan::copies`). Version k
/// of the parameters, those after k x every steps, reaches a head after (k + 1) x every steps. A rank waits
/// only if a later stage is a whole interval behind, and the result does not depend on timing. Parameters are
/// sent in single precision, whatever `strategy/wire` says. A part of a stage sends its slices to the same
/// part of the other stage.
class HeadCopies {
 public:
  /// The stages of this rank. Adds to the checkpointed state, so restoring must come afterwards.
  HeadCopies(const RunContext& context, std::vector<StageUpdater*> updaters);

  /// Before the first step. `found`: the checkpointed state was restored. Otherwise the copies start equal to
  /// their originals. Collective over the ranks of a chain.
  void begin(const ExecSpace& space, bool found);
  void afterStep(const ExecSpace& space, std::int64_t step);
  /// To be called after the last step, even if the run ends early: receives what is no longer needed, and
  /// waits until the other ranks have done so.
  void finish(const ExecSpace& space, std::int64_t step);

 private:
  /// Parameters of one stage on their way to the heads of one rank.
  struct Stream {
    ParameterCopy source;
    int to_group = 0;
    std::vector<ParameterCopy> targets; ///< empty on a rank that only sends
    Vector values, old;
    std::unique_ptr<Sender> sender; ///< null: the heads are on this rank, or this rank only receives
    std::unique_ptr<Receiver> receiver;
  };
  void keepSent(const ParameterCopy& copy);
  void addStream(const ParameterCopy& copy, int to_group);
  void connect(Stream& stream, bool fresh);
  bool gives(const Stream& stream) const { return _context.grid.owns(stream.source.from_stage); }
  bool takes(const Stream& stream) const { return !stream.targets.empty(); }
  /// Is a version on its way after `step` steps?
  bool pending(const Stream& stream, std::int64_t step) const;
  void record(const ExecSpace& space, Stream& stream);
  void send(const ExecSpace& space, Stream& stream);
  Vector receive(const ExecSpace& space, Stream& stream);
  void refresh(const ExecSpace& space, Stream& stream, double keep);
  StoredVector& sentBy(const Stream& stream) {
    return _sent.at({stream.source.from_stage, stream.source.kind});
  }
  std::size_t placeOf(int stage) const {
    return static_cast<std::size_t>(stage - _context.grid.firstStage());
  }

  const RunContext& _context;
  std::vector<StageUpdater*> _updaters;
  std::map<std::pair<int, ParameterCopy::Kind>, StoredVector> _sent; ///< by stage: the parameters sent last
  std::vector<Stream> _streams;
};

} // namespace partita
