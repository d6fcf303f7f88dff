"""What whole and divided networks must reach on MNIST, 784-256x5-10 and LeNet, 5 epochs per stage, two seeds each."""

import support
from support import DECKS


class Mnist(support.RunTest):
    def check(self, deck, *overrides, ranks=1, least=97.9):
        accuracy, warnings = support.mean_accuracy(DECKS / f"{deck}.toml", f"data/path={self.data('mnist')}",
                                                   *overrides, ranks=ranks)
        self.assertEqual(warnings, [])
        self.assertGreaterEqual(accuracy, least)

    def test_joint(self):
        self.check("mnist-joint")

    def test_two_frozen_stages(self):
        self.check("mnist-relay-2", "strategy/input=frozen")

    def test_relay_of_two(self):
        self.check("mnist-relay-2", ranks=2)

    def test_uniform_labels_and_squared_error(self):
        for source in ("free", "frozen"):
            with self.subTest(source):
                self.check("mnist-relay-2", f"strategy/input={source}", "strategy/labels=uniform", "strategy/loss=mse")

    def test_frozen_stages_with_orthogonal_labels(self):
        for cuts in (("strategy/cuts=[3]",), ("strategy/stages=4", "strategy/cuts=[2,4,5]")):
            with self.subTest(cuts[-1]):
                self.check("mnist-relay-2", "strategy/input=frozen", "strategy/labels=orthogonal", *cuts)

    def test_lenet(self):
        self.check("lenet-mnist", least=99.2)

    def test_lenet_in_bf16(self):
        self.check("lenet-mnist", "run/precision=bf16", least=99.1)


if __name__ == "__main__":
    support.main()
