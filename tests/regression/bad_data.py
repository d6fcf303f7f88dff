"""Data files that are not what the deck says: one line that names the file, on one rank and on several."""

import gzip
import math
import os
import re
import resource
import struct
import subprocess
import sys

import support
from support import run

NAMES = ("train-images", "train-labels", "test-images", "test-labels")
NETWORK = """
[network]
layers = [{ type = "dense", units = 8 }, { type = "dense", units = 8 }, { type = "dense" }]
[training]
batch = 10
[strategy]
kind = "sil"
stages = 2
replicas = 1
"""
IDX_DECK = """
[data]
kind = "idx"
train_images = "train-images"
train_labels = "train-labels"
test_images = "test-images"
test_labels = "test-labels"
""" + NETWORK
LIBSVM_DECK = '[data]\nkind = "libsvm"\ntrain_file = "train.txt"\ntest_file = "test.txt"\n' + NETWORK
HDF5_DECK = '[data]\nkind = "hdf5"\ntrain_file = "train.h5"\ntest_file = "test.h5"\n' + NETWORK


def idx(*sizes, kind=8, values=None):
    """An IDX file of bytes that count up, modulo 3 where they are labels."""
    count = 1
    for size in sizes:
        count *= size
    if values is None:
        values = bytes(i % (3 if len(sizes) == 1 else 251) for i in range(count))
    return struct.pack(f">BBBB{len(sizes)}I", 0, 0, kind, len(sizes), *sizes) + values


