"""The built-in characters: too hard for a linear model, easy for six layers, whole or in two stages."""

import support
from support import DECKS, train


class Glyphs(support.RunTest):
    def accuracy(self, *overrides, ranks=1):
        summary = train(self.folder / "run", DECKS / "demo.toml", *overrides, ranks=ranks)
        self.assertEqual(summary["warnings"], [])
        return 100 * summary["test_accuracy"]

    def test_a_linear_model_fails(self):
        accuracy = self.accuracy("strategy/kind=joint", 'network/layers=[{ type = "dense" }]')
        self.assertLess(accuracy, 85)
        self.assertGreater(accuracy, 30)

    def test_the_whole_network_learns(self):
        self.assertGreater(self.accuracy("strategy/kind=joint"), 95)

    def test_two_stages_learn(self):
        self.assertGreater(self.accuracy(ranks=2), 95)

    def test_frozen_stages_of_one_layer_keep_what_earlier_ones_know(self):
        few = ("strategy/stages=6", "strategy/cuts=[1,2,3,4,5]", "strategy/input=frozen", "run/epochs=2",
               "data/samples=6000")
        self.assertGreater(self.accuracy(*few), 65)
        without = train(self.folder / "without", DECKS / "demo.toml", *few, "strategy/label_start=off")
        self.assertEqual(len(without["warnings"]), 1, without["warnings"])
        self.assertRegex(without["warnings"][0], r"the joined network has an accuracy of [\d.]+ %, but stage \d alone")


if __name__ == "__main__":
    support.main()
