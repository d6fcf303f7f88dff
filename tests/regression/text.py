"""Networks on text: files and the built-in one, every strategy, replicas, restarts, and the messages."""

import gzip
import math
import os
import subprocess
import sys
from pathlib import Path

import support
from support import DECKS, run, train

NETWORK = """
[network]
layers = [
  { type = "embedding", width = 32, positions = true },
  { type = "dropout", rate = 0.1 },
  { type = "block", repeat = 3, layers = [
    { type = "residual", layers = [{ type = "layer-norm" }, { type = "attention", heads = 2 }] },
    { type = "residual", layers = [
      { type = "rms-norm" }, { type = "dense", units = 64, activation = "gelu" }, { type = "dense", units = 32 }] },
  ] },
  { type = "layer-norm" },
  { type = "dense" },
]
[training]
batch = 20
[optimiser]
learning_rate = 3e-3
"""
GRAMMAR = """
[run]
seed = 3
epochs = 2
log_every = 10
[data]
kind = "grammar"
sequence = 24
samples = 400
test_samples = 100
""" + NETWORK
SIL = ("strategy/kind=sil", "strategy/stages=2", "strategy/cuts=[3]")
TEXT = "the quick brown fox jumps over the lazy dog\n"


class Text(support.RunTest):
    def setUp(self):
        super().setUp()
        self.grammar = self.write("grammar.toml", GRAMMAR)

    def train(self, name, *overrides, ranks=1):
        return train(self.folder / name, self.grammar, *overrides, ranks=ranks)

    def test_joint_learns(self):
        summary = self.train("joint", "run/epochs=8")
        self.assertLess(summary["test_loss"], 1.9)  # characters alone have 2.8
        self.assertAlmostEqual(summary["test_perplexity"], math.exp(summary["test_loss"]), places=6)
        self.assertEqual(summary["warnings"], [])

    def test_sequences_of_one_position(self):
        summary = self.train("one", "data/sequence=1", "run/epochs=1")
        self.assertAlmostEqual(summary["test_perplexity"], math.exp(summary["test_loss"]), places=6)

    def test_every_strategy_learns(self):
        for name, limit, *overrides in (("relay", 3.0, "strategy/input=relay"), ("frozen", 3.0, "strategy/input=frozen"),
                                        ("free", math.log(30), "strategy/input=free"),  # only better than guessing
                                        ("recovery", 3.0, "strategy/input=relay", "strategy/recovery_epochs=1"),
                                        ("mse", 3.1, "strategy/loss=mse")):
            with self.subTest(name):
                one = self.train(f"{name}-1", *SIL, *overrides)
                self.assertLess(one["test_loss"], limit)
                two = self.train(f"{name}-2", *SIL, *overrides, ranks=2)
                self.assertEqual(one["parameters_hash"], two["parameters_hash"])

    def test_replicas_share_masks_and_batches(self):
        for overrides in ((), SIL):
            one = self.train(f"one{len(overrides)}", "run/steps=6", *overrides)
            two = self.train(f"two{len(overrides)}", "run/steps=6", *overrides, "strategy/replicas=2",
                             ranks=4 if overrides else 2)
            self.assertAlmostEqual(one["test_loss"], two["test_loss"], delta=2e-5)

    def test_restart_is_bitwise(self):
        whole = self.train("whole", "checkpoint/every=7")
        checkpoint = support.checkpoints(self.folder / "whole")[35]
        result = run("train", self.grammar, "checkpoint/every=7", "-r", checkpoint, "-d", self.folder / "again")
        self.assertDone(result)
        self.assertEqual(support.summary_of(self.folder / "again")["parameters_hash"], whole["parameters_hash"])

    def test_evaluation_of_a_run(self):
        summary = self.train("run")
        result = run("evaluate", self.folder / "run", "--predictions", self.folder / "x.npz")
        self.assertDone(result)
        self.assertIn(f"{summary['test_loss']:.4f}", result.stdout)

    def test_files_of_bytes_and_pairs(self):
        self.write("train.txt", TEXT * 60)
        self.write("test.txt", TEXT * 12)
        self.write("pairs.txt", "116 104\n256 101\n257 32\n")  # th, the, "the "
        deck = self.write("text.toml", f'[run]\nepochs = 20\n[data]\nkind = "text"\npath = "{self.folder}"\n'
                          'train_file = "train.txt"\ntest_file = "test.txt"\nsequence = 16\n' + NETWORK)
        losses = {}
        for name, *overrides in (("bytes",), ("pairs", "data/vocabulary=pairs.txt")):
            losses[name] = train(self.folder / name, deck, *overrides)["test_loss"]
        self.assertLess(losses["bytes"], 1.0)
        self.assertLess(losses["pairs"], 1.5)
        self.write("pairs.txt", "116 104\n116 900\n")
        self.assertRefused(run("train", deck, "-n", "data/vocabulary=pairs.txt"), "pairs.txt:2: token 900 is not defined")

    def test_script_for_byte_pairs(self):
        script = [sys.executable, Path(__file__).resolve().parents[2] / "scripts" / "byte_pairs.py"]
        text = self.write("text.txt", TEXT * 60)

        def pairs(count, **output):
            output = output or {"stdout": subprocess.PIPE}
            return subprocess.run([*script, text, count], stderr=subprocess.PIPE, text=True, timeout=support.HANGS,
                                  check=False, **output)
        good = pairs("258")
        self.assertEqual((good.returncode, len(good.stdout.splitlines()), good.stderr), (0, 2, ""))
        text = self.write("text.txt.gz", "")
        text.write_bytes(gzip.compress((TEXT * 60).encode()))
        self.assertEqual(pairs("258").stdout, good.stdout)
        few = pairs("256")
        self.assertEqual((few.returncode, few.stdout, few.stderr),
                         (1, "", "byte_pairs.py: the bytes are 256 tokens; TOKENS must be larger\n"))
        for count in ("\u00b2", "-1", "9" * 5000):
            with self.subTest(count[:8]):
                bad = pairs(count)
                self.assertEqual((bad.returncode, bad.stdout), (1, ""))
                self.assertIn("byte_pairs.py TEXT TOKENS", bad.stderr)
                self.assertNotIn("Traceback", bad.stderr)
        with open("/dev/full", "w", encoding="utf-8") as full:
            result = pairs("258", stdout=full)
        self.assertEqual((result.returncode, result.stderr), (1, "byte_pairs.py: standard output: No space left on device\n"))
        reader, writer = os.pipe()
        os.close(reader)
        result = pairs("258", stdout=writer)
        os.close(writer)
        self.assertEqual((result.returncode, result.stderr), (1, ""))

    def test_what_does_not_go_together(self):
        for overrides, part in ((("data/kind=glyphs",), "an embedding needs tokens"),
                                (("data/classes=20",), "20 is less than the 30 tokens"),
                                ((*SIL[:2], "strategy/cuts=[0]"), "not inside the network")):
            with self.subTest(part):
                self.assertRefused(run("train", self.grammar, "-n", *overrides), part)
        flat = self.write("flat.toml", GRAMMAR.split("[network]")[0] + '[network]\nlayers = [{ type = "dense" }]\n')
        self.assertRefused(run("train", flat, "-n"), "an embedding must be the first layer")

    def test_the_deck_for_characters_runs(self):
        small = ("data/sequence=16", "data/samples=64", "data/test_samples=16", "training/batch=8", "run/steps=4",
                 "optimiser/warmup_steps=1")
        summary = train(self.folder / "gpt", DECKS / "gpt-char.toml", *small)
        self.assertLess(summary["test_loss"], 4.5)


if __name__ == "__main__":
    support.main()
