#pragma once

#include "partita/comm/mailbox.hpp"
#include "partita/data/augmentation.hpp"
#include "partita/strategy/hogbatch/model_access.hpp"

#include <deque>

namespace partita {

/// Computes gradients of batches. The whole network is one stage.
class GradientWork {
 public:
  /// `repeats`: how often each batch is computed, to imitate slow workers.
  GradientWork(const RunContext& context, std::int64_t repeats);

  /// Leaves the gradient in the stage, and returns the sums of the loss.
  Score::Sums compute(const ExecSpace& space, const WorkOrder& order);

 private:
  void readRows(const WorkOrder& order);
  std::int64_t drawOf(const WorkOrder& order) const;

  const RunContext& _context;
  LocalStage& _local;
  std::int64_t _repeats;
  TrainingRows _features;
  std::int64_t _epoch = -1;
  std::vector<std::uint32_t> _order; ///< of the samples in `_epoch`
  BatchRows _rows;                   ///< of the next batch
  BatchReader _reader;
};

bool isFinite(const Score::Sums& sums);
/// Throws RunError for a batch whose loss is not finite.
[[noreturn]] void failDiverged(const WorkOrder& order);

/// A worker: takes orders until all ranks meet for the last time.
class Worker {
 public:
  Worker(const RunContext& context, Mailbox& mailbox, ModelAccess& access, std::int64_t repeats);

  /// Works until the next order to meet, and returns it. Sends several results together while it has enough
  /// orders.
  WorkOrder workUntilMeeting(const ExecSpace& space);

 private:
  void add(const Mailbox::Message& message);
  WorkOrder next();
  void answer(const WorkResult& result);
  bool hasEnough() const;
  WorkResult train(const ExecSpace& space, const WorkOrder& order);
  WorkResult apply(const ExecSpace& space, const WorkOrder& order);

  const RunContext& _context;
  Mailbox& _mailbox;
  ModelAccess& _access;
  GradientWork _work;
  std::deque<WorkOrder> _orders;    ///< not begun, the oldest first
  std::vector<WorkResult> _results; ///< not sent
  std::int64_t _read = 0;           ///< version that the last gradient was computed from
};

} // namespace partita
