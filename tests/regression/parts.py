"""Ranks that share the layers of a stage: what the program says, writes and continues from."""

import re

import support
from support import run, train

DECK = support.SMALL_DECK.replace('kind = "sil"', 'kind = "joint"').replace("stages = 2\ncuts = [3]\n", "")
IMAGES = """network/layers=[{ type = "conv2d", channels = 6, kernel = 3, padding = 1, activation = "gelu" },
 { type = "conv2d", channels = 8, kernel = 3, stride = 2, bias = false }, { type = "batch-norm", activation = "gelu" },
 { type = "dense" }]""".replace("\n", "")
GPT = ("data/kind=grammar", "data/classes=0", "data/sequence=9", """network/layers=[{ type = "embedding", width = 12 },
 { type = "residual", layers = [{ type = "layer-norm" }, { type = "attention", heads = 3 }, { type = "dropout" }] },
 { type = "residual", layers = [{ type = "layer-norm" }, { type = "dense", units = 31, activation = "gelu" },
 { type = "dense", units = 12 }] }, { type = "layer-norm" }, { type = "dense", tied = true, bias = false }]""".replace("\n", ""))
DENSE = 'network/layers=[{ type = "dense", units = 9 }, { type = "dense", units = 9 }, { type = "dense" }]'
SPLITS = ("filter", "channel", "grid", "spatial")
SIL = ("strategy/kind=sil", "strategy/stages=2", "strategy/cuts=[2]")
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

    def test_exchanges_of_parts_are_no_part_of_the_layers(self):
        """Layers wait for other parts in the middle of their computation: 0.05 s per message on this link."""
        result = run("train", self.deck, *GPT, "strategy/parts=2", "run/steps=6", "run/timing=true", ranks=2,
                     environment={"PARTITA_LINKS": "latency=5e-2,bandwidth=1e9"})
        self.assertEqual(result.returncode, 0, result.stderr)
        times = support.phases(result)
        self.assertGreater(times["waiting"], 6 * 0.25)
        self.assertLess(times["element-wise and loss"], 0.3 * times["waiting"])

    def test_stages_with_labels_send_what_the_banner_prints(self):
        for split in SPLITS:
            for overrides in ((), ("strategy/input=free",), ("strategy/input=frozen",)):
                result = run("train", self.deck, IMAGES, *SIL, "run/steps=12", "strategy/parts=2",
                             f"strategy/split={split}", *overrides, "--overwrite", "-d", self.folder / split, ranks=4)
                self.assertEqual(result.returncode, 0, result.stderr)
                planned = [12 * int(number) for number in PLANNED.search(result.stdout).groups()]
                summary = support.summary_of(self.folder / split)
                self.assertEqual([summary["bytes_between_parts"], summary["messages_between_parts"]], planned)
                self.assertEqual(summary["grid"], {"stages": 2, "replicas": 1, "parts": 2, "ranks": 4})

    def test_a_grid_is_chosen_by_hand(self):
        sent = {}
        for split, grids in (("grid", ("[1,4]", "[2,2]", "[4,1]")), ("spatial", ("[4,1]", "[2,2]", "[1,4]", "0"))):
            for grid in grids:
                name = f"{split}-{grid}"
                found = self.train(name, "strategy/parts=4", f"strategy/split={split}", f"strategy/parts_grid={grid}", ranks=4)
                sent[name] = found["bytes_between_parts"]
        self.assertGreater(sent["spatial-[4,1]"], sent["spatial-[2,2]"])
        self.assertEqual(sent["spatial-0"], sent["spatial-[2,2]"])
        self.assertEqual(len({sent[f"grid-{grid}"] for grid in ("[1,4]", "[2,2]", "[4,1]")}), 3)

    def test_checkpoints_of_stages_with_labels_move_between_divisions(self):
        for split, other in (("grid", "spatial"), ("spatial", "grid")):
            parts = ("strategy/parts=2", f"strategy/split={split}")
            whole = self.train(split, *SIL, *parts, "checkpoint/every=6", ranks=4)
            middle = support.checkpoints(self.folder / split)[6]
            again = self.train(f"{split}-again", *SIL, *parts, "-r", middle, ranks=4)
            self.assertEqual(again["parameters_hash"], whole["parameters_hash"])
            for name, ranks, overrides in (("two", 2, ()), ("other", 4, ("strategy/parts=2", f"strategy/split={other}")),
                                           ("blocks", 4, ("strategy/parts=4", "strategy/split=spatial"))):
                found = self.train(f"{split}-{name}", *SIL, *overrides, "-r", middle, ranks=ranks)
                self.assertAlmostEqual(found["test_loss"], whole["test_loss"], delta=1e-5)
            result = run("evaluate", self.folder / split, ranks=2)
            self.assertIn(whole["parameters_hash"], result.stdout, result.stderr)

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

    def test_a_transformer_moves_between_divisions_and_sends_what_is_planned(self):
        shared = (*GPT, "strategy/parts=2", "checkpoint/every=6", "run/steps=12")
        result = run("train", self.deck, *shared, "-d", self.folder / "whole", ranks=2)
        self.assertEqual(result.returncode, 0, result.stderr)
        whole = support.summary_of(self.folder / "whole")
        planned = [12 * int(number) for number in PLANNED.search(result.stdout).groups()]
        self.assertEqual([whole["bytes_between_parts"], whole["messages_between_parts"]], planned)
        middle = support.checkpoints(self.folder / "whole")[6]
        for name, ranks, overrides in (("again", 2, ("strategy/parts=2",)), ("three", 3, ("strategy/parts=3",)),
                                       ("filter", 2, ("strategy/parts=2", "strategy/split=filter")), ("one", 1, ())):
            found = train(self.folder / name, self.deck, *GPT, "run/steps=12", *overrides, "-r", middle, ranks=ranks)
            self.assertAlmostEqual(found["test_loss"], whole["test_loss"], delta=1e-4)
            self.assertEqual(found["warnings"], [])
            if name == "again":
                self.assertEqual(found["parameters_hash"], whole["parameters_hash"])
        for ranks in (1, 2):
            result = run("evaluate", self.folder / "whole", ranks=ranks)
            self.assertIn(whole["parameters_hash"], result.stdout, result.stderr)
        result = run("export", self.folder / "whole", "-o", self.folder / "gpt.npz")
        self.assertEqual(result.returncode, 0, result.stderr)
        result = run("train", self.deck, *GPT, "strategy/parts=4", "-d", self.folder / "refused")
        self.assertEqual(result.returncode, 2)
        self.assertEqual(len(support.complaints(result)), 1, result.stderr)
        self.assertIn("4 parts cannot share the 3 heads", support.complaints(result)[0])

    def test_weights_of_exits_count_once(self):
        """They are those of the run, although the parts of the last stage all have them."""
        summary = support.train(self.folder / "run", self.deck, IMAGES, *SIL, "strategy/exits=fitted", "data/validation=0.2",
                                "strategy/parts=2", "strategy/split=filter", ranks=4)
        shown = run("evaluate", self.folder / "run").stdout
        self.assertIn(f"{summary['test_loss']:.4f}", shown)

    def test_what_does_not_fit_is_one_line(self):
        for overrides, ranks, words in (
                (["strategy/parts=7", "strategy/split=filter"], 1, "7 parts cannot share the 6 output channels"),
                (["strategy/parts=3"], 2, "2 ranks do not fit 1 stage x 1 replica x 3 parts"),
                (["strategy/parts=2", "strategy/kind=local-sgd"], 2, "strategy/parts: needs kind"),
                (["strategy/parts=2", *SIL, "strategy/cuts=[1]", "strategy/refresh=5", DENSE], 4,
                 "strategy/refresh: parts divide the weights of stage 2 differently from their copy in the head of stage 1"),
                (["strategy/parts=2", *SIL, "strategy/recovery_epochs=1"], 2, "strategy/schedule: parts need"),
                (["strategy/parts=4", "strategy/parts_grid=[2,3]"], 2, "the product of its numbers is 6"),
                (["strategy/parts=4", "strategy/parts_grid=[2,2]", "strategy/split=filter"], 2,
                 "strategy/parts_grid: needs split 'grid' or 'spatial'"),
                (["strategy/parts=4", "strategy/parts_grid=[1,2,2]", "strategy/split=spatial"], 4,
                 "strategy/parts_grid: needs 2 numbers, one per axis of positions, not 3"),
                (["strategy/parts=2", "strategy/kind=pipeline", "strategy/stages=2"], 2, "strategy/schedule: parts need"),
                (["strategy/parts=13", "strategy/split=spatial"], 1, "no layer of the network can be shared")):
            result = run("train", self.deck, IMAGES, *overrides, "-d", self.folder / "run", ranks=ranks)
            self.assertEqual(result.returncode, 2)
            self.assertEqual(len(support.complaints(result)), 1, result.stderr)
            self.assertIn(words, support.complaints(result)[0])


if __name__ == "__main__":
    support.main()