class BadData(support.RunTest):
    def setUp(self):
        super().setUp()
        for name, content in zip(NAMES, (idx(60, 4, 4), idx(60), idx(20, 4, 4), idx(20))):
            self.write(name, content)
        lines = "".join(f"{i % 3} 1:0.5 {2 + i % 4}:1\n" for i in range(60))
        self.write("train.txt", lines)
        self.write("test.txt", lines)
        self.idx, self.libsvm, self.hdf5 = (self.write(name, text) for name, text in (
            ("idx.toml", IDX_DECK), ("libsvm.toml", LIBSVM_DECK), ("hdf5.toml", HDF5_DECK)))

    def refuse(self, deck, name, content=None, *words):
        """With `content` in the file (None: no file), every way to run it gives one line, which names the file."""
        path = self.folder / name
        path.unlink(missing_ok=True)
        if content is not None:
            self.write(name, content)
        arguments = ("train", deck, f"data/path={self.folder}")
        for result in (run(*arguments, "-n"), run(*arguments), run(*arguments, ranks=2)):
            self.assertRefused(result, path, *words)

    def test_good_data(self):
        for deck in (self.idx, self.libsvm):
            support.train(self.folder / "run", deck, f"data/path={self.folder}", "run/epochs=1", ranks=2)

    def test_channels_that_come_last(self):
        for shape, warned in (((8, 8, 3), True), ((3, 8, 8), False), ((8, 8), False)):
            self.write("train-images", idx(60, *shape))
            self.write("test-images", idx(20, *shape))
            result = run("train", self.idx, f"data/path={self.folder}", "-n")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual("if the channels come last, move them to the front" in result.stderr, warned, result.stderr)

    def test_channels_that_come_last_are_told_before_what_follows_from_them(self):
        self.write("train-images", idx(60, 8, 16, 1))
        self.write("test-images", idx(20, 8, 16, 1))
        layers = 'network/layers=[{ type = "conv2d", channels = 4, kernel = 2 }, { type = "flatten" }, { type = "dense" }]'
        for more, ranks in ((["-n"], 1), ([], 1), ([], 2)):
            result = run("train", self.idx, f"data/path={self.folder}", layers, "strategy/cuts=[1]", *more, ranks=ranks)
            self.assertEqual(result.returncode, 2, result.stderr)
            lines = support.complaints(result)
            self.assertEqual(len(lines), 2, lines)
            self.assertIn("if the channels come last, move them to the front", lines[0])
            self.assertIn("does not fit an input of 8x16x1", lines[1])

    def test_classes_without_samples(self):
        """Judged by the whole file, and told once, whatever else the deck takes of it."""
        first = "class 0 has no training sample; do the labels start at 1?"
        deck = ("train", self.idx, f"data/path={self.folder}", "strategy/kind=joint", "strategy/replicas=0")
        some = "no training sample is of 2 of the 5 classes: 1, 3"
        for labels, said in ((bytes(1 + i % 3 for i in range(60)), first), (bytes(i % 3 * 2 for i in range(60)), some)):
            path = self.write("train-labels", idx(60, values=labels))
            self.write("test-labels", idx(20, values=labels[:20]))
            for more, ranks in ((["-n"], 1), ([], 1), ([], 2)):
                result = run(*deck, *more, ranks=ranks)
                self.assertWorked(result)
                self.assertEqual(support.complaints(result), [f"warning: {path}: {said}"])
            summary = support.train(self.folder / "run", *deck[1:])
            self.assertIn(f"{path}: {said}", support.summary_of(self.folder / "run")["warnings"])
            self.assertEqual(len(summary["warnings"]), 1)
            self.assertDone(run("evaluate", self.folder / "run"))
            self.assertDone(run(*deck, "data/classes=5"))
        self.write("train-labels", idx(60))
        self.write("test-labels", idx(20))
        self.assertDone(run(*deck, "data/samples=20", "data/validation=0.5"))

    def test_no_file(self):
        self.refuse(self.idx, "train-images")

    def test_no_folder(self):
        folder = self.folder / "elsewhere"
        self.assertRefused(run("train", self.idx, f"data/path={folder}"), folder)

    def test_empty_file(self):
        self.refuse(self.idx, "train-labels", b"")

    def test_truncated_images(self):
        self.refuse(self.idx, "train-images", idx(60, 4, 4)[:-5])

    def test_too_long_labels(self):
        self.refuse(self.idx, "test-labels", idx(20) + b"\1")

    def test_truncated_gzip(self):
        self.refuse(self.idx, "train-images", gzip.compress(idx(60, 4, 4))[:-20])

    def test_bytes_behind_gzip(self):
        whole = gzip.compress(idx(60, 4, 4))
        self.refuse(self.idx, "train-images", whole + b"x" + whole[1:], "bytes follow the end of the compressed data")

    def test_not_idx(self):
        self.refuse(self.idx, "test-images", b"P5 4 4 255\n" + bytes(400))

    def test_values_that_are_no_bytes(self):
        self.refuse(self.idx, "train-images", idx(60, 4, 4, kind=0x7F))

    def test_labels_in_the_place_of_images(self):
        self.refuse(self.idx, "train-images", idx(60))

    def test_fewer_labels_than_images(self):
        self.refuse(self.idx, "train-labels", idx(59), 59, 60)

    def test_test_images_of_another_size(self):
        self.refuse(self.idx, "test-images", idx(20, 5, 4))

    def test_libsvm_line(self):
        self.refuse(self.libsvm, "train.txt", "0 1:0.5\n1 2:zwei\n", ":2")

    def test_libsvm_label(self):
        self.refuse(self.libsvm, "test.txt", "0 1:0.5\n7 1:1\n")

    def test_data_of_one_class(self):
        for deck, name, content in ((self.idx, "train-labels", idx(60, values=bytes(60))),
                                    (self.libsvm, "train.txt", "1 1:0.5\n" * 60)):
            self.write(name, content)
            self.write("test.txt", "1 1:1\n")
            result = run("train", deck, f"data/path={self.folder}", "data/classes=3", ranks=2)
            self.assertRefused(result, "all 60 training samples are of class 0", "nothing to learn")

    def test_what_is_no_file(self):
        for make in (os.mkfifo, os.mkdir, lambda path: os.symlink(path, path)):
            path = self.folder / "train-images"
            path.rmdir() if path.is_dir() else path.unlink()
            make(path)
            for arguments in (["-n"], []):
                result = run("train", self.idx, f"data/path={self.folder}", *arguments, timeout=support.within(20))
                self.assertRefused(result, path)
                self.assertNotIn("did you mean", result.stderr)
        self.assertIn("Too many levels of symbolic links", result.stderr)

    def test_files_beyond_all_memory(self):
        """Sparse files, which take no space on the disk."""
        for name, deck in (("train.txt", self.libsvm), ("deck.toml", None)):
            path = self.folder / name
            with path.open("wb") as file:
                file.truncate(1 << 40)
            begin = support.cpu_seconds()
            if deck is None:
                result = run("train", path, timeout=support.within(20))
                self.assertRefused(result, path, "is larger than 67108864 bytes")
            else:
                result = run("train", deck, f"data/path={self.folder}", timeout=support.within(20))
                self.assertRefused(result, path, "needs 1.10 TB of memory")
            self.assertLess(support.cpu_seconds() - begin, support.slowed(5))

    def test_generators_asked_for_too_much(self):
        for kind in ("glyphs", "noise", "grammar"):
            keys = ['network/layers=[{ type = "embedding", width = 4 }, { type = "dense" }]'] if kind == "grammar" else \
                ['network/layers=[{ type = "dense" }]', "data/image_size=1024"]
            for samples in (10**12, 2**62):
                result = run("train", self.deck, f"data/kind={kind}", *keys, "strategy/kind=joint", "data/classes=0",
                             f"data/samples={samples}", timeout=support.within(20))
                self.assertRefused(result, f"{samples} samples", "of memory")

    def test_networks_beyond_all_memory(self):
        wide = '{ type = "dense", units = 16000000 }'
        network = f"network/layers=[{wide}, {wide}, {{ type = \"dense\" }}]"
        for ranks in (1, 2):
            self.assertRefused(run("train", self.deck, network, "strategy/cuts=flops", ranks=ranks), "not enough memory",
                               "for parameters (see -n)")
        deep = ('network/layers=[{type="conv2d",channels=2500000,kernel=1},{type="activation",activation="tanh",repeat=200},'
                '{type="global-average-pool"},{type="dense"}]')
        pipeline = (deep, "strategy/kind=pipeline", "strategy/microbatches=8", "strategy/cuts=[202]")
        self.assertRefused(run("train", self.deck, *pipeline, ranks=2), "not enough memory",
                           "; with strategy/limit=3 it needs ")
        for other in ("strategy/limit=4", "strategy/schedule=1f1b", "strategy/microbatches=2"):
            refused = run("train", self.deck, *pipeline, other, ranks=2)
            self.assertRefused(refused, "not enough memory")
            self.assertNotIn("it needs", refused.stderr)
        with_file = ("optimiser/offload=file", f"optimiser/offload_directory={self.folder}")
        limited = subprocess.run(["bash", "-c", 'ulimit -f 8192; "$@"', "bash", sys.argv[1], "train", str(self.deck),
                                  network.replace("16000000", "1800"), "strategy/kind=joint", *with_file],
                                 capture_output=True, text=True)
        self.assertEqual(limited.returncode, 1)
        self.assertRegex(support.complaints(limited)[-1], "not enough space for 2[0-9.]+ MB in .*File too large")

    def test_activations_beyond_the_disk(self):
        """600 samples of 4000 values: the run ends before it trains, and leaves an earlier one as it is."""
        network = 'network/layers=[{type="dense",units=4000,activation="relu"},{type="dense"}]'
        folder = self.folder / "run"
        support.train(folder, self.deck, "run/steps=2")
        before = (folder / "summary.json").read_bytes()
        limited = subprocess.run(["bash", "-c", 'ulimit -f 8192; "$@"', "bash", sys.argv[1], "train", str(self.deck), network,
                                  "strategy/input=frozen", "strategy/cuts=[1]", "-d", str(folder), "--overwrite"],
                                 capture_output=True, text=True)
        self.assertEqual(limited.returncode, 1)
        self.assertRegex(support.complaints(limited)[-1],
                         "strategy/cache_directory: not enough space for 9.60 MB in .*File too large")
        self.assertEqual((folder / "summary.json").read_bytes(), before)

    def test_many_errors_are_reported_quickly(self):
        """Five times as many take about five times as long, not twenty-five times."""
        seconds = {100000: math.inf, 500000: math.inf}
        for errors in 2 * list(seconds):  # the machine may be slow for a while, so the fastest run of each counts
            deck = self.write("many.toml", "[run]\n" + "".join(f"k{i} = 1\n" for i in range(errors)))
            begin = support.cpu_seconds()
            result = run("train", deck)
            seconds[errors] = min(seconds[errors], support.cpu_seconds() - begin)
            self.assertEqual(result.returncode, 2)
            self.assertLess(len(support.complaints(result)), 105)
            self.assertIn(f"and {errors + 1 - 100} more errors", support.complaints(result)[-1])  # no layers either
        self.assertLess(seconds[500000], 12 * seconds[100000])

    def test_keys_of_many_parts(self):
        """A tree with a table for each part would be nested too deeply to be destroyed."""
        key = ".".join(20000 * ["a"])
        for text in (f"{key} = 1\n", f"[{key}]\n", f"[[{key}]]\n", f"[run]\n{key} = 1\n", f"x = {{ {key} = 1 }}\n"):
            for content in (text, "[run]\nseed = 1\n" + text, text + "[run\n"):
                deck = self.write("deep.toml", content)
                self.assertRefused(run("train", deck, "-n"), deck, "the key has too many parts")
        deck = self.write("deep.toml", f"x = {3 * chr(39)}abc''".encode() + b"\x80'\n" + f"{key} = 1\n".encode())
        for ranks in (1, 2):
            self.assertRefused(run("train", deck, ranks=ranks), deck, "the key has too many parts")
        for command in (["plan", "predict", self.idx, f"data/path={self.folder}", "--cluster", deck], ["plan", "search", deck],
                        ["train", self.idx, "-n", f"run/seed={key}"]):
            self.assertEqual(run(*command).returncode, 2)

    def test_not_hdf5(self):
        self.refuse(self.hdf5, "train.h5", b"no HDF5 file at all")


