"""Draws the schedule of a trace.json: a row a rank, time from left to right.

    python3 perf/pipeline/draw_trace.py run/trace.json schedule.png [--title TEXT]
"""

import argparse
import json
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402 (behind the choice of what draws)

COLOURS = {"F": "#4477aa", "B": "#ee8866", "update": "#228833"}
NAMES = {"F": "forward", "B": "backward", "update": "sum and update"}


def events_of(path):
    """(row, what, name, begin in ms, milliseconds), rows counted from 0 in the order of replicas and ranks."""
    events = [event for event in json.loads(Path(path).read_text())["traceEvents"] if event["ph"] == "X"]
    rows = {place: row for row, place in enumerate(sorted({(event["pid"], event["tid"]) for event in events}))}
    begin = min(event["ts"] for event in events)
    return rows, [(rows[event["pid"], event["tid"]], event["cat"], event["name"], (event["ts"] - begin) / 1e3,
                   event["dur"] / 1e3) for event in events]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trace")
    parser.add_argument("output")
    parser.add_argument("--title", default="")
    arguments = parser.parse_args()
    rows, events = events_of(arguments.trace)
    figure, axes = pyplot.subplots(figsize=(12, 0.8 + 0.45 * len(rows)))
    length = max(begin + duration for _, _, _, begin, duration in events)
    for row, what, name, begin, duration in events:
        axes.barh(row, duration, left=begin, height=0.9, color=COLOURS.get(what, "#bbbbbb"), edgecolor="white",
                  linewidth=0.3)
        if duration > 0.012 * length:
            axes.text(begin + duration / 2, row, name[1:] if name[1:].isdigit() else "", ha="center", va="center",
                      fontsize=6)
    axes.set_yticks(range(len(rows)))
    axes.set_yticklabels([f"rank {group}" if len({r for r, _ in rows}) == 1 else f"replica {replica}, rank {group}"
                          for replica, group in rows])
    axes.invert_yaxis()
    axes.set_xlim(0, length)
    axes.set_xlabel("ms")
    axes.set_title(arguments.title)
    shown = [what for what in COLOURS if any(event[1] == what for event in events)]
    axes.legend([pyplot.Rectangle((0, 0), 1, 1, color=COLOURS[what]) for what in shown],
                [NAMES[what] for what in shown], loc="upper right", fontsize=7, ncol=3)
    figure.tight_layout()
    figure.savefig(arguments.output, dpi=150)


if __name__ == "__main__":
    main()
