"""Draws the schedule of one or more trace.json: one row per rank, time from left to right.

    python3 perf/pipeline/draw_trace.py run/trace.json [MORE.json ...] schedule.png [--title TEXT ...]
"""

import argparse
import json
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402 (after the choice of the back end)

COLOURS = {"F": "#4477aa", "B": "#ee8866", "update": "#228833"}
NAMES = {"F": "forward", "B": "backward", "update": "sum and update"}


def events_of(path):
    """(row, what, name, start in ms, duration in ms); rows are counted from 0 in the order of replicas and ranks."""
    events = [event for event in json.loads(Path(path).read_text())["traceEvents"] if event["ph"] == "X"]
    rows = {place: row for row, place in enumerate(sorted({(event["pid"], event["tid"]) for event in events}))}
    begin = min(event["ts"] for event in events)
    return rows, [(rows[event["pid"], event["tid"]], event["cat"], event["name"], (event["ts"] - begin) / 1e3,
                   event["dur"] / 1e3) for event in events]


def draw(axes, rows, events, length):
    for row, what, name, begin, duration in events:
        axes.barh(row, duration, left=begin, height=0.9, color=COLOURS.get(what, "#bbbbbb"), edgecolor="white",
                  linewidth=0.3)
        if duration > 0.012 * length and name[1:].isdigit():
            axes.text(begin + duration / 2, row, name[1:], ha="center", va="center", fontsize=6)
    replicas = {replica for replica, _ in rows}
    axes.set_yticks(range(len(rows)))
    axes.set_yticklabels([("" if len(replicas) == 1 else f"replica {replica}, ") + f"rank {group}"
                          for replica, group in rows])
    axes.invert_yaxis()
    axes.set_xlim(0, length)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trace", nargs="+", help="traces, drawn one below the other on one scale")
    parser.add_argument("output", help="the picture to write")
    parser.add_argument("--title", action="append", default=[], help="title; repeat it for each trace in turn")
    arguments = parser.parse_args()
    traces = [events_of(path) for path in arguments.trace]
    heights = [0.6 + 0.4 * len(rows) for rows, _ in traces]
    figure, all_axes = pyplot.subplots(len(traces), figsize=(12, 0.5 + sum(heights)), squeeze=False,
                                       gridspec_kw={"height_ratios": heights})
    length = max(begin + duration for _, events in traces for _, _, _, begin, duration in events)
    for number, (rows, events) in enumerate(traces):
        draw(all_axes[number][0], rows, events, length)
        all_axes[number][0].set_title("".join(arguments.title[number:number + 1]), fontsize=9)
    all_axes[-1][0].set_xlabel("ms")
    shown = [what for what in COLOURS if any(event[1] == what for _, events in traces for event in events)]
    figure.legend([pyplot.Rectangle((0, 0), 1, 1, color=COLOURS[what]) for what in shown],
                  [NAMES[what] for what in shown], loc="upper right", fontsize=8, ncol=3)
    figure.tight_layout()
    figure.savefig(arguments.output, dpi=110)


if __name__ == "__main__":
    main()
