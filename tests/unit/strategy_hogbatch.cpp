#include "partita/config/deck.hpp"
#include "partita/config/files.hpp"
#include "partita/config/number_words.hpp"
#include "partita/plan/hogbatch/deck_mix.hpp"
#include "partita/plan/strategy_plan.hpp"
#include "partita/strategy/hogbatch/coordinator.hpp"
#include "partita/strategy/hogbatch/replay.hpp"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "data_files.hpp"
#include "support/catch.hpp"
#include "support/file_size_limit.hpp"

namespace partita::test::strategy_hogbatch {

namespace {

RunConfig deckWith(const std::vector<std::string>& overrides) {
  return effective(parseDeck(R"(
[network]
layers = [{type = "dense"}]
[training]
batch = 40
[optimiser]
kind = "sgd"
momentum = 0
[strategy]
kind = "hogbatch"
)",
                             "deck", overrides));
}

Decision decision(std::int64_t number, std::int64_t applied, double rate) {
  Decision made;
  made.number = number;
  made.worker = 1;
  made.first = 40 * number;
  made.count = made.total = 40;
  made.read = number;
  made.applied = applied;
  made.rate = rate;
  made.decay = 1e-4;
  made.in_place = number % 2 == 0;
  return made;
}

} // namespace

TEST_CASE("Shared workers are one group, replica workers one each", "[hogbatch]") {
  const auto groups = workerGroups(
      deckWith({"strategy/shared_workers=2", "strategy/lower_shared=8", "strategy/batch_shared=24"}), 4);
  REQUIRE(groups.size() == 3);
  CHECK(groups[0].role == WorkerRole::shared);
  CHECK(groups[0].workers == 2);
  CHECK(groups[0].lower == 8);
  CHECK(groups[0].start == 24);
  CHECK(groups[0].upper == 512);
  CHECK(groups[2].role == WorkerRole::replica);
  CHECK(groups[2].workers == 1);
  CHECK(groups[2].lower == 16);
  CHECK(groups[2].start == 40);
  const auto fixed = workerGroups(deckWith({"strategy/rule=fixed"}), 2);
  CHECK(fixed[1].lower == 40);
  CHECK(fixed[1].upper == 40);
  const auto steps = workerGroups(deckWith({"strategy/rule=synchronous", "strategy/shared_workers=2"}), 4);
  REQUIRE(steps.size() == 4);
  CHECK(steps[3].start == 10);
}

TEST_CASE("Without shared workers, their bounds do not count for the largest batch", "[hogbatch]") {
  const auto largest = [](std::vector<std::string> overrides) {
    overrides.insert(overrides.end(),
                     {"strategy/upper=64", "strategy/upper_shared=128", "strategy/batch_shared=48"});
    return deckWith(overrides).strategy.hogbatch.largestBatch(40);
  };
  CHECK(largest({}) == 128);
  CHECK(largest({"strategy/shared_workers=0"}) == 64);
  CHECK(largest({"strategy/rule=fixed"}) == 48);
  CHECK(largest({"strategy/rule=fixed", "strategy/shared_workers=0"}) == 40);
  CHECK(largest({"strategy/rule=synchronous"}) == 40);
}

TEST_CASE("Samples are steps of a batch, and the rest of an epoch belongs to its last one", "[hogbatch]") {
  const RunConfig deck = deckWith({"run/steps=20"});
  const SampleProgress progress(deck, planRunLength(deck, 601), 601); // 15 steps and a sample
  CHECK(progress.end(0) == 601);
  CHECK(progress.end(1) == 5 * 40);
  CHECK(progress.end(2) == 0);
  CHECK(progress.step(0, 39) == 0);
  CHECK(progress.step(0, 40) == 1);
  CHECK(progress.step(0, 600) == 14);
  CHECK(progress.step(0, 601) == 15);
  CHECK(progress.step(1, 200) == 20);
  CHECK(progress.place(17) == std::pair<std::int64_t, std::int64_t>{1, 80});
}

