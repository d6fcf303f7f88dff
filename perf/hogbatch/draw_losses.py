#!/usr/bin/env python3
"""Draws loss against time from the files that `time_to_loss.py --json FILE` has written, one panel for each.

A curve joins the evaluations of the first seed, and ends shortly after the given loss is reached. Dots show when
each seed reaches this loss. The picture is an SVG that needs no other files.
"""
import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "apps" / "plot"))
from output_files import store
from report_html import element
from report_svg import Scale, path_of, widened

WIDTH, HEIGHT = 360, 250
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 28, 34
LINE = 16
# Colours that people with impaired colour vision can tell apart (Okabe and Ito), and dashes for every second way.
COLOURS = {"single": "#000000", "replicas": "#999999", "local-sgd": "#0072b2", "synchronous": "#56b4e9", "fixed": "#e69f00",
           "ringmaster": "#cc79a7", "proportional": "#009e73", "adaptive": "#d55e00", "published": "#d55e00"}
DASHED = {"replicas", "synchronous", "ringmaster", "published"}
NAMES = {"single": "one rank", "replicas": "joint, replicas", "published": "adaptive, free"}


def kind(way):
    return way["name"].split()[0]


def style(name):
    dash = {"stroke_dasharray": "5 3"} if name in DASHED else {}
    return {"stroke": COLOURS.get(name, "#666666"), "fill": "none", "stroke_width": 1.6, **dash}


def shown(race):
    """The points of each way's first seed until shortly after the loss is reached, and when each seed reaches it."""
    reached = {kind(way): way["seconds"] for way in race["ways"]}
    last = 1.15 * max(seconds for times in reached.values() for seconds in times if seconds is not None)
    curves = {kind(way): [point for point in way["curves"][0] if point[0] <= last] for way in race["ways"]}
    return curves, reached, last


def panel(race, left, top):
    curves, reached, last = shown(race)
    values = [loss for curve in curves.values() for _, loss in curve] + [race["loss"]]
    x = Scale(0.0, last, left + LEFT, left + WIDTH - RIGHT)
    y = Scale(*widened(values, True), top + HEIGHT - BOTTOM, top + TOP, True)
    bottom = top + HEIGHT - BOTTOM
    parts = [element("text", f"{race['data']}: loss against seconds", x=left + LEFT, y=top + 16, font_weight="bold")]
    for value in x.ticks(6):
        parts += [element("path", d=f"M{x(value)},{top + TOP}V{bottom}", stroke="#dddddd"),
                  element("text", f"{value:g}", x=x(value), y=bottom + 15, text_anchor="middle")]
    for value in y.ticks(5):
        parts += [element("path", d=f"M{left + LEFT},{y(value)}H{left + WIDTH - RIGHT}", stroke="#dddddd"),
                  element("text", f"{value:.3g}", x=left + LEFT - 5, y=y(value) + 4, text_anchor="end")]
    parts.append(element("path", d=f"M{left + LEFT},{y(race['loss'])}H{left + WIDTH - RIGHT}", stroke="#000000"))
    for name, curve in curves.items():
        if len(curve) > 1:
            parts.append(element("path", d=path_of(curve, x, y), **style(name)))
        parts += [element("circle", cx=x(seconds), cy=y(race["loss"]), r=2.5, fill=style(name)["stroke"])
                  for seconds in reached[name] if seconds is not None]
    return parts


def legend(names, top):
    parts = []
    for index, name in enumerate(names):
        left, y = LEFT + 150 * (index % 4), top + LINE * (index // 4 + 1)
        parts += [element("path", d=f"M{left},{y - 4}h24", **style(name)), element("text", NAMES.get(name, name), x=left + 30, y=y)]
    return parts


def picture(races):
    columns = min(2, len(races))
    names = list(dict.fromkeys(kind(way) for race in races for way in race["ways"]))
    below = HEIGHT * -(-len(races) // columns)
    height, width = below + LINE * (len(names) // 4 + 2), max(columns * WIDTH, 660)
    parts = [part for index, race in enumerate(races)
             for part in panel(race, WIDTH * (index % columns), HEIGHT * (index // columns))]
    return element("svg", element("rect", width=width, height=height, fill="#ffffff"), *parts, *legend(names, below),
                   xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {width} {height}", font_family="sans-serif", font_size=11)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("races", metavar="FILE", nargs="+", help="file that time_to_loss.py --json wrote")
    parser.add_argument("-o", "--output", default="losses.svg")
    arguments = parser.parse_args()
    races = [json.loads(Path(name).read_text(encoding="utf-8")) for name in arguments.races]
    for name, race in zip(arguments.races, races):
        if all(seconds is None for way in race["ways"] for seconds in way["seconds"]):
            sys.exit(f"{name}: no way reaches the loss")
    store(f"{picture(races)}\n".encode(), arguments.output)


if __name__ == "__main__":
    main()
