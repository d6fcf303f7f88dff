#!/usr/bin/env python3
"""Makes a vocabulary of byte pairs for data/vocabulary: byte_pairs.py TEXT TOKENS > pairs.txt

The most frequent pair of neighbouring tokens becomes the next token, until there are TOKENS tokens, including the 256
bytes. Pairs do not cross the end of a word; the blank before a word belongs to the word.
"""

import collections
import gzip
import os
import re
import sys
import zlib


def pairs_of(words):
    counts = collections.Counter()
    for word, count in words.items():
        for pair in zip(word, word[1:]):
            counts[pair] += count
    return counts


def merged(word, pair, token):
    out, i = [], 0
    while i < len(word):
        found = word[i : i + 2] == pair
        out.append(token if found else word[i])
        i += 2 if found else 1
    return tuple(out)


def found_pairs(text, tokens):
    words = collections.Counter(tuple(word) for word in re.findall(rb"\s?[^\s]+|\s+", text))
    for token in range(256, tokens):
        counts = pairs_of(words)
        if not counts:
            break
        pair = min(counts, key=lambda found: (-counts[found], found))
        yield pair
        words = collections.Counter({merged(word, pair, token): count for word, count in words.items()})


def write(pairs):
    if sys.stdout is None:
        sys.exit("byte_pairs.py: standard output is closed")
    try:
        for pair in pairs:
            print(*pair)
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # so Python's last flush does not fail again
        sys.exit(1 if isinstance(error, BrokenPipeError) else f"byte_pairs.py: standard output: {error.strerror}")


def main():
    if len(sys.argv) != 3 or not re.fullmatch("[0-9]{1,9}", sys.argv[2]):
        sys.exit(__doc__)
    try:
        with open(sys.argv[1], "rb") as file:
            text = file.read()
        if text.startswith(b"\x1f\x8b"):
            text = gzip.decompress(text)
    except (OSError, EOFError, zlib.error) as error:
        sys.exit(f"byte_pairs.py: {sys.argv[1]}: {getattr(error, 'strerror', None) or error}")
    if int(sys.argv[2]) <= 256:
        sys.exit("byte_pairs.py: the bytes are 256 tokens; TOKENS must be larger")
    write(found_pairs(text, int(sys.argv[2])))


if __name__ == "__main__":
    main()