TEST_CASE("A change of the model is that of a plain loop, whatever the size and the way", "[hogbatch]") {
  for (const std::int64_t size : {1, 15, 777, 5000}) {
    std::vector<Real> gradient(static_cast<std::size_t>(size) + 1), read(gradient.size());
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      gradient[i] = static_cast<Real>(static_cast<int>(i % 7) - 3); // these sums are exact
      read[i] = static_cast<Real>(i % 5);
    }
    for (const SharedUpdate update : {SharedUpdate::relaxed, SharedUpdate::atomic, SharedUpdate::plain})
      for (const ReplicaMerge merge : {ReplicaMerge::delta, ReplicaMerge::overwrite, ReplicaMerge::average})
        for (const bool in_place : {true, false}) {
          if (in_place && merge != ReplicaMerge::delta) continue;
          CAPTURE(size, static_cast<int>(update), static_cast<int>(merge), in_place);
          const Kokkos::View<Real*, Kokkos::HostSpace> model("model", static_cast<std::size_t>(size));
          ModelChange change; // gradients need not begin at a whole vector
          change.gradient = gradient.data() + 1;
          change.parameters = in_place ? nullptr : read.data() + 1;
          change.decay = 0.25;
          change.merge = merge;
          change.update = update;
          for (std::int64_t i = 0; i < size; ++i) model(i) = static_cast<Real>(i % 3);
          changeModel(change, 0.5, model.data(), size);
          std::int64_t wrong = 0;
          for (std::int64_t i = 0; i < size; ++i) {
            const auto at = static_cast<std::size_t>(i) + 1;
            const Real now = static_cast<Real>(i % 3), base = in_place ? now : read[at],
                       step = Real(0.5) * (gradient[at] + Real(0.25) * base);
            const Real wanted = merge == ReplicaMerge::delta       ? now - step
                                : merge == ReplicaMerge::overwrite ? base - step
                                                                   : (now + (base - step)) / 2;
            if (model(i) != wanted) ++wrong;
          }
          CHECK(wrong == 0);
        }
  }
}

TEST_CASE("Decisions are exact, and a continued log keeps those of its updates", "[hogbatch]") {
  const ScratchFolder folder;
  const std::string path = folder.path("decisions.csv");
  {
    DecisionLog log(path, 0, false);
    log.add(decision(0, 0, 0.1));
    log.add(decision(1, -1, 1.0 / 3.0)); // dropped
    log.add(decision(2, 1, 0.2));
    log.add(decision(3, -1, 0.2));
    log.add(decision(4, 2, 0.2));
    log.flush();
  }
  const std::vector<Decision> all = readDecisions(path);
  REQUIRE(all.size() == 5);
  CHECK(all[1].rate == 1.0 / 3.0);
  CHECK(all[2].first == 80);
  CHECK(all[2].in_place);
  CHECK_FALSE(all[1].in_place);
  {
    DecisionLog goes_on(path, 3, true);
    goes_on.add(decision(5, -1, 0.2));
  }
  CHECK(readDecisions(path).size() == 6);
  {
    DecisionLog continued(path, 2, false);
    continued.add(decision(6, 2, 0.2));
  }
  CHECK(readDecisions(path).size() == 4);
}

TEST_CASE("Rows of a log for which the disk has no room are kept", "[hogbatch]") {
  const ScratchFolder folder;
  const std::string path = folder.path("decisions.csv");
  DecisionLog log(path, 0, false);
  {
    const FileSizeLimit full(300); // a few rows
    for (std::int64_t number = 0; number < 1000; ++number) log.add(decision(number, number, 0.1));
    CHECK_THROWS_AS(log.flush(), SystemError);
  }
  log.add(decision(1000, 1000, 0.1));
  log.flush();
  const std::vector<Decision> all = readDecisions(path);
  REQUIRE(all.size() == 1001);
  CHECK(all[999].number == 999);
}

TEST_CASE("A log that somebody has removed begins again", "[hogbatch]") {
  const ScratchFolder folder;
  const std::string path = folder.path("decisions.csv");
  {
    DecisionLog log(path, 3, true);
    log.add(decision(5, 4, 0.2));
  }
  CHECK(readDecisions(path).size() == 1);
}

