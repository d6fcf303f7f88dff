"""Prints the results of `partita bench` beside those of PyTorch: bench_table.py PARTITA.json [PYTORCH.json ...]."""

import json
import os
import sys


def read(path):
    if not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8") as file:
        return {entry["name"]: entry for entry in json.load(file)}


def main():
    ours, peers = read(sys.argv[1]), {}
    for path in sys.argv[2:]:
        peers.update(read(path))
    print(f"\n{'':24} {'Partita':>12} {'PyTorch':>12}  {'unit':8} speed-up")
    for name, entry in ours.items():
        line = f"{name:24} {entry['value']:12.4g} "
        if name in peers:
            peer = peers[name]["value"]
            print(f"{line}{peer:12.4g}  {entry['unit']:8} {peer / entry['value']:.2f}x")
        else:
            print(f"{line}{'':12}  {entry['unit']}")


if __name__ == "__main__":
    main()
