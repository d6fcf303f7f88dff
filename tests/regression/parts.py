"""Ranks that share the layers of a stage: what the program says, writes and continues from."""

import re

import support
from support import run, train

DECK = support.SMALL_DECK.replace('kind = "sil"', 'kind = "joint"').replace("stages = 2\ncuts = [3]\n", "")
IMAGES = """network/layers=[{ type = "conv2d", channels = 6, kernel = 3, padding = 1, activation = "gelu" },
 { type = "conv2d", channels = 8, kernel = 3, stride = 2, bias = false }, { type = "batch-norm", activation = "gelu" },
 { type = "dense" }]""".replace("\n", "")
SPLITS = ("filter", "channel", "grid", "spatial")
PLANNED = re.compile("# parts exchange ([0-9]+) bytes in ([0-9]+) messages per step")


class Parts(support.RunTest):
    def setUp(self):
        super().setUp()
        self.deck = self.folder / "deck.toml"
        self.deck.write_text(DECK)

    def train(self, name, *overrides, ranks=2):
        return train(self.folder / name, self.deck, IMAGES, "run/steps=12", "optimiser/kind=sgd", *overrides, ranks=ranks)

    def test_the_banner_prints_what_parts_will_send(self):
        for split in SPLITS:
            shared = (IMAGES, "run/steps=12", "strategy/parts=2", f"strategy/split={split}")
            result = run("train", self.deck, *shared, "-d", self.folder / split, ranks=2)
            self.assertEqual(result.returncode, 0, result.stderr)
            planned = [12 * int(number) for number in PLANNED.search(result.stdout).groups()]
            summary = support.summary_of(self.folder / split)
            self.assertEqual([summary["bytes_between_parts"], summary["messages_between_parts"]], planned)
            self.assertGreater(planned[0], 0)
            self.assertEqual(summary["grid"], {"stages": 1, "replicas": 1, "parts": 2, "ranks": 2})

    def test_a_checkpoint_moves_between_divisions(self):
        for number, split in enumerate(SPLITS):
            whole = self.train(split, "strategy/parts=2", f"strategy/split={split}", "checkpoint/every=6")
            middle = support.checkpoints(self.folder / split)[6]
            again = self.train(f"{split}-again", "strategy/parts=2", f"strategy/split={split}", "-r", middle)
            self.assertEqual(again["parameters_hash"], whole["parameters_hash"])
            other = SPLITS[(number + 1) % len(SPLITS)]
            for name, ranks, overrides in (("one", 1, ()), ("other", 2, ("strategy/parts=2", f"strategy/split={other}"))):
                found = self.train(f"{split}-{name}", *overrides, "-r", middle, ranks=ranks)
                self.assertAlmostEqual(found["test_loss"], whole["test_loss"], delta=1e-5)
                self.assertEqual(found["warnings"], [])
            for ranks in (1, 2):
                result = run("evaluate", self.folder / split, ranks=ranks)
                self.assertIn(whole["parameters_hash"], result.stdout, result.stderr)
            result = run("export", self.folder / split, "-o", self.folder / f"{split}.npz")
            self.assertEqual(result.returncode, 0, result.stderr)

    def test_what_does_not_fit_is_one_line(self):
        for overrides, ranks, words in (
                (["strategy/parts=7", "strategy/split=filter"], 1, "7 parts cannot share the 6 output channels"),
                (["strategy/parts=3"], 2, "2 ranks do not fit 1 stages x 1 replicas x 3 parts"),
                (["strategy/parts=2", "strategy/kind=sil", "strategy/stages=2"], 2, "strategy/parts: needs kind"),
                (["strategy/parts=2", "strategy/kind=pipeline", "strategy/stages=2"], 2, "strategy/schedule: parts need"),
                (["strategy/parts=14", "strategy/split=spatial"], 1, "no layer of the network can be shared")):
            result = run("train", self.deck, IMAGES, *overrides, "-d", self.folder / "run", ranks=ranks)
            self.assertEqual(result.returncode, 2)
            self.assertEqual(len(support.complaints(result)), 1, result.stderr)
            self.assertIn(words, support.complaints(result)[0])


if __name__ == "__main__":
    support.main()
