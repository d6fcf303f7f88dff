"""The Python that the documents show for HDF5 files reads what a run has left behind.

If this Python lacks h5py, it runs in the one that PARTITA_EXPORT_PYTHON names, or is skipped if there is none.
"""

import contextlib
import gzip
import hashlib
import json
import os
import pickle
import re
import runpy
import subprocess
import sys
import unittest
from pathlib import Path
from unittest import mock

import support
from bad_data import idx
from support import train

try:
    import h5py
    import numpy
except ImportError:
    h5py = None
    other = os.environ.pop("PARTITA_EXPORT_PYTHON", "")
    if other:
        os.execv(other, [other, *sys.argv])

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SEQUENCES = """
[data]
kind = "grammar"
sequence = 8
samples = 40
test_samples = 40
[network]
layers = [
  { type = "embedding", width = 8, positions = true }, { type = "layer-norm" }, { type = "attention" },
  { type = "rms-norm" }, { type = "dense" },
]
[training]
batch = 20
"""
VOLUMES = """
[data]
kind = "hdf5"
[network]
layers = [{ type = "conv3d", channels = 2, kernel = 1 }, { type = "flatten" }, { type = "dense" }]
[training]
batch = 20
"""
TABLE = """
[data]
kind = "hdf5"
train_file = "sensors.h5"
test_fraction = 0.2
[network]
layers = [{ type = "dense", units = 16, activation = "relu" }, { type = "dense" }]
[training]
batch = 20
[optimiser]
learning_rate = 0.02
[run]
epochs = 20
"""


