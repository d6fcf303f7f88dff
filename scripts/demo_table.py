"""Prints a table of finished runs from their summary.json: demo_table.py RUNDIR ..."""

import json
import os
import sys

COLUMNS = ("method", "ranks", "threads per rank", "test accuracy", "samples/s", "sent between stages",
           "peak memory per rank")


def bytes_text(count):
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count:.0f} B"


def row(run):
    with open(os.path.join(run, "summary.json"), encoding="utf-8") as file:
        summary = json.load(file)
    return (
        summary["strategy"],
        str(summary["grid"]["ranks"]),
        summary["provenance"]["threads"],
        f"{100 * summary['test_accuracy']:.2f} %",
        f"{summary['samples_per_second']:.0f}",
        bytes_text(summary["bytes_between_stages"]),
        bytes_text(max(summary["peak_rss_bytes"])),
    )


def main():
    rows = [COLUMNS] + [row(run) for run in sys.argv[1:]]
    widths = [max(len(cells[i]) for cells in rows) for i in range(len(COLUMNS))]
    for number, cells in enumerate(rows):
        print("  ".join([cells[0].ljust(widths[0])] + [c.rjust(w) for c, w in zip(cells[1:], widths[1:])]))
        if number == 0:
            print("  ".join("-" * width for width in widths))


if __name__ == "__main__":
    main()
