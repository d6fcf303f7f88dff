#include "small_run.hpp"
#include "support/catch.hpp"

namespace partita::test::layers {

/// Layers that keep more than their input and output between the passes of several microbatches.

namespace {

/// Two blocks of a GPT with dropout; `recompute` as text.
Overrides gpt(const std::string& recompute) {
  const std::string residual = "{ type = 'residual', recompute = " + recompute + ", layers = [";
  return {"data/kind=grammar",
          "data/classes=0",
          "data/sequence=8",
          "data/samples=96",
          "data/test_samples=8",
          "network/layers=[{ type = 'embedding', width = 16, positions = true }, { type = 'dropout' }, "
          "{ type = 'block', repeat = 2, layers = [" +
              residual +
              "{ type = 'layer-norm' }, { type = 'attention', heads = 2 }, { type = 'dropout' }] }, " +
              residual +
              "{ type = 'rms-norm' }, { type = 'dense', units = 32, activation = 'silu' }, "
              "{ type = 'dense', units = 16 }, { type = 'dropout' }] }] }, { type = 'dense' }]"};
}

/// Convolutions with batch norm and group norm, some of them in a residual layer.
Overrides images(const std::string& recompute) {
  return {
      "network/layers=[{ type = 'conv2d', channels = 4, kernel = 3, padding = 'same', bias = false }, "
      "{ type = 'batch-norm', activation = 'relu' }, { type = 'residual', recompute = " +
      recompute +
      ", layers = [{ type = 'conv2d', channels = 4, kernel = 3, padding = 'same' }, { type = 'batch-norm' }, "
      "{ type = 'group-norm', groups = 2 }, { type = 'dropout', rate = 0.2 }], activation = 'relu' }, "
      "{ type = 'max-pool' }, { type = 'group-norm', groups = 4 }, "
      "{ type = 'average-pool' }, { type = 'dense', units = 24, activation = 'gelu' }, { type = 'dense' }]"};
}

} // namespace

TEST_CASE("Layers of all kinds come to the bits of one rank in a pipeline, recomputed or not", "[pipeline]") {
  for (const auto& network : {gpt, images}) {
    for (const char* count : {"strategy/microbatches=3", "strategy/microbatches=5"}) {
      const Overrides shared{"run/steps=6", "training/batch=20", count};
      const Overrides joint{"strategy/kind=joint"};
      const std::string expected = trainedHash(1, network("false") + shared + joint);
      CHECK(trainedHash(1, network("true") + shared + joint) == expected);
      for (int stages = 2; stages <= everyone().size(); ++stages) {
        for (const char* recompute : {"false", "true"}) {
          for (const char* schedule : {"message-driven", "1f1b", "gpipe"}) {
            INFO(stages << " stages, " << count << ", " << schedule << ", recompute " << recompute);
            const Overrides grid{"strategy/kind=pipeline", "strategy/stages=" + std::to_string(stages),
                                 std::string("strategy/schedule=") + schedule};
            CHECK(trainedHash(stages, network(recompute) + shared + grid) == expected);
          }
        }
      }
    }
  }
}

} // namespace partita::test::layers
