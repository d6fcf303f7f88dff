"""Draws the schedule of one or more trace.json files: one row per rank, time from left to right.

    python3 apps/plot/draw_trace.py run/trace.json [MORE.json ...] schedule.png [--title TEXT ...]
"""

import argparse

from pictures import fail, save, start_pyplot
from report_cost import OPERATIONS
from run_files import RunError, Trace

COLOURS = {"F": "#4477aa", "B": "#ee8866", "update": "#228833"}


def read(path):
    try:
        return Trace(path)
    except RunError as error:
        fail(error)


def draw(axes, trace, length):
    for row, what, name, begin, duration in trace.events:
        axes.barh(row, duration, left=begin, height=0.9, color=COLOURS.get(what, "#bbbbbb"), edgecolor="white",
                  linewidth=0.3)
        if duration > 0.012 * length and name[1:].isdigit():
            axes.text(begin + duration / 2, row, name[1:], ha="center", va="center", fontsize=6)
    axes.set_yticks(range(len(trace.rows)))
    axes.set_yticklabels([trace.label(row) for row in range(len(trace.rows))])
    axes.invert_yaxis()
    axes.grid(False)
    axes.set_xlim(0, length)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trace", nargs="+", help="traces, drawn one below the other on one scale")
    parser.add_argument("output", help="the picture to write")
    parser.add_argument("--title", action="append", default=[], help="title of a trace; repeat for each trace in order")
    arguments = parser.parse_args()
    traces = [read(path) for path in arguments.trace]
    pyplot = start_pyplot()
    heights = [0.6 + 0.4 * len(trace.rows) for trace in traces]
    figure, all_axes = pyplot.subplots(len(traces), figsize=(12, 0.5 + sum(heights)), squeeze=False,
                                       gridspec_kw={"height_ratios": heights})
    length = max(trace.length() for trace in traces)
    for number, trace in enumerate(traces):
        draw(all_axes[number][0], trace, length)
        all_axes[number][0].set_title("".join(arguments.title[number:number + 1]), fontsize=9)
    all_axes[-1][0].set_xlabel("ms")
    shown = [what for what in COLOURS if any(event[1] == what for trace in traces for event in trace.events)]
    figure.legend([pyplot.Rectangle((0, 0), 1, 1, color=COLOURS[what]) for what in shown],
                  [OPERATIONS[what][0] for what in shown], loc="upper right", fontsize=8, ncol=3)
    figure.tight_layout()
    save(figure, arguments.output, files=arguments.trace)


if __name__ == "__main__":
    main()
