"""Data files that are not what the deck says: one line that names the file, on one rank and on several."""

import gzip
import struct

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
        """With `content` in its place (None: nothing), the file is named in the one line of every way to run."""
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

    def test_not_hdf5(self):
        self.refuse(self.hdf5, "train.h5", b"no HDF5 file at all")


if __name__ == "__main__":
    support.main()
