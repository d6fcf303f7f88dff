#!/usr/bin/env python3
"""Compares two workers' shares of the updates with the formula, for workers of unequal speed.

The first of two replica workers repeats each batch R times (strategy/slowdown). With sizes from `lower` to `upper`, the
adaptive rule gives it half of the updates if R <= upper/lower, and 1 / (1 + R lower/upper) otherwise. Fixed sizes give
it 1 / (1 + R). This assumes that an example takes as long in a small batch as in a large one. With --cluster FILE,
which `partita plan calibrate` wrote, a forecast uses measured times of batches. Prints the median share of several runs
next to formula and forecast, and how busy the less busy worker was. With --within X, the exit code is 1 if any share of
the adaptive rule differs by more than X from the forecast or, without one, from the formula.
"""
import argparse
import math
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import runs


def formula(rule, slowdown, lower, upper):
    if rule == "fixed":
        return 1 / (1 + slowdown)
    return 0.5 if slowdown <= upper / lower else 1 / (1 + slowdown * lower / upper)


def train(arguments, rule, slowdown, folder):
    """The slow worker's share, the smallest fraction of time that a worker was busy, and the forecast of the share."""
    overrides = [*runs.QUIET, "strategy/kind=hogbatch", f"strategy/rule={rule}", "strategy/shared_workers=0",
                 f"strategy/slowdown=[{slowdown}, 1]", f"strategy/lower={arguments.lower}",
                 f"strategy/upper={arguments.upper}", f"training/batch={arguments.start}", f"run/epochs={arguments.epochs}",
                 *([f"run/cluster={arguments.cluster}"] if arguments.cluster else [])]
    summary = runs.train(arguments.app, arguments.deck, folder, *overrides, *arguments.overrides, ranks=3)
    workers = [worker for worker in summary["workers"] if worker["role"] != "coordinator"]
    updates = [worker["updates"] for worker in workers]
    forecast = summary.get("predicted", {"update_share": [math.nan]})["update_share"][0]
    return updates[0] / sum(updates), min(worker["busy"] for worker in workers), forecast


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("app", help="the partita executable")
    parser.add_argument("deck", help="e.g. input-decks/hogbatch-w8a.toml")
    parser.add_argument("overrides", nargs="*", metavar="section/key=value", help="values for all runs")
    parser.add_argument("--slowdowns", type=int, nargs="+", default=[1, 4, 16, 64], metavar="R")
    parser.add_argument("--rules", nargs="+", default=["adaptive", "fixed"], choices=["adaptive", "fixed"])
    parser.add_argument("--lower", type=int, default=16)
    parser.add_argument("--upper", type=int, default=512)
    parser.add_argument("--start", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--cluster", metavar="FILE", help="cluster file with [[worker]] rows for the deck")
    parser.add_argument("--within", type=float, metavar="X", help="largest difference for the exit code 0")
    arguments = parser.parse_intermixed_args()

    worst = 0.0
    print(f"the slow worker's share of the updates; medians of {arguments.repeats}")
    print(f"{'rule':10} {'slowdown':>8} {'formula':>8} {'forecast':>9} {'measured':>9} {'busy':>6}")
    with tempfile.TemporaryDirectory() as folder:
        for rule in arguments.rules:
            for slowdown in arguments.slowdowns:
                found = [train(arguments, rule, slowdown, Path(folder) / "run") for _ in range(arguments.repeats)]
                share, busy, forecast = (statistics.median(values) for values in zip(*found))
                expected = formula(rule, slowdown, arguments.lower, arguments.upper)
                if rule == "adaptive":
                    worst = max(worst, abs(share - (expected if math.isnan(forecast) else forecast)))
                print(f"{rule:10} {slowdown:8} {expected:8.3f} {forecast:9.3f} {share:9.3f} {busy:6.2f}", flush=True)
    if arguments.within is not None and worst > arguments.within:
        sys.exit(f"shares.py: a share differs by {worst:.3f} from the expected one; the limit is {arguments.within}")


if __name__ == "__main__":
    main()
