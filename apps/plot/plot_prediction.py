#!/usr/bin/env python3
"""Draws what `partita plan predict --json FILE` predicts: the time of an epoch over the number of ranks, with what limits
the fastest strategy. With run directories, a second panel compares the steps of these runs with their predictions, which
`run/cluster` writes into summary.json. Needs matplotlib."""

import argparse
import os

from pictures import fail, save, start_pyplot
from report_forecast import MOST_CURVES, Predictions, kind_text
from report_html import duration
from run_files import STAGE_COLOURS, RunError, Summary

TERMS = ("step_s", "compute_s")
MARKERS = "os^D"


class Compared:
    """A run with a prediction."""

    def __init__(self, folder):
        summary = Summary(folder)
        self.name = os.path.basename(os.path.abspath(folder))
        values = [summary.number(f"{side}.{term}") for side in ("predicted", "measured") for term in TERMS]
        if summary.number("predicted.epoch_s") is not None:
            raise RunError(f"{folder}: has no steps to compare, since its workers train at their own pace")
        if None in values or min(values) <= 0:
            raise RunError(f"{folder}: has no prediction; train with run/cluster=FILE")
        self.predicted, self.measured = values[:2], values[2:]


def draw_scaling(axes, predictions):
    for index, name in enumerate(predictions.strategies()[:MOST_CURVES]):
        points = sorted((row["ranks"], row["epoch_s"]) for row in predictions.rows if row["strategy"] == name)
        axes.plot(*zip(*points), label=name, color=STAGE_COLOURS[index], marker=MARKERS[index % 4],
                  linestyle="--" if index >= 4 else "-")
    for ranks in sorted({row["ranks"] for row in predictions.rows}):
        best = min((row for row in predictions.rows if row["ranks"] == ranks), key=lambda row: row["epoch_s"])
        axes.annotate(kind_text(best["limiter"]), (ranks, best["epoch_s"]), xytext=(0, -14), textcoords="offset points",
                      ha="center", fontsize=8)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.yaxis.set_major_formatter(lambda value, _: duration(value))
    axes.margins(y=0.15)
    axes.set_xlabel("ranks")
    axes.set_ylabel("predicted time of an epoch")
    axes.legend()


def draw_comparison(axes, runs):
    values = [value for run in runs for value in (*run.predicted, *run.measured)]
    ends = min(values) / 1.3, max(values) * 1.3
    axes.plot(ends, ends, color="#7F7F7F", linewidth=0.8)
    for index, run in enumerate(runs):
        colour = STAGE_COLOURS[index % len(STAGE_COLOURS)]
        for term, marker in enumerate("os"):
            axes.plot(run.measured[term], run.predicted[term], marker, color=colour, label=run.name if term == 0 else None,
                      fillstyle="full" if term == 0 else "none")
    for set_scale, axis in ((axes.set_xscale, axes.xaxis), (axes.set_yscale, axes.yaxis)):
        set_scale("log")
        axis.set_major_formatter(lambda value, _: duration(value))
    axes.set_xlabel("measured: a step (filled), its computing (open)")
    axes.set_ylabel("predicted")
    axes.legend()


def draw(predictions, runs):
    plt = start_pyplot()
    figure, panels = plt.subplots(1, 2 if runs else 1, squeeze=False, figsize=(14 if runs else 7.5, 5),
                                  constrained_layout=True)
    draw_scaling(panels[0][0], predictions)
    if runs:
        draw_comparison(panels[0][1], runs)
    return figure


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("predictions", metavar="PREDICTIONS", help="list that `partita plan predict --json` wrote")
    parser.add_argument("runs", metavar="RUNDIR", nargs="*", help="folder of a run with run/cluster")
    parser.add_argument("-o", "--output", metavar="FILE", required=True,
                        help="picture to write; its extension determines the format")
    arguments = parser.parse_intermixed_args()
    try:
        predictions, runs = Predictions(arguments.predictions), [Compared(folder) for folder in arguments.runs]
    except RunError as error:
        fail(error)
    save(draw(predictions, runs), arguments.output, arguments.runs, [arguments.predictions])


if __name__ == "__main__":
    main()
