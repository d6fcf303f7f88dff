"""What every way to train must reach on EMNIST's 47 characters, 784-256x5-47, 5 epochs per stage: means of two seeds.

Frozen stages train one after another, so there the two seeds share the cores; stages of a relay get a rank each.
"""

import support
from support import DECKS


class Emnist(support.RunTest):
    def accuracy(self, deck, *overrides, ranks=1):
        accuracy, warnings = support.mean_accuracy(DECKS / f"{deck}.toml", f"data/path={self.data('emnist47')}",
                                                   *overrides, ranks=ranks)
        self.assertEqual(warnings, [])
        return accuracy

    def test_joint(self):
        self.assertGreaterEqual(self.accuracy("emnist-joint"), 83.0)

    def test_16_bits(self):
        """As accurate as float, within 0.3 points."""
        for deck, ranks in (("emnist-joint", 1), ("emnist-relay-2", 2)):
            in_float = self.accuracy(deck, ranks=ranks)
            for precision in ("bf16", "fp16"):
                with self.subTest(deck, precision=precision):
                    self.assertGreaterEqual(self.accuracy(deck, f"run/precision={precision}", ranks=ranks), in_float - 0.3)

    def test_uniform_labels_and_squared_error(self):
        self.assertGreaterEqual(self.accuracy("emnist-paper"), 82.0)

    def test_two_frozen_stages(self):
        self.assertGreaterEqual(self.accuracy("emnist-prototype-2"), 83.4)

    def test_four_frozen_stages(self):
        self.assertGreaterEqual(self.accuracy("emnist-prototype-4"), 82.7)

    def test_six_frozen_stages_with_learned_labels(self):
        self.assertGreaterEqual(self.accuracy("emnist-relay-4", "strategy/stages=6", "strategy/cuts=[1,2,3,4,5]",
                                              "strategy/input=frozen"), 83.0)

    def test_relay_of_two(self):
        self.assertGreaterEqual(self.accuracy("emnist-relay-2", ranks=2), 83.6)

    def test_relay_of_four(self):
        self.assertGreaterEqual(self.accuracy("emnist-relay-4", ranks=2), 83.5)

    def test_relay_of_six(self):
        six = ("strategy/stages=6", "strategy/cuts=[1,2,3,4,5]")
        self.assertGreaterEqual(self.accuracy("emnist-relay-4", *six, ranks=2), 83.2)
        self.assertGreaterEqual(self.accuracy("emnist-relay-4", *six, "strategy/exits=sum", ranks=2), 83.5)

    def test_relay_of_four_with_fixed_labels(self):
        self.assertGreaterEqual(self.accuracy("emnist-relay-4", "strategy/labels=orthogonal", ranks=2), 82.4)

    def test_relay_of_four_with_an_epoch_of_recovery(self):
        self.assertGreaterEqual(self.accuracy("emnist-relay-4", "strategy/recovery_epochs=1", ranks=2), 83.3)

    def test_without_cut_initialisation_units_die(self):
        accuracy = self.accuracy("emnist-paper", "strategy/initialisation=he")
        self.assertGreaterEqual(accuracy, 70.0)
        self.assertLessEqual(accuracy, 78.0)

    def test_small_labels_are_warned_of(self):
        result = support.train(self.folder / "run", DECKS / "emnist-paper.toml", f"data/path={self.data('emnist47')}",
                               "strategy/initialisation=he", "strategy/kappa=0.1", "run/epochs=1", timeout=600)
        self.assertEqual(len(result["warnings"]), 1)
        self.assertIn("stage 1 does not learn", result["warnings"][0])


if __name__ == "__main__":
    support.main()
