"""Prints the results of `partita bench` beside those of PyTorch: bench_table.py PARTITA.json [PYTORCH.json ...].

With --threads, says how much faster two threads are than one: bench_table.py --threads ONE.json TWO.json [PYTORCH_ONE.json
PYTORCH_TWO.json].
"""

import json
import os
import sys


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


def show_threads(one, two, peer_one, peer_two):
    print(f"\n{'':24} {'1 thread':>12} {'2 threads':>12}  {'unit':8} faster  PyTorch")
    for name in one:
        if name in two and one[name]["unit"] == "ms":
            line = f"{name:24} {one[name]['value']:12.4g} {two[name]['value']:12.4g}  {'ms':8}"
            line += f" {one[name]['value'] / two[name]['value']:5.2f}x"
            if name in peer_one and name in peer_two:
                line += f"  {peer_one[name]['value'] / peer_two[name]['value']:6.2f}x"
            print(line)


def main():
    if sys.argv[1] == "--threads":
        show_threads(*(read(path) for path in (sys.argv[2:] + ["", ""])[:4]))
        return
    peers = {}
    for path in sys.argv[2:]:
        peers.update(read(path))
    show_speed(read(sys.argv[1]), peers)


if __name__ == "__main__":
    main()