TEST_CASE("A log goes on after its last whole row; one that lacks an update is replayed up to it",
          "[hogbatch]") {
  const ScratchFolder folder;
  const std::string path = folder.path("decisions.csv");
  RunConfig config = deckWith({});
  config.strategy.hogbatch.replay = path;
  RunLength length;
  length.steps = length.per_epoch = 4;
  const SampleProgress progress(config, length, 160);
  {
    DecisionLog log(path, 0, false);
    for (std::int64_t number = 0; number < 3; ++number) log.add(decision(number, number, 0.1));
  }
  const std::string whole = readTextFile(path, 1 << 16);
  for (const std::size_t missing : {0, 1, 9}) { // bytes at the end, for which the disk had no room
    CAPTURE(missing);
    folder.write("decisions.csv", whole.substr(0, whole.size() - missing));
    {
      DecisionLog goes_on(path, 3, true);
      goes_on.add(decision(3, 3, 0.2));
    }
    const std::vector<Decision> all = readDecisions(path);
    std::vector<std::int64_t> numbers;
    for (const Decision& one : all) numbers.push_back(one.number);
    if (missing == 0) {
      CHECK(numbers == std::vector<std::int64_t>{0, 1, 2, 3});
      CHECK(readUpdates(config, progress).size() == 4);
    } else {
      CHECK(numbers == std::vector<std::int64_t>{0, 1, 3});
      const std::string message = messageOf([&] { readUpdates(config, progress); });
      CHECK(message.find("; run/steps=2 repeats what the log has") != std::string::npos);
    }
  }
}

TEST_CASE("A log that ends with later updates is replayed up to the first that is missing", "[hogbatch]") {
  const ScratchFolder folder;
  const std::string path = folder.path("decisions.csv");
  RunConfig config = deckWith({});
  config.strategy.hogbatch.replay = path;
  const std::vector<std::int64_t> applied{1, 0, 4, -1, 2, 3, 5, -1}; // in the order of the rows
  const std::vector<std::int64_t> steps{0, 2, 2, 2, 5, 6, 7, 8};     // if the log ends after 1, 2, ... rows
  const std::vector<std::size_t> updates{0, 2, 2, 2, 3, 5, 6, 6};
  for (std::size_t end = 1; end <= applied.size(); ++end) {
    CAPTURE(end);
    {
      DecisionLog log(path, 0, false);
      for (std::size_t i = 0; i < end; ++i) {
        Decision made = decision(static_cast<std::int64_t>(i), applied[i], 0.1);
        made.read = 0;
        log.add(made);
      }
    }
    RunLength length;
    length.per_epoch = 8;
    for (length.steps = 1; length.steps <= 8; ++length.steps) {
      const SampleProgress progress(config, length, 320);
      if (length.steps == steps[end - 1])
        CHECK(readUpdates(config, progress).size() == updates[end - 1]);
      else
        CHECK_FALSE(messageOf([&] { readUpdates(config, progress); }).empty());
    }
  }
}

TEST_CASE("A log that cannot be continued keeps all its rows", "[hogbatch]") {
  const ScratchFolder folder;
  const std::string path = folder.path("decisions.csv");
  {
    DecisionLog log(path, 0, false);
    for (std::int64_t number = 0; number < 20; ++number) log.add(decision(number, number, 0.1));
    log.flush();
  }
  {
    const FileSizeLimit full(300); // a few rows
    CHECK_THROWS_AS(DecisionLog(path, 19, false), UserError);
  }
  CHECK(readDecisions(path).size() == 20);
}

