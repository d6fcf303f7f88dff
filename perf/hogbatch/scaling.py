#!/usr/bin/env python3
"""Compares the speed of one and of two shared workers with that of joint training at the same batch.

Prints the median examples per second of `joint` on one rank, of one shared worker and of two, their ratios, and the
fraction of a core that the coordinator used. It needs three cores, of which other programs may use the coordinator's.
`joint` prepares its batches on demand, as workers do: a thread for them would use another core.
"""
import argparse
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import runs

WORKERS = ["strategy/kind=hogbatch", "strategy/rule=fixed"]


def measure(arguments, workers, batch, folder):
    """Examples per second of this many shared workers (0: of `joint`), and the fraction of a core that rank 0 used."""
    kind = [*WORKERS, f"strategy/shared_workers={workers}"] if workers else ["strategy/kind=joint", "data/prefetch=0"]
    # The speed does not depend on the learning rate, but small batches with that of the deck may diverge.
    summary = runs.train(arguments.app, arguments.deck, folder, *runs.QUIET, *kind, f"training/batch={batch}",
                         f"run/epochs={arguments.epochs}", "optimiser/learning_rate=1e-4", *arguments.overrides, ranks=workers + 1 if workers else 1)
    return summary["samples_per_second"], summary["workers"][0]["busy"] if workers else 0.0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("app", help="the partita executable")
    parser.add_argument("deck", help="e.g. input-decks/hogbatch-mnist.toml")
    parser.add_argument("overrides", nargs="*", metavar="section/key=value", help="values for all runs")
    parser.add_argument("--batches", type=int, nargs="+", default=[16, 64, 256])
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_intermixed_args()

    print(f"examples/s; medians of {arguments.repeats}, which take turns")
    print(f"{'batch':>6} {'joint':>10} {'1 worker':>10} {'2 workers':>10} {'1/joint':>8} {'2/1':>6} {'coordinator':>12}")
    with tempfile.TemporaryDirectory() as folder:
        for batch in arguments.batches:
            rounds = [[measure(arguments, workers, batch, Path(folder) / "run") for workers in (0, 1, 2)]
                      for _ in range(arguments.repeats)]
            joint, one, two = (statistics.median(run[i][0] for run in rounds) for i in range(3))
            first = statistics.median(run[1][0] / run[0][0] for run in rounds)
            second = statistics.median(run[2][0] / run[1][0] for run in rounds)
            core = statistics.median(run[2][1] for run in rounds)
            print(f"{batch:6} {joint:10.0f} {one:10.0f} {two:10.0f} {first:8.2f} {second:6.2f} {100 * core:10.1f} %",
                  flush=True)


if __name__ == "__main__":
    main()