class OtherData(support.RunTest):
    """A trained network is evaluated as it was trained, whatever the present training set says."""

    def accuracy(self, *arguments):
        result = run("evaluate", *arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        return float(re.search(r"joined network +([\d.]+) %", result.stdout)[1])

    def test_standardisation_is_that_of_the_training(self):
        """Evaluation standardises as training did: a training set of other means and deviations changes nothing."""
        rows, dark = [], []
        for i in range(200):
            label = i % 2
            rows.append(f"{label} 1:{10 * label + i % 3} 2:{100 + i % 5}\n")
            dark.append(f"{label} 1:{-500 * label} 2:{i}\n")
        for name, lines in (("train.txt", rows), ("test.txt", rows[:100]), ("dark.txt", dark)):
            self.write(name, "".join(lines))
        deck = self.write("libsvm.toml", LIBSVM_DECK)
        folder = self.folder / "run"
        summary = support.train(folder, deck, f"data/path={self.folder}", "strategy/kind=joint", "run/epochs=20",
                                "data/standardise=feature")
        self.assertGreater(summary["test_accuracy"], 0.9)
        for train_file in ("train.txt", "dark.txt"):
            self.assertAlmostEqual(self.accuracy(folder, f"data/train_file={train_file}"),
                                   100 * summary["test_accuracy"], places=1)

    def test_features_in_other_units(self):
        """As pixels from 0 to 1 for a network that has learned from 0 to 255."""
        def lines(factor):
            return "".join(f"{i % 2} 1:{factor * (i % 7)} 2:{factor * (40 * (i % 2) + i % 3)}\n" for i in range(60))

        for name, factor in (("train.txt", 255), ("test.txt", 255), ("half.txt", 128), ("small.txt", 1), ("large.txt", 65535)):
            self.write(name, lines(factor))
        said = "than those of the test set, which seem to be in other units"
        for standardise in ("scalar", "feature", "none"):
            folder = self.folder / standardise
            support.train(folder, self.write("libsvm.toml", LIBSVM_DECK), f"data/path={self.folder}", "strategy/kind=joint",
                          f"data/standardise={standardise}", "optimiser/learning_rate=1e-5")
            for name, warns in (("test.txt", False), ("half.txt", False), ("small.txt", True), ("large.txt", True)):
                for ranks in (1, 2):
                    result = run("evaluate", folder, f"data/test_file={name}", ranks=ranks)
                    self.assertWorked(result)
                    self.assertEqual(result.stderr.count(said), warns and standardise != "none", name + result.stderr)

    def test_labels_are_those_of_the_training(self):
        def lines(shift):
            return "".join(f"{i % 3 + shift} {i % 3 + 1}:1\n" for i in range(90))

        for name, shift in (("train.txt", 4), ("test.txt", 4), ("shifted.txt", 5)):
            self.write(name, lines(shift))
        deck = self.write("libsvm.toml", LIBSVM_DECK)
        folder = self.folder / "run"
        support.train(folder, deck, f"data/path={self.folder}", "strategy/kind=joint", "run/epochs=30",
                      "optimiser/learning_rate=0.03")
        self.assertEqual(self.accuracy(folder), 100.0)
        self.assertRefused(run("evaluate", folder, "data/test_file=shifted.txt", "data/train_file=shifted.txt"),
                           "shifted.txt: label 7 of sample 2 does not occur")
        shown = run("info", folder)
        self.assertIn("labels in the data files: 4 5 6\n", shown.stdout)
        self.write("part.txt", lines(4).replace("6 3:1\n", ""))  # some classes are enough
        self.assertEqual(self.accuracy(folder, "data/test_file=part.txt", "data/train_file=part.txt"), 100.0)
        self.assertDone(run("train", deck, f"data/path={self.folder}", "strategy/kind=joint", "run/epochs=1", "-d",
                            self.folder / "more", "checkpoint/every=3"))
        self.assertRefused(run("train", deck, f"data/path={self.folder}", "strategy/kind=joint", "data/train_file=shifted.txt",
                               "data/test_file=shifted.txt", "-d", self.folder / "more", "-r", "latest"),
                           "was trained on labels 4 to 6")
        self.assertRefused(run("train", deck, f"data/path={self.folder}", "strategy/kind=joint", "data/train_file=part.txt",
                               "data/test_file=part.txt", "-d", self.folder / "more", "-r", "latest"),
                           "was trained on labels 4 to 6")  # not only: other shapes

    def test_numbers_beyond_the_precision_of_an_evaluation(self):
        for name in ("train.txt", "test.txt"):
            self.write(name, "".join(f"{i % 2} 1:{100000 + i % 2} 2:{i % 3}\n" for i in range(40)))
        folder = self.folder / "run"
        support.train(folder, self.write("libsvm.toml", LIBSVM_DECK), f"data/path={self.folder}", "strategy/kind=joint",
                      "data/standardise=none", "optimiser/learning_rate=1e-6", "training/batch=8")
        for ranks in (1, 2):
            self.assertDone(run("evaluate", folder, ranks=ranks))
            result = run("evaluate", folder, "run/precision=fp16", ranks=ranks)
            self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
            self.assertEqual(len(support.complaints(result)), 1, result.stderr)
            self.assertIn("the loss is not finite: the network computes numbers beyond", result.stderr)

    def test_evaluation_asks_for_no_batch(self):
        folder = self.folder / "run"
        support.train(folder, self.deck)
        self.assertDone(run("evaluate", folder, "data/samples=7", "data/test_samples=5"))
        support.train(folder, self.deck, 'network/layers=[{ type = "dense", units = 512 }, { type = "dense" }]',
                      "strategy/kind=joint", "--overwrite")
        self.assertDone(run("evaluate", folder, "training/batch=16777216"))
        most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss  # KiB
        self.assertLess(most, 1.5e6)

    def test_evaluation_needs_the_test_set_alone(self):
        lines = "".join(f"{i % 3 + 4} 1:{i % 3} 2:{i % 5}\n" for i in range(90))
        text = "the quick brown fox jumps over the lazy dog\n" * 20
        for name, content in (("train.txt", lines), ("test.txt", lines), ("train.text", text), ("test.text", text),
                              *zip(NAMES, (idx(60, 4, 4), idx(60), idx(20, 4, 4), idx(20)))):
            self.write(name, content)
        tokens = ["data/kind=text", "data/train_file=train.text", "data/test_file=test.text", "data/sequence=8",
                  'network/layers=[{ type = "embedding", width = 4 }, { type = "dense" }]']
        for text, more, names in ((LIBSVM_DECK, [], ["train.txt"]), (IDX_DECK, [], NAMES[:2]),
                                  (LIBSVM_DECK, tokens, ["train.text"])):
            folder = self.folder / f"run-{names[0]}"
            support.train(folder, self.write("deck.toml", text), f"data/path={self.folder}", *more, "strategy/kind=joint",
                          "data/validation=0.2")
            before = self.accuracy(folder)
            for name in names:
                (self.folder / name).unlink()
            self.assertEqual(self.accuracy(folder), before)
            self.assertDone(run("evaluate", folder, ranks=2))
        support.train(self.folder / "run", self.deck, "data/kind=libsvm", "data/classes=0", "data/samples=0",
                      "data/test_samples=0", f"data/path={self.folder}", "data/train_file=test.txt", "data/test_fraction=0.3",
                      "training/batch=10", "strategy/kind=joint")
        (self.folder / "test.txt").unlink()
        self.assertRefused(run("evaluate", self.folder / "run"), "test.txt", "no such file")

    def test_samples_of_another_shape(self):
        for name, width in (("train.txt", 2), ("wide.txt", 3)):
            self.write(name, "".join(f"{i % 2} 1:{i} {width}:{i % 3}\n" for i in range(40)))
        deck = self.write("libsvm.toml", LIBSVM_DECK)
        folder = self.folder / "run"
        support.train(folder, deck, f"data/path={self.folder}", "data/test_file=train.txt", "strategy/kind=joint")
        self.assertRefused(run("evaluate", folder, "data/test_file=wide.txt"),
                           "wide.txt: samples have 3 values, but the network was trained on 2")
        support.train(folder, self.deck, support.IMAGES, "data/image_size=12", "strategy/kind=joint", "--overwrite")
        self.assertRefused(run("evaluate", folder, "data/image_size=20"),
                           "samples have 400 values, but the network was trained on 144")


if __name__ == "__main__":
    support.main()
