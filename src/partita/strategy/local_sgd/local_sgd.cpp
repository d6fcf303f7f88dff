#include "partita/strategy/local_sgd/local_sgd.hpp"

namespace partita {

void MeetingReplicas::attach(StageUpdater& updater) {
  _meetings.push_back(std::make_unique<StageMeeting>(_config, updater, _grid));
}

void MeetingReplicas::begin(const ExecSpace& space, StageUpdater& updater, bool found) {
  if (found) return;
  for (const auto& meeting : _meetings) {
    if (&meeting->updater() == &updater) meeting->begin(space);
  }
}

void MeetingReplicas::afterStep(const ExecSpace& space, std::int64_t step, bool last) {
  const LocalSgdSection& section = _config.strategy.local_sgd;
  const bool warm_up = step <= section.warmup_steps;
  if (!warm_up && step % section.every != 0 && !last) return;
  for (const auto& meeting : _meetings) meeting->meet(space, warm_up ? OuterStep::average : section.outer);
}

void MeetingReplicas::withoutSteps(const ExecSpace& space) {
  for (const auto& meeting : _meetings)
    if (!meeting->hasMet(space)) meeting->meet(space, OuterStep::average);
}

namespace {

class LocalSgdRules final : public StrategyRules {
 public:
  std::unique_ptr<Strategy> make(const RunContext& context) const override {
    return std::make_unique<LocalSgdTraining>(context);
  }
};

} // namespace

const StrategyRules& localSgdRules() {
  static const LocalSgdRules rules;
  return rules;
}

} // namespace partita
