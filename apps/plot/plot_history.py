#!/usr/bin/env python3
"""Plots the training history of one run, or of several side by side.

Reads RUNDIR/history.csv, which `partita train DECK -d RUNDIR` writes, and draws the loss of each stage, the accuracy of
each stage and of the joined network, and the learning rate. Accuracies are those on the validation set, or on the test
set if there is none. The picture of one run goes to RUNDIR/history.png; with several runs --output says where."""

import argparse
import math
import os

from pictures import fail, save, start_pyplot
from run_files import History, RunError, in_order, smooth, stage_colour

JOINED_COLOUR = "#222222"


def read(folder):
    try:
        history = History(folder)
    except RunError as error:
        known = os.path.isfile(os.path.join(folder, "history.csv"))
        fail(f"{error}" + ("" if known else "; name the folder given to `partita train -d`"))
    if history.fault:
        fail(history.fault)
    return history


def style(stage, points):
    """A single point has no line: it is drawn as a point."""
    marker = "o" if len(points) == 1 else ""
    if stage == "joined":
        return {"color": JOINED_COLOUR, "linewidth": 2.4, "label": "joined network", "zorder": 3, "marker": marker}
    return {"color": stage_colour(stage), "linewidth": 1.6, "label": f"stage {stage}",
            "marker": marker}


def draw_loss(axes, history):
    for stage, points in in_order(history.loss):
        points = [point for point in points if math.isfinite(point[1])]
        if not points:
            continue
        steps, values = zip(*points)
        look = style(stage, points)
        axes.plot(steps, values, color=look["color"], alpha=0.4, linewidth=0.8)
        axes.plot(steps, smooth(values, max(1, len(values) // 40)), **look)
    if all(value > 0 for points in history.loss.values() for _, value in points):
        axes.set_yscale("log")
    axes.set_ylabel("training loss")


def draw_accuracy(axes, history):
    for stage, points in in_order(history.accuracy):
        steps, values = zip(*points)
        axes.plot(steps, values, **{**style(stage, points), "marker": "o", "markersize": 4})
    joined = history.accuracy.get("joined")
    if joined:
        step, value = joined[-1]
        axes.annotate(f"{value:.2f} %", (step, value), textcoords="offset points", xytext=(0, 8), ha="right",
                      fontweight="bold", color=JOINED_COLOUR)
    axes.set_ylabel("accuracy (%)")
    axes.margins(y=0.15)


def draw_rate(axes, history):
    drawn = []
    for stage, points in in_order(history.rate):
        if points in drawn:
            continue
        drawn.append(points)
        steps, values = zip(*points)
        axes.plot(steps, values, **style(stage, points))
    axes.ticklabel_format(axis="y", style="sci", scilimits=(0, 0))
    axes.set_ylim(bottom=0)
    axes.set_ylabel("learning rate")
    axes.set_xlabel("step of the run")


def draw(histories):
    plt = start_pyplot()
    figure, grid = plt.subplots(3, len(histories), sharex="col", sharey="row", squeeze=False,
                                figsize=(2.5 + 4.5 * len(histories), 8.5), constrained_layout=True,
                                gridspec_kw={"height_ratios": (3, 3, 1.3)})
    for column, history in enumerate(histories):
        panels = grid[:, column]
        for axes, draw_panel in zip(panels, (draw_loss, draw_accuracy, draw_rate)):
            draw_panel(axes, history)
            if column > 0:
                axes.set_ylabel("")
        panels[0].set_title(history.name, fontweight="bold", loc="left")
        entries = {label: line for axes in panels for line, label in zip(*axes.get_legend_handles_labels())}
        panels[2].legend(entries.values(), entries.keys(), loc="upper center", bbox_to_anchor=(0.5, -0.45), ncol=3)
    figure.align_ylabels()
    return figure


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", metavar="RUNDIR", nargs="+", help="folder of a run")
    parser.add_argument("-o", "--output", metavar="FILE", help="picture to write; its extension determines the format")
    arguments = parser.parse_args()
    if len(arguments.runs) > 1 and not arguments.output:
        fail("several runs need --output, the picture to write")
    histories = [read(folder) for folder in arguments.runs]
    save(draw(histories), arguments.output or os.path.join(arguments.runs[0], "history.png"), runs=arguments.runs)


if __name__ == "__main__":
    main()
