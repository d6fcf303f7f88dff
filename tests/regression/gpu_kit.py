"""What perf/gpu/run.py runs on a GPU node, rehearsed without a GPU: a mistake there would cost time on the node."""

import importlib.util
import os
import re
import shutil
import sys

import support
from support import DECKS, run

ROOT = DECKS.parent


def load(folder):
    """run.py as a module, in a folder that looks like an unpacked kit."""
    shutil.copytree(DECKS, folder / "decks")
    specification = importlib.util.spec_from_file_location("gpu_kit_run", ROOT / "perf" / "gpu" / "run.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    module.KIT, module.PARTITA = folder, os.path.abspath(sys.argv[1])
    return module


class Kit(support.RunTest):
    def setUp(self):
        super().setUp()
        self.module = load(self.folder)
        self.out = self.folder / "results"
        self.out.mkdir()
        self.kit = self.module.Kit(self.out, 100.0, False)

    def test_every_model_is_trained(self):
        """Dry runs of the decks, with the overrides of the measurements."""
        peers = (ROOT / "perf" / "gpu" / "peer.py").read_text()
        for name, (deck, batch, overrides) in self.module.MODELS.items():
            with self.subTest(name):
                keys = ["run/precision=bf16", f"training/batch={batch}", "run/steps=6", "run/log_every=3", *overrides]
                self.assertDone(run("train", self.kit.deck(deck), "-n", "data/test_samples=16", *keys))
                self.assertIn(f'"{name}"', peers)
                self.assertIn(name, self.module.PROFILED_STEPS)
        for deck in self.module.VARIANTS:
            self.assertTrue(self.kit.deck(deck).is_file())

    def test_equal_runs(self):
        for runs in self.module.SAME.values():
            for name, deck, overrides, ranks in runs:
                with self.subTest(name):
                    result = run("train", self.kit.deck(deck), "-n", "run/epochs=1", *overrides, ranks=ranks)
                    self.assertEqual(result.returncode, 0, result.stderr)  # offloading a small model causes a warning

    def test_smoke(self):
        rows = list(self.module.smoke(self.kit))
        self.assertEqual([row["ok"] for row in rows], [True, True], rows)
        self.assertGreater(rows[1]["value"], 0.5)
        rate = self.module.product_rate(self.kit, "float")
        self.assertTrue(1e9 < rate < 1e15, rate)
        said = (self.out / "info.log").read_text()
        self.assertEqual(self.module.product_rate(self.kit, "bf16") is not None, "; bf16 by " in said)

    def test_a_deck_that_has_changed_is_noticed(self):
        deck = next(iter(self.module.VARIANTS.values()))[0]
        path = self.folder / "decks" / deck
        path.write_text(re.sub("units", "width", path.read_text()))
        with self.assertRaisesRegex(SystemExit, f"{deck} has changed"):
            self.kit.deck(next(iter(self.module.VARIANTS)))

    def test_parts_and_the_table(self):
        names = [name for name, _, _ in self.module.PARTS]
        self.assertEqual(len(set(names)), len(names))
        for name in names:
            self.assertRegex(self.module.__doc__, rf"\b{name}\b")
        rows = [self.module.row("a", True, 3, "s"), self.module.row("b", False)]
        table = self.module.table({"smoke": {"ended": False, "rows": rows}})
        self.assertIn("| smoke | a | ok | 3 s |  |", table)
        self.assertIn("| smoke | b | FAILED |", table)
        self.assertIn("ran out of time", table)

    def test_results_are_complete_or_the_old_ones(self):
        file = self.write("results.md", "old")
        self.module.replace(file, "new")
        self.assertEqual(file.read_text(), "new")
        with self.assertRaises(UnicodeEncodeError):
            self.module.replace(file, "\ud800")  # cannot be written
        self.assertEqual(file.read_text(), "new")


if __name__ == "__main__":
    support.main()
