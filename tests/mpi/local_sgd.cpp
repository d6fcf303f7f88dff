#include "partita/strategy/local_sgd/meeting.hpp"

#include <cmath>
#include <filesystem>

#include "pmpi.hpp"
#include "small_run.hpp"
#include "support/catch.hpp"

namespace partita::test::local_sgd {

/// Replicas that train independently and are combined from time to time.

namespace {

Overrides deckOf(const Overrides& more) {
  return Overrides{"strategy/kind=local-sgd", "strategy/replicas=0", "run/steps=20",
                   "optimiser/offload_directory=" + std::filesystem::temp_directory_path().string()} +
         more;
}

/// A function of a value's index, the meeting and the replica, of at most `size`.
Real madeUp(std::size_t i, int meeting, int replica, double size) {
  return static_cast<Real>(
      size * std::sin(static_cast<double>(i) * (meeting + 1) + 0.7 * static_cast<double>(replica)));
}

/// The outer step for each value in double precision, as in the papers.
class Reference {
 public:
  Reference(const std::vector<Real>& start, double size)
      : _anchor(start.begin(), start.end()), _velocity(start.size()), _size(size) {}

  void meet(int meeting, int replicas, bool nesterov, const LocalSgdSection& section) {
    for (std::size_t i = 0; i < _anchor.size(); ++i) {
      double mean = 0.0; // of the differences between the start and the replicas
      for (int r = 0; r < replicas; ++r) mean -= static_cast<double>(madeUp(i, meeting, r, _size)) / replicas;
      if (nesterov) {
        _velocity[i] = section.outer_momentum * _velocity[i] + mean;
        mean = section.outer_rate * (mean + section.outer_momentum * _velocity[i]);
      }
      _anchor[i] -= mean;
    }
  }
  double largestDifference(const std::vector<Real>& found) const {
    double largest = 0.0;
    for (std::size_t i = 0; i < found.size(); ++i) {
      const double difference = std::fabs(_anchor[i] - static_cast<double>(found[i]));
      if (!std::isfinite(difference)) return difference;
      largest = std::max(largest, difference);
    }
    return largest;
  }

 private:
  std::vector<double> _anchor, _velocity;
  double _size;
};

/// The largest difference from the reference after some meetings of all ranks, between which no parameter
/// changes by more than `size`.
double differenceAfterMeetings(const Overrides& overrides, double size = 0.01) {
  const ExecSpace space;
  SmallRun run(everyone(), smallDeck(deckOf(overrides)));
  LocalStage& local = *run.stages.front();
  StageUpdater updater(run.config, local, ownGradients(run.config, run.grid), {10, 10});
  StageMeeting meeting(run.config, updater, run.grid);
  meeting.begin(space);
  const LocalSgdSection& section = run.config.strategy.local_sgd;
  Reference reference(local.stage.masters().values(ExecSpace()), size);
  for (int i = 0; i < 4; ++i) {
    std::vector<Real> values = local.stage.masters().values(ExecSpace());
    for (std::size_t j = 0; j < values.size(); ++j) values[j] += madeUp(j, i, run.grid.replica(), size);
    local.stage.setParameters(space, values.data());
    const bool nesterov = section.outer == OuterStep::nesterov && i > 0; // the first is in the warm-up
    meeting.meet(space, nesterov ? OuterStep::nesterov : OuterStep::average);
    reference.meet(i, run.grid.replicas(), nesterov, section);
  }
  std::vector<Real> own = local.stage.masters().values(ExecSpace()), first = own;
  MPI_Bcast(first.data(), mpiCount(static_cast<std::int64_t>(first.size())), mpiType<Real>(), 0,
            run.grid.world().get());
  CHECK(own == first);
  return reference.largestDifference(own);
}

/// The parameters of all replicas after each step, as far as they agree with those of the first.
class Watch : public StepControl {
 public:
  explicit Watch(const SmallRun& run) : _run(run) {}
  bool afterStep(const ExecSpace&, const Position& position, const std::vector<StageUpdater*>&) override {
    const std::vector<Real> own = _run.ownParameters();
    std::vector<Real> first = own;
    MPI_Bcast(first.data(), mpiCount(static_cast<std::int64_t>(first.size())), mpiType<Real>(), 0,
              _run.grid.world().get());
    if (_run.grid.world().maximum(std::int64_t{own == first ? 0 : 1}) == 0) met.push_back(position.step);
    return false;
  }
  std::vector<std::int64_t> met;