@unittest.skipIf(h5py is None, "there is no h5py")
class Snippets(support.RunTest):
    def setUp(self):
        super().setUp()
        train(self.folder / "run", self.deck, "checkpoint/every=15")
        (self.folder / "relay-2").symlink_to("run")
        (self.folder / "parameters.h5").symlink_to("run/parameters.h5")

    def output(self, page, word="h5py"):
        """What all blocks of a page that have this word print, run as they stand."""
        blocks = [block for block in BLOCK.findall((ROOT / page).read_text()) if word in block]
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

    def test_files_of_our_tables(self):
        """The script for emnist47 names the contents of the files that the tests on real data read."""
        script = ROOT / "scripts" / "emnist47.py"
        sums = dict(re.findall(r'"([a-z]+-[a-z]+-[a-z0-9]+)": "([0-9a-f]{64})"', script.read_text()))
        self.assertEqual(len(sums), 4)
        usage = subprocess.run([sys.executable, script], capture_output=True, text=True)
        self.assertEqual(usage.returncode, 1)
        self.assertRegex(usage.stderr, "^(Makes the data set emnist47|emnist47.py: No module named)")
        folder = self.data("emnist47")
        for name, wanted in sums.items():
            content = gzip.decompress((folder / f"emnist47-{name}-ubyte.gz").read_bytes())
            self.assertEqual(hashlib.sha256(content).hexdigest(), wanted, name)

    def test_images_of_emnist(self):
        """The command and the script of the page on made-up images of the same names, sizes and classes."""
        folder, images = self.folder / "emnist", {}
        folder.mkdir()
        for part, count in (("train", 256), ("test", 94)):
            images[part] = numpy.random.default_rng(count).integers(0, 256, (count, 28, 28), dtype=numpy.uint8)
            for kind, content in (("images-idx3", idx(count, 28, 28, values=images[part].tobytes())),
                                  ("labels-idx1", idx(count, values=bytes(i % 47 for i in range(count))))):
                (folder / f"emnist-balanced-{part}-{kind}-ubyte.gz").write_bytes(gzip.compress(content))
        page = (ROOT / "docs/image-data.md").read_text()
        command = re.search(r"^partita (train input-decks/emnist-joint.*?[^\\])$", page, re.MULTILINE | re.DOTALL)[1]
        words = command.replace("\\\n", " ").replace("input-decks", str(support.DECKS)).replace("=emnist ", f"={folder} ")
        words = words.replace("-d balanced", f"-d {self.folder / 'balanced'}").split()
        self.assertWorked(support.run(*words, "run/steps=2", "run/evaluate_every=0"))
        self.assertEqual(support.summary_of(self.folder / "balanced")["steps"], 2)
        self.output("docs/image-data.md", "emnist")
        for part, wanted in images.items():
            upright = gzip.decompress((folder / f"upright-{part}-images-idx3-ubyte.gz").read_bytes())
            self.assertEqual(upright, idx(*wanted.shape, values=b"".join(image.T.tobytes() for image in wanted)))

    def test_images_of_cifar10(self):
        """The script of the page on made-up images, and what Partita reads from its files."""
        folder = self.folder / "cifar-10-batches-py"
        folder.mkdir()
        rows = []
        for i, name in enumerate([*(f"data_batch_{k}" for k in range(1, 6)), "test_batch"]):
            values = numpy.random.default_rng(i).integers(0, 256, (40, 3072), dtype=numpy.uint8)
            rows.append(values)
            with (folder / name).open("wb") as file:
                pickle.dump({b"data": values, b"labels": [(k + i) % 10 for k in range(40)]}, file)
        self.output("docs/image-data.md")
        with h5py.File(self.folder / "cifar10-train.h5") as file:
            self.assertEqual((file["features"].shape, file["features"].dtype), ((200, 3, 32, 32), numpy.uint8))
            self.assertTrue((file["features"][:].reshape(200, 3072) == numpy.concatenate(rows[:5])).all())
            self.assertEqual(list(file["labels"][38:42]), [8, 9, 1, 2])
        deck = support.DECKS / "resnet20-cifar10.toml"
        train(self.folder / "cifar", deck, f"data/path={self.folder}", "training/batch=50", "run/steps=2")
        result = support.run("evaluate", self.folder / "cifar", "--predictions", self.folder / "predictions.npz")
        self.assertDone(result)
        with numpy.load(self.folder / "predictions.npz") as found:
            self.assertTrue((found["features"] == rows[5]).all())
            self.assertEqual(list(found["labels"][:3]), [5, 6, 7])

    def test_table_of_columns_with_different_units(self):
        random = numpy.random.default_rng(1)
        columns = random.standard_normal((600, 6))
        labels = (columns[:, 0] + columns[:, 1] > 0).astype(int)
        table = numpy.column_stack([columns * [1, 1, 1, 1, 1e3, 1e4], labels])
        numpy.savetxt(self.folder / "sensors.csv", table, delimiter=",", header="columns", fmt="%.6g")
        self.output("docs/user-guide.md")
        deck = self.write("sensors.toml", TABLE)
        path = f"data/path={self.folder}"
        scalar = train(self.folder / "scalar", deck, path)
        self.assertEqual(len(scalar["warnings"]), 1, scalar["warnings"])
        self.assertIn("4 of 6 features have less than a hundredth", scalar["warnings"][0])
        feature = train(self.folder / "feature", deck, path, "data/standardise=feature")
        self.assertEqual(feature["warnings"], [])
        self.assertGreater(feature["test_accuracy"], max(0.9, scalar["test_accuracy"] + 0.2))

    def test_images_whose_channels_come_last(self):
        def warnings(shape):
            with h5py.File(self.folder / "images.h5", "w") as file:
                file["features"] = numpy.zeros((40, *shape), dtype="uint8")
                file["labels"] = [0, 1] * 20
            images = self.write("images.toml", VOLUMES.replace('conv3d', 'conv2d'))
            return train(self.folder / "images", images, f"data/train_file={self.folder / 'images.h5'}",
                         "data/test_fraction=0.5", "run/steps=1")["warnings"]

        self.assertEqual(warnings((3, 8, 8)), [])
        told = warnings((8, 8, 3))
        self.assertEqual(len(told), 1, told)
        self.assertIn("samples of 8 x 8 x 3 values are taken for 8 channels of 8 x 3 pixels", told[0])

    def test_checksum_of_a_tensor(self):
        self.assertEqual(self.output("docs/checkpoint-format.md"), "(32, 144) True\n")
        with h5py.File(self.folder / "run" / "parameters.h5", "r+") as file:
            file["parameters/layer0.dense/weight"][3, 5] += 1
        self.assertEqual(self.output("docs/checkpoint-format.md"), "(32, 144) False\n")

    def test_axes_of_tensors(self):
        """Every layer that has tensors has the axes that the documents name."""
        train(self.folder / "images", self.deck, support.IMAGES, "run/epochs=1")
        train(self.folder / "text", self.write("text.toml", SEQUENCES))
        volumes = self.folder / "volumes.h5"
        with h5py.File(volumes, "w") as file:
            file["features"] = [[[[[0.0, 1.0], [2.0, 3.0]]] * 2]] * 40
            file["labels"] = [0, 1] * 20
        train(self.folder / "volumes", self.write("volumes.toml", VOLUMES),
              f"data/train_file={volumes}", f"data/test_file={volumes}")
        found = {}

        def look(path, item):
            if isinstance(item, h5py.Dataset) and path.startswith(("parameters", "statistics")):
                layer, name = re.fullmatch(r"\w+/[\w.]+\.([\w-]+)/(\w+)", path).groups()
                self.assertEqual(item.attrs["units"], b"1", path)
                axes = item.attrs["axes"].decode()
                self.assertEqual(len(axes.split(", ")), item.ndim, path)
                self.assertEqual(found.setdefault((layer, name), axes), axes, path)

        train(self.folder / "group-norms", self.deck, support.GROUP_NORM, "strategy/kind=joint", "run/epochs=1")
        for run in ("run", "images", "group-norms", "text", "volumes"):
            with h5py.File(self.folder / run / "parameters.h5") as file:
                file.visititems(look)
        self.assertEqual(found, self.documented_axes())

    def documented_axes(self):
        """By type of layer and name of tensor, from the table of the page."""
        page = (ROOT / "docs/checkpoint-format.md").read_text()
        table = page[page.index("| layers | tensors | `axes` |"):page.index("All data sets have `crc32`")]
        rows = [row.strip("| ").split(" | ") for row in table.split("\n")[2:] if row]
        return {(layer, name): axes for layers, names, axes in rows
                for layer in re.findall("`([^`]+)`", layers) for name in re.findall("`([^`]+)`", names)}

    def test_state_of_a_checkpoint(self):
        """What docs/checkpoint-format.md lists, by name, and nothing else."""
        page = (ROOT / "docs/checkpoint-format.md").read_text()
        table = page[page.index("| attribute of `/state`"):page.index("## Complete and undamaged")]
        listed = {name for row in re.findall(r"^\|([^|]+)\|", table, re.MULTILINE)[2:]
                  for name in re.findall("`(\\w+)`", row)}
        with h5py.File(self.folder / "run" / "checkpoints" / "step-000000015.h5") as file:
            self.assertEqual(set(file["state"].attrs), listed)
            self.assertEqual({name: file["state"].attrs[name] for name in ("run_step", "epoch", "batch_in_epoch")},
                             {"run_step": 15, "epoch": 1, "batch_in_epoch": 0})
            groups = set(file)
        copies = ["strategy/stages=3", "strategy/cuts=[1,3]", "strategy/lookahead=5", "strategy/refresh=5"]
        meetings = ["strategy/kind=local-sgd", "strategy/outer=nesterov"]
        for name, overrides in (("sgd", ["optimiser/kind=sgd"]), ("copies", copies), ("meetings", meetings)):
            train(self.folder / name, self.deck, "checkpoint/every=15", *overrides)
            with h5py.File(self.folder / name / "checkpoints" / "step-000000015.h5") as file:
                groups |= set(file)
        rows = re.findall(r"^\| (`/[^|]+)\|", page, re.MULTILINE)
        wanted = {name for row in rows for name in re.findall(r"`/([a-z]\w*)", row)} | {"input"}
        # This network has no batch norm, and checkpoints have no weights of exits.
        self.assertEqual(groups, wanted - {"statistics", "exit_weights"})


