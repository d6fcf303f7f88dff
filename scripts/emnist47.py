#!/usr/bin/env python3
"""Makes the data set emnist47 of our tables from a copy of EMNIST: emnist47.py CLONE FOLDER

CLONE is https://github.com/0r4nd/emnist-packed at commit 0f121ef; FOLDER gets four IDX files for the decks emnist-*.
Their images are drawn at random from the test sets of the splits "ByMerge" and "ByClass" and part of "Balanced": 200
test and up to 2,400 training images of each of the 47 classes. They are upright, and no image occurs twice. Needs NumPy
and Pillow. What is written is exactly what the tables were measured on. Files get their names after all four are
complete.
"""

import gzip
import hashlib
import json
import os
import string
import struct
import sys

try:
    import numpy
    from PIL import Image
except ImportError as error:
    sys.exit(f"emnist47.py: {error}: install python3-numpy and python3-pil")

SIDE, TEST, TRAIN, SEED = 28, 200, 2400, 47
CLASSES = string.digits + string.ascii_uppercase + "abdefghnqrt"  # other small letters count as their capitals
SHEETS = (("bymerge", "test", 0), ("byclass", "test", 0), ("balanced", "train", 103680), ("balanced", "test", 18496))
SUMS = {"train-images-idx3": "7d2aadd5c5acbe8d6b3d9a17a3830b9907a32f9503ebfbae787e46a83785616a",
        "train-labels-idx1": "9bf366ac0ec4a0d69d9e5f0ecaa779a7dcbcae237292801996025e924a1bcfe8",
        "test-images-idx3": "fdcca4577d4e279e54c0dc6b3943d585c7f3516352286e35cf777a2930e5b3fa",
        "test-labels-idx1": "c7b472f07775fa4acb4d1cb01266c8bba0469bad64d6b83417882ed3b3852f24"}


def file_name(name):
    return f"emnist47-{name}-ubyte.gz"


def class_of(code):
    letter = chr(code)
    return CLASSES.index(letter if letter in CLASSES else letter.upper())


def images_of(folder, part, first):
    """(pixels, class) of the images of a part of a split, from the first one on: sheets with one below another."""
    with open(os.path.join(folder, part + ".json"), encoding="utf-8") as file:
        table = json.load(file)
    for name in table["files"]:
        begin, end = (int(word) for word in os.path.splitext(name)[0].split("_")[2::2])
        if begin < first:
            continue
        with Image.open(os.path.join(folder, name)) as picture:
            sheet = numpy.asarray(picture.convert("RGB"))[:, :, 0]
        rows, columns = sheet.shape[0] // SIDE, sheet.shape[1] // SIDE
        tiles = sheet.reshape(rows, SIDE, columns, SIDE).swapaxes(1, 2).reshape(-1, SIDE * SIDE)
        for tile, number in zip(tiles, table["id"][begin:end + 1]):
            yield tile.tobytes(), class_of(table["mapping"][number])


def drawn(labels):
    """The numbers of the images for training and for the test, in their order."""
    random, train, test = numpy.random.RandomState(SEED), [], []
    for number in range(len(CLASSES)):
        own = numpy.flatnonzero(labels == number)
        own = own[random.permutation(len(own))]
        test.append(own[:TEST])
        train.append(own[TEST:TEST + TRAIN])
    return [(name, numbers[random.permutation(len(numbers))])
            for name, numbers in (("train", numpy.concatenate(train)), ("test", numpy.concatenate(test)))]


def contents(clone):
    """The four files, by name, not compressed."""
    found = {}
    for split, part, first in SHEETS:
        for pixels, label in images_of(os.path.join(clone, "emnist-" + split), part, first):
            found.setdefault(pixels, label)
    pixels, labels, files = list(found), numpy.array(list(found.values()), numpy.uint8), {}
    for name, numbers in drawn(labels):
        files[f"{name}-images-idx3"] = (struct.pack(">4i", 0x803, len(numbers), SIDE, SIDE)
                                        + b"".join(pixels[number] for number in numbers))
        files[f"{name}-labels-idx1"] = struct.pack(">2i", 0x801, len(numbers)) + labels[numbers].tobytes()
    return files


def write(files):
    """Contents by path."""
    try:
        for path, content in files.items():
            with open(path + ".partial", "wb") as file:
                file.write(content)
        for path in files:
            os.rename(path + ".partial", path)
    except BaseException:
        for path in files:
            if os.path.lexists(path + ".partial"):
                os.unlink(path + ".partial")
        raise


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    clone, folder = sys.argv[1:]
    try:
        for name in SUMS:
            if os.path.lexists(os.path.join(folder, file_name(name))):
                sys.exit(f"emnist47.py: {os.path.join(folder, file_name(name))}: already exists")
        os.makedirs(folder, exist_ok=True)  # before half a minute of work
        files = contents(clone)
        if any(hashlib.sha256(files[name]).hexdigest() != wanted for name, wanted in SUMS.items()):
            sys.exit(f"emnist47.py: {clone}: is not emnist-packed at commit 0f121ef, or Pillow decoded the pictures "
                     "differently")
        write({os.path.join(folder, file_name(name)): gzip.compress(content, mtime=0)
               for name, content in files.items()})
    except (OSError, ValueError, KeyError) as error:
        sys.exit(f"emnist47.py: {error}")


if __name__ == "__main__":
    main()