 private:
  const SmallRun& _run;
};

/// The steps after which this rank has made MPI calls since the step before.
class TalkWatch : public StepControl {
 public:
  bool afterStep(const ExecSpace&, const Position& position, const std::vector<StageUpdater*>&) override {
    const std::size_t calls = _recording.all().size();
    if (calls > _calls) talked.push_back(position.step);
    _calls = calls;
    return false;
  }
  std::vector<std::int64_t> talked;

 private:
  MpiRecording _recording;
  std::size_t _calls = 0;
};

std::vector<std::int64_t> stepsThatTalk(const Overrides& overrides) {
  SmallRun run(everyone(), smallDeck(deckOf(overrides)));
  TalkWatch watch;
  run.train(watch);
  return watch.talked;
}

double relativeDifference(const std::vector<Real>& a, const std::vector<Real>& b) {
  double difference = 0.0, norm = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += std::pow(static_cast<double>(a[i] - b[i]), 2.0);
    norm += std::pow(static_cast<double>(b[i]), 2.0);
  }
  return std::sqrt(difference / norm);
}

} // namespace

TEST_CASE("A meeting takes the step of the papers, wherever the state is", "[local-sgd]") {
  for (const char* outer : {"strategy/outer=average", "strategy/outer=nesterov"}) {
    for (const char* offload :
         {"optimiser/offload=none", "optimiser/offload=host", "optimiser/offload=file"}) {
      for (const auto& [precision, tolerance] :
           {std::pair{"run/precision=float", 1e-6}, std::pair{"run/precision=bf16", 4e-4},
            std::pair{"run/precision=fp16", 6e-5}}) {
        INFO(outer << ", " << offload << ", " << precision);
        CHECK(differenceAfterMeetings({outer, offload, "optimiser/offload_bucket=700", precision}) <
              tolerance);
      }
      CHECK(differenceAfterMeetings({outer, offload, "strategy/wire=bf16"}) < 4e-4);
    }
  }
}

TEST_CASE("Parameters that have moved far do not overflow when their changes are summed in fp16",
          "[local-sgd]") {
  for (const char* format : {"run/precision=fp16", "strategy/wire=fp16"})
    for (const double size : {100.0, 3000.0}) {
      INFO(format << ", " << size);
      CHECK(differenceAfterMeetings({format}, size) < 0.01 * size);
    }
}

TEST_CASE("Replicas are one network after meetings only, in the warm-up and at the end", "[local-sgd]") {
  SmallRun run(everyone(), smallDeck(deckOf({"strategy/every=7", "strategy/warmup_steps=3"})));
  Watch watch(run);
  run.train(watch);
  if (everyone().size() == 1) return;
  CHECK(watch.met == std::vector<std::int64_t>{1, 2, 3, 7, 14, 20});
}

TEST_CASE("Plain SGD that meets after each step is that of summed gradients", "[local-sgd]") {
  const Overrides sgd{"optimiser/kind=sgd", "optimiser/momentum=0", "optimiser/learning_rate=0.05",
                      "strategy/every=1"};
  SmallRun joint(everyone(), smallDeck(deckOf(sgd + Overrides{"strategy/kind=joint"})));
  SmallRun local(everyone(), smallDeck(deckOf(sgd)));
  const std::vector<Real> start = local.ownParameters();
  local.train();
  CHECK(relativeDifference(local.ownParameters(), joint.train().ownParameters()) < 1e-6);
  CHECK(relativeDifference(start, local.ownParameters()) > 1e-3); // it has learnt
}

