"""Prints the results of `partita bench` beside those of PyTorch: bench_table.py PARTITA.json [PYTORCH.json ...].

bench_table.py --threads FOLDER says how much faster two threads are than one: FOLDER has the files of several turns,
{partita,pytorch}_THREADS_TURN.json.
"""

import json
import os
import statistics
import sys
from pathlib import Path


def read(path):
    if not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8") as file:
        return {entry["name"]: entry for entry in json.load(file)}


def show_speed(ours, peers):
    print(f"\n{'':24} {'Partita':>12} {'PyTorch':>12}  {'unit':8} speed-up")
    for name, entry in ours.items():
        line = f"{name:24} {entry['value']:12.4g} "
        if name in peers:
            peer = peers[name]["value"]
            print(f"{line}{peer:12.4g}  {entry['unit']:8} {peer / entry['value']:.2f}x")
        else:
            print(f"{line}{'':12}  {entry['unit']}")


def turns(folder, program):
    """{name: [(ms with one thread, ms with two), ...]}"""
    found = {}
    for path in sorted(folder.glob(f"{program}_1_*.json")):
        one, two = read(path), read(path.with_name(path.name.replace("_1_", "_2_", 1)))
        for name in one:
            if one[name]["unit"] == "ms" and name in two:
                found.setdefault(name, []).append((one[name]["value"], two[name]["value"]))
    return found


def show_threads(folder):
    ours, peers = turns(folder, "partita"), turns(folder, "pytorch")
    print(f"\nmedians of turns {'':7} {'1 thread':>12} {'2 threads':>12}  {'unit':8} faster  PyTorch")
    for name, times in ours.items():
        one, two = (statistics.median(column) for column in zip(*times))
        line = f"{name:24} {one:12.4g} {two:12.4g}  {'ms':8}"
        for each in (times, peers.get(name)):
            line += f" {statistics.median(a / b for a, b in each):6.2f}x" if each else ""
        print(line)


def main():
    if sys.argv[1] == "--threads":
        show_threads(Path(sys.argv[2]))
        return
    peers = {}
    for path in sys.argv[2:]:
        peers.update(read(path))
    show_speed(read(sys.argv[1]), peers)


if __name__ == "__main__":
    main()
