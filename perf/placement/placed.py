#!/usr/bin/env python3
"""Trains the decks that `partita plan place` writes, and compares their steps with predictions and with those of
`strategy/cuts = "flops"`.

    python3 perf/placement/placed.py build/openmp/bin/partita --ranks 2 4 --json placed.json

For each number of ranks and each network: calibrates and places, and then trains the written deck and a pipeline with
one stage per rank, cuts by FLOPs and the same microbatches. A calibration that is noisier than --noise is repeated, at
most --rounds times; after that, the row says so, and the next one follows. Each round trains both, so that a change of
the machine's speed affects both. Prints medians over the rounds. Before and after each round a fixed computation is
timed on as many cores. The last column is the median excess of its slow times over its fastest: if it is large, other
columns have large errors too. There should be a core per rank.
"""

import argparse
import json
import os
import re
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import runs  # noqa: E402

DECKS = Path(__file__).resolve().parents[2] / "input-decks"
# Decks of the repository, with generated data.
NETWORKS = {
    "demo": ("demo.toml", 'kind = "glyphs"\nsamples = 4096\ntest_samples = 47'),
    "resnet-emnist": ("resnet-emnist.toml", 'kind = "glyphs"\nsamples = 2048\ntest_samples = 47'),
    "gpt-char": ("gpt-char.toml", 'kind = "grammar"\nsequence = 128\nsamples = 1024\ntest_samples = 32'),
}
PIPELINE = ["strategy/kind=pipeline", "strategy/cuts=flops", "strategy/replicas=1"]


def deck_of(network, folder):
    """Writes a deck with generated data; its file has the name by which the calibration finds the network."""
    name, data = NETWORKS[network]
    text = (DECKS / name).read_text(encoding="utf-8")
    path = Path(folder) / f"{network}.toml"
    path.write_text(re.sub(r"(?ms)^\[data\]\n.*?(?=^\[)", f"[data]\n{data}\n\n", text), encoding="utf-8")
    return path


def place(arguments, deck, cluster, ranks, output):
    """The plan; writes the deck that trains it."""
    result = runs.partita(arguments.app, "plan", "place", deck, *arguments.overrides, "--cluster", cluster, "--ranks",
                          ranks, "-o", output, "--json", "-")
    return json.loads(result.stdout)


def step_seconds(arguments, deck, folder, ranks, expected, *more):
    """The measured step of a run of about this many seconds."""
    steps = min(5000, max(5, round(arguments.seconds / expected)))
    summary = runs.train(arguments.app, deck, os.path.join(folder, "run"), *runs.QUIET, *more, f"run/steps={steps}",
                         ranks=ranks)
    return summary["train_seconds"] / steps


def compare(arguments, network, ranks, folder):
    """A row of the table."""
    deck = deck_of(network, folder)
    cluster, placed = os.path.join(folder, "cluster.toml"), os.path.join(folder, f"{network}-placed.toml")
    if not any(runs.calibrated(arguments.app, [deck], cluster, arguments.noise, arguments.quick, ranks)
               for _ in range(arguments.rounds)):
        return {"network": network, "ranks": ranks, "missing": "all calibrations are too noisy"}
    plan = place(arguments, deck, cluster, ranks, placed)
    if not plan["feasible"]:
        return {"network": network, "ranks": ranks, "missing": "no plan fits"}
    by_flops = [*arguments.overrides, *PIPELINE, f"strategy/stages={ranks}",
                f"strategy/microbatches={plan['microbatches'] if plan['ranks'] > 1 else 2 * ranks}"]
    steps, flops, noise = [], [], []
    for _ in range(arguments.rounds):
        noise.append(runs.noise(ranks, repeats=5))
        steps.append(step_seconds(arguments, placed, folder, plan["ranks"], plan["step_s"]))
        flops.append(step_seconds(arguments, deck, folder, ranks, plan["step_s"], *by_flops))
        noise.append(runs.noise(ranks, repeats=5))
    measured = statistics.median(steps)
    return {"network": network, "ranks": ranks, "plan": plan, "predicted": plan["step_s"], "measured": measured,
            "error": plan["step_s"] / measured - 1, "flops": statistics.median(flops),
            "of_flops": statistics.median(own / other for own, other in zip(steps, flops)),
            "noise": statistics.median(noise)}


def show(row):
    if "missing" in row:
        print(f"{row['network']:14} {row['ranks']:5} {row['missing']}", flush=True)
        return
    plan = row["plan"]
    shape = f"{plan['stages']} x {plan['replicas']}, {plan['microbatches']}"
    print(f"{row['network']:14} {row['ranks']:5} {shape:>12} {1e3 * row['predicted']:11.3f} {1e3 * row['measured']:10.3f} "
          f"{100 * row['error']:+7.1f} {1e3 * row['flops']:10.3f} {row['of_flops']:9.3f} {row['noise']:7.0f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("app", help="the partita executable")
    parser.add_argument("overrides", nargs="*", metavar="section/key=value", help="values for all decks, but not for the calibration")
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--networks", nargs="+", choices=list(NETWORKS), default=list(NETWORKS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5.0, help="seconds of training per run")
    parser.add_argument("--noise", type=float, default=15.0, help="percent, as for `partita plan calibrate --noise`")
    parser.add_argument("--quick", action="store_true", help="a short calibration; shows only that everything runs")
    parser.add_argument("--json", metavar="FILE", help="write the rows and their plans to FILE")
    arguments = parser.parse_intermixed_args()
    rows = []
    runs.write_json(arguments.json, rows)  # so that a bad path is reported before the work
    print(f"{'network':14} {'ranks':>5} {'plan':>12} {'predicted':>11} {'measured':>10} {'error':>7} {'by flops':>10} "
          f"{'of flops':>9} {'noise':>7}\n{'':33} {'ms':>11} {'ms':>10} {'%':>7} {'ms':>10} {'x':>9} {'%':>7}")
    with tempfile.TemporaryDirectory() as folder:
        for ranks in arguments.ranks:
            for network in arguments.networks:
                rows.append(compare(arguments, network, ranks, folder))
                show(rows[-1])
                runs.write_json(arguments.json, rows)


if __name__ == "__main__":
    main()