TEST_CASE("A meeting sends what the gradients of one step would, and nothing else is sent", "[local-sgd]") {
  const int replicas = everyone().size();
  for (const char* wire : {"strategy/wire=float", "strategy/wire=bf16"}) {
    const auto bytesOfRun = [&](const Overrides& more) {
      SmallRun run(everyone(), smallDeck(deckOf(more + Overrides{wire})));
      const MpiRecording recording;
      run.train();
      const std::int64_t report = replicas == 1 ? 0 : 3 * static_cast<std::int64_t>(sizeof(double));
      const std::int64_t sums = summedBytes(recording, run.grid.peers());
      CHECK((run.grid.paths().nccl ||
             sums == run.grid.traffic.between_replicas + report * 3)); // at steps 7, 14 and 20
      return run.grid.traffic.between_replicas;
    };
    const std::int64_t joint = bytesOfRun({"strategy/kind=joint"});
    CHECK((joint > 0) == (replicas > 1));
    CHECK(bytesOfRun({"strategy/every=1"}) == joint);
    CHECK(5 * bytesOfRun({"strategy/every=5", "strategy/outer=nesterov"}) == joint);
    CHECK(20 * bytesOfRun({"strategy/every=100"}) == joint);
    CHECK(20 * bytesOfRun({"strategy/every=100", "strategy/warmup_steps=4"}) == 5 * joint);
  }
}

TEST_CASE("Between meetings nothing is sent or summed, unless the deck asks for rows there", "[local-sgd]") {
  if (everyone().size() == 1) return;
  using Steps = std::vector<std::int64_t>;
  CHECK(stepsThatTalk({"run/log_every=0", "strategy/every=6"}) == Steps{6, 12, 18, 20});
  CHECK(stepsThatTalk({"run/log_every=0", "strategy/every=100"}) == Steps{20});
  CHECK(stepsThatTalk({"run/log_every=4", "strategy/every=6"}) == Steps{4, 6, 8, 12, 16, 18, 20});
}

TEST_CASE("Batch norms of replicas that learn alone come to the same statistics", "[local-sgd]") {
  const std::string norms = "network/layers=[{type='dense',units=32},{type='batch-norm',activation='relu'},"
                            "{type='dense'}]";
  SmallRun run(everyone(), smallDeck(deckOf({norms, "strategy/stages=2", "strategy/every=5"})));
  const MpiRecording recording;
  run.train();
  std::vector<Real> own = StoredVector(run.stages.front()->stage.statistics()).values(ExecSpace()),
                    first = own;
  MPI_Bcast(first.data(), mpiCount(static_cast<std::int64_t>(first.size())), mpiType<Real>(), 0,
            run.grid.world().get());
  CHECK(own == first);
  if (everyone().size() == 1) return;
  const auto values = static_cast<std::int64_t>(run.ownParameters().size() + own.size());
  const std::int64_t reports = 3 * 3 * static_cast<std::int64_t>(sizeof(double));
  const std::int64_t sums = summedBytes(recording, run.grid.peers());
  CHECK((run.grid.paths().nccl ||
         sums == 4 * values * static_cast<std::int64_t>(sizeof(Real)) + reports)); // of four meetings
}

TEST_CASE("The same run has the same bits", "[local-sgd]") {
  for (const char* outer : {"strategy/outer=average", "strategy/outer=nesterov"}) {
    const Overrides deck = deckOf({"strategy/every=6", outer, "strategy/warmup_steps=2"});
    const int ranks = everyone().size();
    CHECK(trainedHash(ranks, deck) == trainedHash(ranks, deck));
    CHECK(trainedHash(ranks, deck) ==
          trainedHash(ranks, deck + Overrides{"optimiser/offload=host", "optimiser/offload_bucket=999"}));
  }
}

} // namespace partita::test::local_sgd
