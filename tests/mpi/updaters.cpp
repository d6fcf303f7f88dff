#include "small_run.hpp"
#include "support/catch.hpp"

using namespace partita;
using namespace partita::test;

namespace {

/// Counts what is shown before it changes parameters, and what is under way afterwards.
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

} // namespace

TEST_CASE("Whoever changes parameters says so before, in every strategy and phase", "[updaters]") {
  const std::vector<std::vector<std::string>> decks{
      {"strategy/kind=joint"},
      {"strategy/kind=sil", "strategy/input=free"},
      {"strategy/kind=sil", "strategy/input=relay", "strategy/recovery_epochs=1"},
      {"strategy/kind=sil", "strategy/input=frozen", "strategy/recovery_epochs=1"}};
  for (const std::vector<std::string>& overrides : decks) {
    INFO(overrides.back());
    UpdateWatch watch;
    SmallRun(groupOf(1), smallDeck(overrides)).train(watch);
    CHECK(watch.announced() == watch.taken());
    CHECK(watch.taken() >= 30);
  }
}