TEST_CASE("What is no log of decisions is refused with its place", "[hogbatch]") {
  const ScratchFolder folder;
  const std::string path = folder.path("decisions.csv");
  const auto complaint = [&](const std::string& text) {
    folder.write("decisions.csv", text);
    return messageOf([&] { readDecisions(path); });
  };
  const std::string columns =
                        "number,worker,epoch,first,count,row,total,read,applied,rate,decay,in_place,check",
                    header = columns + '\n', numbers = "0,0,0,0,40,0,40,0,0,0.1,0,1",
                    good = numbers + ',' + checkWord(columns + numbers) + '\n';
  CHECK(complaint("time_s\n") == path + ": is not a decisions.csv of a run with run/decisions = true");
  for (const char* wrong :
       {"0,0,0,0,40,0,40,0,0,0.1,0", "x,0,0,0,40,0,40,0,0,0.1,0,1", "0,0,0,0,0,0,40,0,0,0.1,0,1",
        "0,0,0,0,40,0,30,0,0,0.1,0,1", "0;0,0,0,40,0,40,0,0,0.1,0,1", "0,0,0,0,40,0,40,0,0,0.1,0,1,2",
        "0,0,0,0,40,1,40,0,0,0.1,0,1", "0,99999999,0,0,40,0,40,0,0,0.1,0,1", "0,0,0,0,40,0,40,0,0,-0.1,0,1",
        "0,0,0,0,40,0,40,0,0,0.1,-5,1", "0,0,4611686018427387904,0,40,0,40,0,0,0.1,0,1"}) {
    INFO(wrong);
    CHECK(complaint(header + good + wrong + ",0\n" + good) == path + ":3: is not a decision");
  }
  for (const std::string& wrong : {std::string("\n"), numbers + '\n'})
    CHECK(complaint(header + good + wrong + good) == path + ":3: is not a decision");
  folder.write("decisions.csv", header + good + "0,0,0,0,4");
  CHECK(readDecisions(path).size() == 1); // half a row of a killed run
}

TEST_CASE("A log in which anything was changed is refused, and one that ends early is not", "[hogbatch]") {
  const ScratchFolder folder;
  const std::string path = folder.path("decisions.csv");
  {
    DecisionLog log(path, 0, false);
    for (std::int64_t number = 0; number < 4; ++number) log.add(decision(number, number, 0.1));
  }
  const std::string whole = readTextFile(path, 1 << 16);
  std::vector<std::string> rows; // the first one is the header
  std::istringstream lines(whole);
  for (std::string row; std::getline(lines, row);) rows.push_back(row + '\n');
  REQUIRE(rows.size() == 5);
  const auto complaint = [&](const std::string& text) {
    folder.write("decisions.csv", text);
    return messageOf([&] { readDecisions(path); });
  };
  for (std::size_t i = rows[0].size(); i < whole.size(); ++i) {
    CAPTURE(i);
    const auto line = 1 + std::count(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(i), '\n');
    if (whole[i] != '\n') {
      std::string changed = whole;
      changed[i] = changed[i] == '7' ? '8' : '7';
      CHECK_THAT(complaint(changed), Catch::Matchers::StartsWith(path + ":" + std::to_string(line) + ": "));
    }
    folder.write("decisions.csv", whole.substr(0, i)); // as a run that was killed leaves it
    CHECK(readDecisions(path).size() == static_cast<std::size_t>(line - (whole[i] == '\n' ? 1 : 2)));
  }
  const std::string refusal = ": was changed, or the row before it was changed or removed";
  CHECK(complaint(rows[0] + rows[1] + rows[3] + rows[4]) == path + ":3" + refusal);
  CHECK(complaint(rows[0] + rows[1] + rows[3] + rows[2] + rows[4]) == path + ":3" + refusal);
  CHECK(complaint(rows[0] + rows[1] + rows[1]) == path + ":3" + refusal);
}

TEST_CASE("Numbers that are no state of workers are none, whatever they are", "[hogbatch]") {
  HogbatchState state;
  state.version = 7;
  state.loss = 0.25;
  state.groups.resize(2);
  state.workers.resize(3);
  state.workers[1].updates = 4;
  const std::vector<double> good = state.numbers();
  const auto found = HogbatchState::from(good);
  REQUIRE(found);
  CHECK(found->numbers() == good);
  CHECK_FALSE(HogbatchState::from({}));
  CHECK_FALSE(HogbatchState::from({0.0}));
  for (const double wrong : {std::nan(""), -1.0, 1.5, 2.5, 1e15, 1e300, HUGE_VAL}) {
    CAPTURE(wrong);
    for (const std::size_t count : {0, 1}) {
      std::vector<double> numbers = good;
      numbers[count] = wrong;
      CHECK_FALSE(HogbatchState::from(numbers));
    }
  }
  for (const double wrong : {std::nan(""), -1e300, HUGE_VAL}) {
    std::vector<double> numbers = good;
    *std::find(numbers.begin(), numbers.end(), 7.0) = wrong;
    CHECK_FALSE(HogbatchState::from(numbers));
    CHECK_FALSE(HogbatchState::from(numbers, 2, 3));
  }
}

} // namespace partita::test::strategy_hogbatch
