"""Small forms of the decks of convolutional networks, on the built-in characters: whole, in stages, on
replicas."""

import support
from support import DECKS, GROUP_NORM, run, train

GLYPHS = ["data/kind=glyphs", "data/classes=10", "data/samples=2560", "data/test_samples=500", "data/distortion=0.5",
          "training/batch=64", "run/log_every=20", "optimiser/warmup_steps=0"]
SMALL_LENET = """network/layers=[
  { type = "conv2d", channels = 6, kernel = 5, stride = 2, activation = "relu" }, { type = "max-pool", kernel = 2 },
  { type = "conv2d", channels = 16, kernel = 3, activation = "relu" }, { type = "max-pool", kernel = 2 },
  { type = "dense", units = 64, activation = "relu" }, { type = "dense" } ]""".replace("\n", "")
STAGES = ["strategy/kind=sil", "strategy/cuts=[4]"]


class Images(support.RunTest):
    def trained(self, deck, *overrides, ranks=1):
        return train(self.folder / "run", DECKS / f"{deck}.toml", *GLYPHS, *overrides, ranks=ranks)

    def test_lenet(self):
        self.assertGreater(self.trained("lenet-mnist", SMALL_LENET, "run/epochs=4")["test_accuracy"], 0.9)

    def test_lenet_in_stages(self):
        for kind in ("relay", "frozen", "free"):
            with self.subTest(input=kind):
                found = self.trained("lenet-mnist", SMALL_LENET, *STAGES, f"strategy/input={kind}", "run/epochs=4",
                                     ranks=2)
                self.assertGreater(found["test_accuracy"], 0.8)

    def test_group_norm_learns_the_same_on_any_ranks(self):
        stages = ["strategy/stages=4", "strategy/cuts=[2,4,7]"]
        pipeline = ["strategy/kind=pipeline", "strategy/microbatches=4", *stages]
        labels = ["strategy/kind=sil", "strategy/labels=gaussian", *stages]
        joint = ["strategy/kind=joint", "strategy/microbatches=4"]
        for runs in ([(1, joint), *((ranks, pipeline) for ranks in (1, 2, 4))], [(ranks, labels) for ranks in (1, 2, 4)]):
            hashes = set()
            for ranks, overrides in runs:
                found = train(self.folder / "run", self.deck, GROUP_NORM, "run/epochs=6", "strategy/cuts=flops", *overrides,
                              ranks=ranks)
                hashes.add(found["parameters_hash"])
            self.assertEqual(len(hashes), 1, runs)
            self.assertGreater(found["test_accuracy"], 0.25)  # chance: 0.1

    def test_resnet_ends_early_and_is_the_same_when_evaluated(self):
        shrink = ["data/image_size=14", "run/steps=6"]
        for more, ranks in ((["strategy/kind=joint"], 1), (["strategy/kind=joint"], 2), (STAGES, 2)):
            with self.subTest(more=more, ranks=ranks):
                found = self.trained("resnet-emnist", *shrink, *more, ranks=ranks)
                result = run("evaluate", self.folder / "run", ranks=ranks)
                self.assertDone(result)
                self.assertIn(found["parameters_hash"], result.stdout)
                self.assertIn(f"{100 * found['test_accuracy']:.2f} %", result.stdout)


if __name__ == "__main__":
    support.main()
