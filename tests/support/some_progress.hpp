#pragma once

#include "partita/io/run_file.hpp"

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

} // namespace partita::test
