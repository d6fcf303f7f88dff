#include "partita/plan/pipeline_schedule.hpp"
#include "partita/plan/run_length.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"

namespace partita::test::plan_pipeline_schedule {

namespace {

StrategySection scheduled(PipelineSchedule schedule, std::int64_t limit = 0,
                          PipelineTie tie = PipelineTie::forward_first, bool caps = false) {
  StrategySection strategy;
  strategy.pipeline.schedule = schedule;
  strategy.pipeline.limit = limit;
  strategy.pipeline.tie = tie;
  strategy.pipeline.caps = caps;
  return strategy;
}

/// Ranks that take turns in a random order, with messages that arrive at once: the passes of each rank, as in
/// "FFBFB", and the maximum number that was live.
struct Simulated {
  Simulated(const StrategySection& strategy, int groups, std::int64_t microbatches, unsigned seed)
      : orders(static_cast<std::size_t>(groups)), most_live(static_cast<std::size_t>(groups)) {
    std::vector<ScheduleRule> rules;
    for (int group = 0; group < groups; ++group) rules.emplace_back(strategy, group, groups, microbatches);
    std::vector<BatchProgress> progress(static_cast<std::size_t>(groups));
    const auto count = static_cast<std::size_t>(groups);
    std::size_t idle = 0;
    while (idle < 64 * count) {
      seed = seed * 1664525U + 1013904223U;
      const std::size_t g = (seed >> 16) % count;
      const bool last = g + 1 == count;
      BatchProgress& own = progress[g];
      const Arrivals here{g == 0 || progress[g - 1].forwards > own.forwards ? 1 : -1,
                          !last && progress[g + 1].backwards > own.backwards ? 1 : -1};
      const PassKind operation = rules[g].choose(own, here);
      idle = operation == PassKind::none ? idle + 1 : 0;
      if (operation == PassKind::none) continue;
      orders[g] += operation == PassKind::forward ? 'F' : 'B';
      ++(operation == PassKind::forward ? own.forwards : own.backwards);
      most_live[g] = std::max(most_live[g], own.live());
      if (last && operation == PassKind::forward) {
        ++own.backwards;
        orders[g] += 'B';
      }
    }
    done = std::all_of(progress.begin(), progress.end(),
                       [&](const BatchProgress& each) { return each.backwards == microbatches; });
  }
  std::vector<std::string> orders;
  std::vector<std::int64_t> most_live;
  bool done = false;
};

} // namespace

TEST_CASE("Every schedule ends, within its windows", "[strategy]") {
  std::vector<StrategySection> strategies;
  for (const std::int64_t limit : {0, 1, 2, 3, 100}) {
    for (const auto schedule :
         {PipelineSchedule::one_f_one_b, PipelineSchedule::eager_one_f_one_b, PipelineSchedule::gpipe})
      strategies.push_back(scheduled(schedule, limit));
    for (const auto tie : {PipelineTie::forward_first, PipelineTie::backward_first, PipelineTie::fifo})
      for (const bool caps : {false, true})
        strategies.push_back(scheduled(PipelineSchedule::message_driven, limit, tie, caps));
  }
  for (const StrategySection& strategy : strategies) {
    for (const int groups : {1, 2, 3, 4, 7}) {
      for (const std::int64_t microbatches : {1, 2, 3, 5, 16}) {
        for (const unsigned seed : {1U, 2U, 3U}) {
          const Simulated run(strategy, groups, microbatches, seed);
          REQUIRE(run.done);
          for (int group = 0; group < groups; ++group) {
            const std::int64_t window = liveWindow(strategy, group, groups, microbatches);
            REQUIRE(run.most_live[static_cast<std::size_t>(group)] <= window);
            REQUIRE(window <= microbatches);
            if (group > 0) REQUIRE(window <= liveWindow(strategy, group - 1, groups, microbatches));
          }
        }
      }
    }
  }
}

TEST_CASE("Fixed schedules have one order", "[strategy]") {
  using Orders = std::vector<std::string>;
  for (const unsigned seed : {1U, 5U}) {
    CHECK(Simulated(scheduled(PipelineSchedule::one_f_one_b), 3, 4, seed).orders ==
          Orders{"FFFBFBBB", "FFBFBFBB", "FBFBFBFB"});
    CHECK(Simulated(scheduled(PipelineSchedule::eager_one_f_one_b), 3, 6, seed).orders ==
          Orders{"FFFFFBFBBBBB", "FFFBFBFBFBBB", "FBFBFBFBFBFB"});
    CHECK(Simulated(scheduled(PipelineSchedule::gpipe), 3, 3, seed).orders ==
          Orders{"FFFBBB", "FFFBBB", "FBFBFB"});
  }
}

TEST_CASE("A message-driven rank takes what is there, and a tie goes by its rule", "[strategy]") {
  const auto chosen = [](PipelineTie tie, BatchProgress progress, Arrivals arrivals) {
    return ScheduleRule(scheduled(PipelineSchedule::message_driven, 3, tie), 0, 4, 8)
        .choose(progress, arrivals);
  };
  for (const auto tie : {PipelineTie::forward_first, PipelineTie::backward_first, PipelineTie::fifo}) {
    CHECK(chosen(tie, {2, 1}, {5, -1}) == PassKind::forward);
    CHECK(chosen(tie, {2, 1}, {-1, 5}) == PassKind::backward);
    CHECK(chosen(tie, {2, 1}, {-1, -1}) == PassKind::none);
    CHECK(chosen(tie, {3, 0}, {5, -1}) == PassKind::none); // the window is full
    CHECK(chosen(tie, {8, 6}, {5, -1}) == PassKind::none); // no microbatch is left
    CHECK(chosen(tie, {3, 0}, {5, 6}) == PassKind::backward);
  }
  CHECK(chosen(PipelineTie::forward_first, {2, 1}, {6, 5}) == PassKind::forward);
  CHECK(chosen(PipelineTie::backward_first, {2, 1}, {5, 6}) == PassKind::backward);
  CHECK(chosen(PipelineTie::fifo, {2, 1}, {5, 6}) == PassKind::forward);
  CHECK(chosen(PipelineTie::fifo, {2, 1}, {6, 5}) == PassKind::backward);
}

TEST_CASE("Windows are those of the deck", "[strategy]") {
  const auto windows = [](const StrategySection& strategy, std::int64_t microbatches) {
    std::vector<std::int64_t> all;
    for (int group = 0; group < 4; ++group) all.push_back(liveWindow(strategy, group, 4, microbatches));
    return all;
  };
  using Windows = std::vector<std::int64_t>;
  CHECK(windows(scheduled(PipelineSchedule::message_driven), 32) == Windows{8, 8, 8, 1});
  CHECK(windows(scheduled(PipelineSchedule::message_driven, 5), 32) == Windows{5, 5, 5, 1});
  CHECK(windows(scheduled(PipelineSchedule::message_driven, 0, PipelineTie::backward_first, true), 32) ==
        Windows{6, 5, 4, 1});
  CHECK(windows(scheduled(PipelineSchedule::one_f_one_b), 32) == Windows{4, 3, 2, 1});
  CHECK(windows(scheduled(PipelineSchedule::eager_one_f_one_b), 32) == Windows{7, 5, 3, 1});
  CHECK(windows(scheduled(PipelineSchedule::gpipe), 32) == Windows{32, 32, 32, 1});
  CHECK(windows(scheduled(PipelineSchedule::gpipe), 3) == Windows{3, 3, 3, 1});
}

TEST_CASE("A pipeline without a limit could do with a smaller one", "[strategy]") {
  const StrategySection free = scheduled(PipelineSchedule::message_driven);
  for (const auto& [groups, limit] : {std::pair{1, 0}, {2, 3}, {3, 5}, {4, 6}, {8, 12}})
    CHECK(smallerLimit(free, groups) == limit);
  CHECK(smallerLimit(scheduled(PipelineSchedule::message_driven, 8), 4) == 0);
  CHECK(smallerLimit(scheduled(PipelineSchedule::gpipe), 4) == 0);
}

TEST_CASE("A share becomes as many microbatches as the deck says, none of them empty", "[strategy]") {
  StrategySection strategy;
  strategy.pipeline.microbatches = 5;
  CHECK(microbatchesOf(strategy, 12) == 5);
  CHECK(microbatchRows(strategy, 12) == 3);
  CHECK(microbatchesOf(strategy, 3) == 3);
  CHECK(microbatchRows(strategy, 3) == 1);
  strategy.pipeline.microbatches = 1;
  CHECK(microbatchRows(strategy, 12) == 12);
}

} // namespace partita::test::plan_pipeline_schedule
