#pragma once

#include "partita/io/run_file.hpp"

#include "support/catch.hpp"

namespace partita::test {

/// A value of its own for every field of a checkpoint's progress.
inline RunProgress someProgress() {
  RunProgress progress;
  progress.position = {RunPhase::recovery, 1, 7};
  progress.run_step = 37;
  progress.samples = 600;
  progress.per_epoch = 5;
  progress.seed = 3;
  progress.elapsed_seconds = 1.5;
  progress.training_seconds = 1.25;
  progress.evaluation_seconds = 0.125;
  progress.traffic = {1, 2, 3, 4, 5};
  progress.stages = 2;
  progress.replicas = 2;
  progress.ranks = 4;
  progress.scores = {{1, 2, 3}, {4, 5, 6}, {7, 8, 9}, {10, 11, 12}};
  progress.updates = {{41, 32768, 7}, {40, 1024, 0}};
  progress.numbers = {0.5, -2};
  return progress;
}

inline void checkSame(const RunProgress& found, const RunProgress& wanted) {
  CHECK(found.position.phase == wanted.position.phase);
  CHECK(found.position.stage == wanted.position.stage);
  CHECK(found.position.step == wanted.position.step);
  CHECK(found.run_step == wanted.run_step);
  CHECK(found.samples == wanted.samples);
  CHECK(found.per_epoch == wanted.per_epoch);
  CHECK(found.seed == wanted.seed);
  CHECK(found.elapsed_seconds == wanted.elapsed_seconds);
  CHECK(found.training_seconds == wanted.training_seconds);
  CHECK(found.evaluation_seconds == wanted.evaluation_seconds);
  for (const TrafficCounter& counter : traffic_counters)
    CHECK(found.traffic.*counter.value == wanted.traffic.*counter.value);
  CHECK(found.stages == wanted.stages);
  CHECK(found.replicas == wanted.replicas);
  CHECK(found.ranks == wanted.ranks);
  REQUIRE(found.scores.size() == wanted.scores.size());
  for (std::size_t i = 0; i < wanted.scores.size(); ++i) {
    CHECK(found.scores[i].loss == wanted.scores[i].loss);
    CHECK(found.scores[i].correct == wanted.scores[i].correct);
    CHECK(found.scores[i].rows == wanted.scores[i].rows);
  }
  REQUIRE(found.updates.size() == wanted.updates.size());
  for (std::size_t i = 0; i < wanted.updates.size(); ++i) {
    CHECK(found.updates[i].steps == wanted.updates[i].steps);
    CHECK(found.updates[i].loss_scale == wanted.updates[i].loss_scale);
    CHECK(found.updates[i].clean_steps == wanted.updates[i].clean_steps);
  }
  CHECK(found.numbers == wanted.numbers);
}

} // namespace partita::test
