"""A GPT learns equally well on one rank and on grids, in float and in bf16: 500 steps of a small one. PARTITA_WHOLE_GPT
selects that of input-decks/gpt-char.toml, on shorter windows."""

import csv
import os
from pathlib import Path

import support
from support import train

DECK = Path(__file__).resolve().parents[2] / "input-decks" / "gpt-char.toml"
STEPS = 500
SMALL = ["""network/layers=[{ type = "embedding", width = 32, positions = true }, { type = "dropout", rate = 0.1 },
    { type = "block", repeat = 2, layers = [
      { type = "residual", layers = [{ type = "layer-norm" }, { type = "attention", heads = 2 }] },
      { type = "residual", layers = [{ type = "layer-norm" }, { type = "dense", units = 64, activation = "gelu" },
        { type = "dense", units = 32 }, { type = "dropout", rate = 0.1 }] }] },
    { type = "layer-norm" }, { type = "dense" }]""", "data/sequence=16", "data/samples=2000"]
WHOLE = ["data/sequence=64", "data/samples=4000"]
SHARED = ["training/batch=8", "data/test_samples=64", "run/evaluate_every=0", "run/log_every=50", "strategy/microbatches=4",
          f"run/steps={STEPS}"]


class Gpt(support.RunTest):
    def losses(self, name, *overrides, ranks=1):
        """Of the training at each row of the history, and of the test at the end."""
        network = WHOLE if os.environ.get("PARTITA_WHOLE_GPT") else SMALL
        folder = self.folder / name
        summary = train(folder, DECK, *network, *SHARED, *overrides, ranks=ranks, timeout=3600)
        with (folder / "history.csv").open(newline="") as file:
            rows = [float(row["loss"]) for row in csv.DictReader(file) if row["event"] == "step"]
        self.assertEqual(len(rows), STEPS // 50)
        return [*rows, summary["test_loss"]]

    def assertAlike(self, found, wanted, *, relative=0.0, absolute=0.0):
        worst = max(abs(a - b) - relative * abs(b) for a, b in zip(found, wanted))
        print(f"{self.id()}: largest difference {max(abs(a - b) for a, b in zip(found, wanted)):.2g}, "
              f"test loss {found[-1]:.6f} and {wanted[-1]:.6f}")
        self.assertLessEqual(worst, absolute)

    def test_grids_and_numbers_of_16_bits(self):
        serial = self.losses("serial", "strategy/kind=joint")
        self.assertLess(serial[-1], 0.75 * serial[0])
        pipeline = ["strategy/kind=pipeline", "strategy/cuts=flops"]
        self.assertEqual(self.losses("4x1", *pipeline, "strategy/stages=4", ranks=4), serial)
        grid = self.losses("2x2", *pipeline, "strategy/stages=2", "strategy/replicas=2", ranks=4)
        self.assertAlike(grid, serial, absolute=1e-3)
        for ranks, where in ((1, ["strategy/kind=joint"]), (2, [*pipeline, "strategy/stages=2"])):
            halves = self.losses(f"bf16-{ranks}", *where, "run/precision=bf16", "strategy/wire=bf16", ranks=ranks)
            self.assertAlike(halves, serial, relative=0.01)


if __name__ == "__main__":
    support.main()