@unittest.skipIf(h5py is None, "there is no NumPy")
class Emnist47(support.RunTest):
    """The functions of the script; it reads sheets without Pillow."""

    def setUp(self):
        super().setUp()

        def opened(path):
            return contextlib.nullcontext(mock.Mock(convert=lambda mode: numpy.load(path)))

        with mock.patch.dict(sys.modules, {"PIL": mock.Mock(Image=mock.Mock(open=opened))}):
            self.script = runpy.run_path(str(ROOT / "scripts" / "emnist47.py"), run_name="emnist47")

    def test_small_letters_that_look_like_their_capitals(self):
        self.assertEqual([self.script["class_of"](ord(letter)) for letter in "09AZabcCt"],
                         [0, 9, 10, 35, 36, 37, 12, 12, 46])

    def test_images_of_a_sheet(self):
        """The last tile has no image."""
        tiles = numpy.random.default_rng(1).integers(0, 256, (2, 3, 28, 28), dtype=numpy.uint8)
        sheet = tiles.swapaxes(1, 2).reshape(56, 84)
        with (self.folder / "digits_test_3_to_7.webp").open("wb") as file:
            numpy.save(file, numpy.stack([sheet, 0 * sheet, 0 * sheet], axis=2))
        codes = [ord(letter) for letter in "0Aac"]
        (self.folder / "test.json").write_text(json.dumps(
            {"files": ["digits_test_3_to_7.webp"], "id": [0, 0, 0, 3, 2, 1, 0, 3], "mapping": codes}))
        wanted = [(tile.tobytes(), number) for tile, number in zip(tiles.reshape(6, 784), [12, 36, 10, 0, 12])]
        self.assertEqual(list(self.script["images_of"](self.folder, "test", 3)), wanted)
        self.assertEqual(list(self.script["images_of"](self.folder, "test", 4)), [])

    def test_no_image_is_drawn_twice(self):
        labels = numpy.repeat([0, 1, 2], [300, 150, 2700])
        (_, train_part), (_, test_part) = self.script["drawn"](labels)
        self.assertEqual(numpy.bincount(labels[train_part]).tolist(), [100, 0, 2400])
        self.assertEqual(numpy.bincount(labels[test_part]).tolist(), [200, 150, 200])
        self.assertEqual(len({*train_part, *test_part}), 3050)

    def test_no_file_has_its_name_before_all_are_complete(self):
        for last, left in (("no/b", []), ("b", ["a", "b"])):
            files = {str(self.folder / name): b"content" for name in ("a", last)}
            with contextlib.suppress(FileNotFoundError):
                self.script["write"](files)
            self.assertEqual(sorted(path.name for path in self.folder.iterdir() if path.suffix != ".toml"), left)

    def test_a_folder_that_cannot_be_made_is_reported_before_the_work(self):
        (self.folder / "file").touch()
        with mock.patch.object(sys, "argv", ["emnist47.py", "no-clone", str(self.folder / "file" / "data")]):
            self.assertRaisesRegex(SystemExit, "file/data", self.script["main"])


if __name__ == "__main__":
    support.main()
