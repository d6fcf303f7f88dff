#!/usr/bin/env python3
"""Draws the roofline of a machine, and how much of it each row of `partita bench --json FILE` reaches.

The roof is the rate of large products (`sgemm`, and `bgemm` for rows in bf16), or the memory bandwidth (`triad`) times
the FLOPs per byte, whichever is lower. The bytes are those that a step would move without caches, so a row whose values
stay in a cache may lie above the slope. Prints the share of the roof for each row. The picture is an SVG that needs no
other files. (S. Williams, A. Waterman, D. Patterson: Roofline: An Insightful Visual Performance Model for Multicore
Architectures. CACM 52, 2009.)
"""
import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "apps" / "plot"))
from output_files import store
from report_html import element
from report_svg import Scale, path_of

WIDTH, HEIGHT, LIST = 560, 440, 270
LEFT, RIGHT, TOP, BOTTOM = 60, 14, 16, 44
LINE = 15
COLOURS = {"sgemm": "#0072b2", "bgemm": "#d55e00"}
NAMES = {"sgemm": "float", "bgemm": "bf16"}


class Row:
    """A computation: FLOPs per byte, and GFLOP/s."""

    def __init__(self, entry, rates):
        self.name = entry["name"]
        self.product = "bgemm" if self.name.endswith("_bf16") else "sgemm"
        self.intensity = entry["flops"] / entry["bytes"]
        self.rate = entry["flops"] / entry["value"] * 1e-6
        self.share = self.rate / roof(rates, self.product, self.intensity)


def roof(rates, product, intensity):
    return min(rates[product], rates["triad"] * intensity)


def read(path):
    """The rates of the machine, and the rows."""
    entries = json.loads(Path(path).read_text(encoding="utf-8"))
    rates = {entry["name"]: entry["value"] for entry in entries if entry["name"] in ("sgemm", "bgemm", "triad")}
    rows = [Row(entry, rates) for entry in entries if "flops" in entry]
    if len(rates) < 3 or not rows:
        sys.exit(f"{path}: not written by partita bench --json")
    return rates, rows


def axes(x, y):
    bottom, parts = HEIGHT - BOTTOM, []
    for value in x.ticks(8):
        parts += [element("path", d=f"M{x(value)},{TOP}V{bottom}", stroke="#dddddd"),
                  element("text", f"{value:g}", x=x(value), y=bottom + 16, text_anchor="middle")]
    for value in y.ticks(8):
        parts += [element("path", d=f"M{LEFT},{y(value)}H{WIDTH - RIGHT}", stroke="#dddddd"),
                  element("text", f"{value:g}", x=LEFT - 6, y=y(value) + 4, text_anchor="end")]
    return parts + [element("text", "FLOP per byte without caches", x=(LEFT + WIDTH) // 2, y=HEIGHT - 8, text_anchor="middle"),
                    element("text", "GFLOP/s", x=LEFT + 6, y=TOP + 12)]


def picture(rates, rows):
    intensities, heights = [row.intensity for row in rows], [row.rate for row in rows]
    ends = 0.5 * min(intensities), 2 * max(intensities)
    x = Scale(*ends, LEFT, WIDTH - RIGHT, True)
    y = Scale(0.5 * min(heights), 1.3 * max(*heights, rates["sgemm"], rates["bgemm"]), HEIGHT - BOTTOM, TOP, True)
    parts = axes(x, y)
    for product, colour in COLOURS.items():
        low = max(ends[0], 0.5 * min(heights) / rates["triad"])
        ridge = max(low, rates[product] / rates["triad"])
        points = [(at, roof(rates, product, at)) for at in (low, ridge, ends[1])]
        parts.append(element("path", d=path_of(points, x, y), stroke=colour, fill="none", stroke_width=1.6))
    for number, row in enumerate(rows, 1):
        parts += [element("circle", cx=x(row.intensity), cy=y(row.rate), r=7, fill=COLOURS[row.product], fill_opacity=0.85),
                  element("text", str(number), x=x(row.intensity), y=y(row.rate) + 3, text_anchor="middle", font_size=8,
                          fill="#ffffff"),
                  element("text", str(number), x=WIDTH + 18, y=TOP + LINE * number, text_anchor="end"),
                  element("text", row.name, x=WIDTH + 26, y=TOP + LINE * number, fill=COLOURS[row.product]),
                  element("text", f"{100 * row.share:.0f} %", x=WIDTH + LIST - 14, y=TOP + LINE * number, text_anchor="end")]
    parts.append(element("text", "share of the roof", x=WIDTH + LIST - 14, y=TOP + LINE * (len(rows) + 1),
                         text_anchor="end", font_style="italic"))
    height = max(HEIGHT, TOP + LINE * (len(rows) + 2))
    return element("svg", element("rect", width=WIDTH + LIST, height=height, fill="#ffffff"), *parts,
                   xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {WIDTH + LIST} {height}",
                   font_family="sans-serif", font_size=11)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bench", metavar="FILE", help="file that partita bench --json wrote")
    parser.add_argument("-o", "--output", default="roofline.svg")
    arguments = parser.parse_args()
    rates, rows = read(arguments.bench)
    for row in rows:
        print(f"{row.name:24} {row.intensity:8.1f} FLOP/byte {row.rate:8.1f} GFLOP/s {100 * row.share:6.1f} % "
              f"of the roof ({NAMES[row.product]})")
    store(f"{picture(rates, rows)}\n".encode(), arguments.output)


if __name__ == "__main__":
    main()
