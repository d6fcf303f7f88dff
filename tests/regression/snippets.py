"""The Python that the documents show for HDF5 files reads what a run has left behind.

It runs in the Python that PARTITA_EXPORT_PYTHON names, where this one lacks h5py, and skips without it.
"""

import os
import re
import subprocess
import sys
import unittest
from pathlib import Path

import support
from support import train

try:
    import h5py
except ImportError:
    h5py = None
    other = os.environ.pop("PARTITA_EXPORT_PYTHON", "")
    if other:
        os.execv(other, [other, *sys.argv])

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@unittest.skipIf(h5py is None, "there is no h5py")
class Snippets(support.RunTest):
    def setUp(self):
        super().setUp()
        train(self.folder / "run", self.deck, "checkpoint/every=15")
        (self.folder / "relay-2").symlink_to("run")
        (self.folder / "parameters.h5").symlink_to("run/parameters.h5")

    def output(self, page):
        """What all blocks of a page that use h5py print, run as they stand."""
        blocks = [block for block in BLOCK.findall((ROOT / page).read_text()) if "h5py" in block]
        self.assertGreater(len(blocks), 0, page)
        texts = []
        for block in blocks:
            result = subprocess.run([sys.executable, "-c", block], cwd=self.folder, capture_output=True, text=True)
            self.assertEqual((result.returncode, result.stderr), (0, ""), block)
            texts.append(result.stdout)
        return "".join(texts)

    def test_readme(self):
        self.assertIn("('30', ", self.output("README.md"))

    def test_export(self):
        self.output("docs/export.md")

    def test_checksum_of_a_tensor(self):
        self.assertEqual(self.output("docs/checkpoint-format.md"), "(32, 144) True\n")
        with h5py.File(self.folder / "run" / "parameters.h5", "r+") as file:
            file["parameters/layer0.dense/weight"][3, 5] += 1
        self.assertEqual(self.output("docs/checkpoint-format.md"), "(32, 144) False\n")

    def test_state_of_a_checkpoint(self):
        """What docs/checkpoint-format.md lists, by name, and nothing else."""
        page = (ROOT / "docs/checkpoint-format.md").read_text()
        table = page[page.index("| attribute of `/state`"):page.index("## Whole or not")]
        listed = {name for row in re.findall(r"^\|([^|]+)\|", table, re.MULTILINE)[2:]
                  for name in re.findall("`(\\w+)`", row)}
        with h5py.File(self.folder / "run" / "checkpoints" / "step-000000015.h5") as file:
            self.assertEqual(set(file["state"].attrs), listed)
            self.assertEqual({name: file["state"].attrs[name] for name in ("run_step", "epoch", "batch_in_epoch")},
                             {"run_step": 15, "epoch": 1, "batch_in_epoch": 0})
            groups = set(file)
        train(self.folder / "sgd", self.deck, "checkpoint/every=15", "optimiser/kind=sgd")
        with h5py.File(self.folder / "sgd" / "checkpoints" / "step-000000015.h5") as file:
            groups |= set(file)
        wanted = set(re.findall(r"^\| `/(\w+)[/`]", page, re.MULTILINE)) | {"input"}
        self.assertEqual(groups, wanted - {"statistics"})  # this network has no batch norm


if __name__ == "__main__":
    support.main()
