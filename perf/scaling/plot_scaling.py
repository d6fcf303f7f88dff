#!/usr/bin/env python3
"""Prints speed-up and efficiency of series of runs that scale.py has made: a table for each, and one picture of all.

The figure of merit is samples_per_second x parameters of summary.json. It measures the work done per second in strong
and in weak scaling alike, whether samples, batch or network grow. Speed-up is its ratio to that of the smallest number
of ranks, times that number; efficiency is speed-up over ranks. The median of repeated runs counts."""

import argparse
import glob
import json
import os
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "apps" / "plot"))
from pictures import fail, save, start_pyplot


def read_series(folder):
    """Summaries by number of ranks."""
    series = {}
    for path in sorted(glob.glob(os.path.join(glob.escape(folder), "*", "summary.json"))):
        try:
            with open(path, encoding="utf-8") as file:
                summary = json.load(file)
            series.setdefault(summary["grid"]["ranks"], []).append(summary)
        except (ValueError, KeyError) as error:
            fail(f"{path}: not a summary of Partita ({error!r})")
    if not series:
        fail(f"{folder}: no */summary.json; scale.py writes them")
    return dict(sorted(series.items()))


def merit(summary):
    return summary["samples_per_second"] * summary["parameters"]


def rows(series):
    """(ranks, strategy, stages x replicas, samples/s, parameters, speed-up, efficiency, spread) for each number of ranks."""
    first = min(series)
    base = statistics.median(merit(summary) for summary in series[first]) / first
    result = []
    for ranks, summaries in series.items():
        merits = [merit(summary) for summary in summaries]
        middle = statistics.median(merits)
        grid = summaries[0]["grid"]
        result.append((ranks, summaries[0]["strategy"], f"{grid['stages']} x {grid['replicas']}",
                       statistics.median(summary["samples_per_second"] for summary in summaries),
                       summaries[0]["parameters"], middle / base, middle / base / ranks,
                       (max(merits) - min(merits)) / middle))
    return result


def print_table(folder, table):
    print(f"\n{folder}\n\n| ranks | strategy | stages x replicas | samples/s | parameters | speed-up | efficiency | spread |")
    print("|---|---|---|---|---|---|---|---|")
    for ranks, strategy, grid, rate, parameters, speedup, efficiency, spread in table:
        print(f"| {ranks} | {strategy} | {grid} | {rate:.0f} | {parameters} | {speedup:.2f} | {100 * efficiency:.0f} % "
              f"| {100 * spread:.0f} % |")


def draw(tables, output):
    plt = start_pyplot()
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4), constrained_layout=True)
    every = sorted({row[0] for table in tables.values() for row in table})
    left.plot(every, every, color="#7F7F7F", linestyle=":", label="ideal")
    right.axhline(100, color="#7F7F7F", linestyle=":")
    for folder, table in tables.items():
        ranks = [row[0] for row in table]
        left.plot(ranks, [row[5] for row in table], marker="o", label=os.path.basename(os.path.normpath(folder)))
        right.plot(ranks, [100 * row[6] for row in table], marker="o")
    for axes, name in ((left, "speed-up"), (right, "efficiency (%)")):
        axes.set_xscale("log", base=2)
        axes.set_xticks(every)
        axes.set_xticklabels([str(ranks) for ranks in every])
        axes.set_xlabel("ranks")
        axes.set_ylabel(name)
    left.set_yscale("log", base=2)
    left.yaxis.set_major_formatter("{x:g}")
    left.legend()
    right.set_ylim(bottom=0)
    print()
    save(figure, output)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", metavar="FOLDER", help="folder of a series, as given to scale.py")
    parser.add_argument("-o", "--output", metavar="FILE", help="picture to write; its extension determines the format")
    arguments = parser.parse_args()
    tables = {folder: rows(read_series(folder)) for folder in arguments.folders}
    for folder, table in tables.items():
        print_table(folder, table)
    if arguments.output:
        draw(tables, arguments.output)


if __name__ == "__main__":
    main()
