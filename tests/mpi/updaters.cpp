#include "small_run.hpp"
#include "support/catch.hpp"

namespace partita::test::updaters {

namespace {

/// Counts the updates announced before they change parameters, and those under way afterwards.
class UpdateWatch : public StepControl {
 public:
  void begin(StageUpdater& updater) override {
    updater.beforeUpdate([this] { ++_announced; });
  }
  bool afterStep(const ExecSpace&, const Position&, const std::vector<StageUpdater*>& updaters) override {
    _taken += static_cast<int>(updaters.size());
    return false;
  }
  int announced() const { return _announced; }
  int taken() const { return _taken; }

 private:
  int _announced = 0, _taken = 0;
};

/// Sees parameters after a step, and when its update is finished.
class LateWatch : public StepControl {
 public:
  explicit LateWatch(const SmallRun& run) : _run(run), _values(run.ownParameters()) {}
  bool afterStep(const ExecSpace& space, const Position&,
                 const std::vector<StageUpdater*>& updaters) override {
    if (_run.ownParameters() == _values) ++late;
    for (StageUpdater* updater : updaters) updater->finishUpdate(space);
    const std::vector<Real> finished = _run.ownParameters();
    if (finished != _values) ++changed;
    _values = finished;
    return false;
  }
  int late = 0, changed = 0;

 private:
  const SmallRun& _run;
  std::vector<Real> _values;
};

/// Finishes updates when an evaluation begins, and counts those that changed parameters.
class EvaluationWatch : public StepControl {
 public:
  explicit EvaluationWatch(const SmallRun& run) : _run(run) {}
  void begin(StageUpdater& updater) override { _updater = &updater; }
  void evaluates() override {
    const std::vector<Real> before = _run.ownParameters();
    _updater->finishUpdate(ExecSpace());
    late += _run.ownParameters() == before ? 0 : 1;
    ++count;
  }
  int late = 0, count = 0;

 private:
  const SmallRun& _run;
  StageUpdater* _updater = nullptr;
};

} // namespace

TEST_CASE("Updates are finished before an evaluation, whose time does not count", "[updaters]") {
  SmallRun run(everyone(), smallDeck({"strategy/kind=joint", "strategy/replicas=0", "strategy/bucket_kib=1",
                                      "run/evaluate_every=1"}));
  EvaluationWatch watch(run);
  run.train(watch);
  CHECK(watch.late == 0);
  CHECK(watch.count == 2);
}

TEST_CASE("Parameters of replicas change when the next forward pass wants them, or before", "[updaters]") {
  const int ranks = everyone().size(), steps = 21, reports = 3;
  const Overrides deck{"strategy/kind=joint", "strategy/replicas=0", "run/steps=21", "run/log_every=7",
                       "strategy/bucket_kib=1"};
  std::vector<Overrides> decks(4, deck);
  decks[1].emplace_back("optimiser/clip_norm=0.1");
  decks[2].emplace_back("optimiser/offload=host");
  decks[3].emplace_back("strategy/wire=bf16");
  for (const Overrides& overrides : decks) {
    INFO(overrides.back());
    SmallRun run(everyone(), smallDeck(overrides));
    LateWatch watch(run);
    const std::string watched = run.train(watch).hash();
    CHECK(watch.changed == steps);
    CHECK(watch.late == (ranks > 1 && &overrides == &decks.front() ? steps - reports : 0));
    CHECK(watched == trainedHash(ranks, overrides)); // no observer finishes updates there
  }
}

TEST_CASE("Whoever changes parameters says so before, in every strategy and phase", "[updaters]") {
  const std::vector<Overrides> decks{
      {"strategy/kind=joint"},
      {"strategy/kind=sil", "strategy/input=free"},
      {"strategy/kind=sil", "strategy/input=relay", "strategy/recovery_epochs=1"},
      {"strategy/kind=sil", "strategy/input=frozen", "strategy/recovery_epochs=1"}};
  for (const Overrides& overrides : decks) {
    INFO(overrides.back());
    UpdateWatch watch;
    SmallRun(groupOf(1), smallDeck(overrides)).train(watch);
    CHECK(watch.announced() == watch.taken());
    CHECK(watch.taken() >= 30);
  }
}

} // namespace partita::test::updaters
