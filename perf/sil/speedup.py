#!/usr/bin/env python3
"""Compares the speed of synthetic intermediate labels on two ranks with conventional training on one rank.

Trains the network of the deck as a whole on one rank, and cut in two on two ranks (`free` and `relay`), by FLOPs unless
an override says otherwise, with one thread per rank, alternating several times. Prints the median of the ratios of
samples_per_second beside the ratio that the cut allows. With --json, writes them as a list of {name, value, unit}.
"""
import argparse
import os
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import runs

VARIANTS = {
    "joint": (1, ["strategy/kind=joint"]),
    "free": (2, ["strategy/kind=sil", "strategy/input=free", "strategy/labels=auto"]),
    "relay": (2, ["strategy/kind=sil", "strategy/input=relay"]),
}


def train(arguments, variant, folder):
    ranks, overrides = VARIANTS[variant]
    return runs.train(arguments.app, arguments.deck, os.path.join(folder, variant), "strategy/stages=2",
                      "strategy/cuts=flops", *runs.QUIET, f"run/epochs={arguments.epochs}", *overrides,
                      *arguments.overrides, ranks=ranks)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("app", help="the partita executable")
    parser.add_argument("deck", help="a deck that works with strategy/kind=joint and sil, e.g. input-decks/demo.toml")
    parser.add_argument("overrides", nargs="*", metavar="section/key=value", help="values for all runs")
    parser.add_argument("--input", nargs="+", choices=["free", "relay"], default=["free", "relay"],
                        help="what to compare with the whole network")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--json", metavar="FILE", help="write the results to FILE")
    arguments = parser.parse_intermixed_args()

    ratios = {variant: [] for variant in arguments.input}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(arguments.repeats):
            joint = train(arguments, "joint", folder)
            for variant in ratios:
                cut = train(arguments, variant, folder)
                ratios[variant].append((cut["samples_per_second"] / joint["samples_per_second"], cut["allowed_speedup"]))
    measurements = []
    for variant, pairs in ratios.items():
        speedup, allowed = statistics.median(pair[0] for pair in pairs), pairs[0][1]
        print(f"  {variant:5}  2 ranks: {speedup:.3f} x one rank, {speedup / allowed:.3f} of the {allowed:.3f} the cut allows")
        measurements.append({"name": f"{variant}_speedup", "value": speedup, "unit": "x"})
        measurements.append({"name": f"{variant}_of_allowed", "value": speedup / allowed, "unit": "1"})
    runs.write_json(arguments.json, measurements)


if __name__ == "__main__":
    main()
