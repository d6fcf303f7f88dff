"""The whole network and four stages on EMNIST's 47 characters, one seed each: a quick form of slow_emnist.py."""

import support
from support import DECKS


class Accuracy(support.RunTest):
    def check(self, deck, *overrides, ranks, least):
        accuracy, warnings = support.mean_accuracy(DECKS / f"{deck}.toml", f"data/path={self.data('emnist47')}",
                                                   *overrides, ranks=ranks, seeds=(1,))
        self.assertEqual(warnings, [])
        self.assertGreaterEqual(accuracy, least)

    def test_whole(self):
        self.check("emnist-joint", ranks=1, least=83.0)

    def test_relay_of_four_with_an_epoch_of_recovery(self):
        self.check("emnist-relay-4", "strategy/recovery_epochs=1", ranks=2, least=83.0)


if __name__ == "__main__":
    support.main()
