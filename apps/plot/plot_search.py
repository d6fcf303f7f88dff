#!/usr/bin/env python3
"""Plots throughput against area of a placement search: all accelerators, and those that no other one beats in both.

Reads the file that `partita plan search SPEC --json FILE` writes, and writes an SVG picture per model and case into one
page. Needs nothing but Python."""

import argparse
import json
import math
import os

from output_files import refuse_inputs, refuse_others, write
from pictures import fail
from report_html import Markup, element
from report_svg import Scale, grid_x, grid_y, marker, path_of, widened
from run_files import RunError

MARK = "<!DOCTYPE html>\n<!-- A placement search of Partita -->\n"
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 960, 420, 80, 20, 20, 50
STYLE = Markup("body{font:14px sans-serif;max-width:980px;margin:2em auto;color:#222}svg{width:100%}text{fill:#444;"
               "font-size:12px}.grid{stroke:#ddd;fill:none}.all{fill:#9ab}.front{fill:none;stroke:#c33;stroke-width:2}"
               ".best{fill:#c33}.reference{fill:#226}")


def positive(value):
    if not isinstance(value, (int, float)) or not 0 < value < math.inf:
        raise ValueError
    return value


def read(path):
    """[(title, {index: (area, throughput, text)}, index of the reference)], a picture each."""
    try:
        with open(path, encoding="utf-8") as file:
            data = json.load(file)
        pictures = []
        for case in data["cases"]:
            setting = f"microbatch {case['microbatch']}, {case['memory'] / 1e9:g} GB" + \
                (", recomputation" if case["recompute"] else "") + \
                (f", stages choose {' '.join(case['choose'])}" if "choose" in case else "")
            models = {}
            for index, answer in case["answers"].items():
                accelerator = answer["acc_config"]
                shape = "{num_tc} TC {width} x {depth}, {num_vc} VC {width_vc}, {GLB_Buffer} MiB".format(**accelerator)
                for name, plan in answer.items():
                    if name == "acc_config":
                        continue
                    points = models.setdefault(name, {})
                    if plan["throughput"] is not None:
                        points[index] = (positive(accelerator["area"]), positive(plan["throughput"]), shape)
            pictures += [(f"{name}: {setting}", points, str(data["reference"])) for name, points in models.items()]
        return pictures
    except OSError as error:
        fail(f"{path}: {error.strerror}")
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        fail(f"{path}: is not the result of `partita plan search --json`")


def front(points):
    """The points whose throughput no other point of at most their area reaches, in the order of area."""
    best, kept = 0.0, []
    for index, (area, throughput, _) in sorted(points.items(), key=lambda item: (item[1][0], -item[1][1])):
        if throughput > best:
            best = throughput
            kept.append(index)
    return kept


def draw(title, points, reference):
    heading = element("h2", title)
    if not points:
        return element("section", heading, element("p", "No accelerator has room for this model."))
    x = Scale(*widened([area / 1e6 for area, _, _ in points.values()], False), LEFT, WIDTH - RIGHT)
    y = Scale(*widened([rate for _, rate, _ in points.values()], True), HEIGHT - BOTTOM, TOP, log=True)
    parts = [*grid_x(x, TOP, HEIGHT - BOTTOM, "{:g}".format, ""), *grid_y(y, LEFT, WIDTH - RIGHT, "{:g}".format, 6)]
    parts.append(element("text", "area, mm²", x=(LEFT + WIDTH - RIGHT) / 2, y=HEIGHT - 10, text_anchor="middle"))
    parts.append(element("text", "samples/s", x=LEFT - 8, y=TOP - 6, text_anchor="end"))
    places = {index: (area / 1e6, rate) for index, (area, rate, _) in points.items()}
    parts.append(element("path", d="".join(marker("o", x(a), y(b), 1.5) for a, b in places.values()), class_="all"))
    kept = front(points)
    parts.append(element("path", d=path_of([places[index] for index in kept], x, y), class_="front"))
    for index in [*kept, *([reference] if reference in points else [])]:
        area, rate, shape = points[index]
        text = f"{shape}\n{area / 1e6:.1f} mm², {rate:.6g} samples/s"
        parts.append(element("path", element("title", text), d=marker("d" if index == reference else "o", *(
            f(v) for f, v in zip((x, y), places[index]))), class_="reference" if index == reference else "best"))
    picture = element("svg", *parts, viewBox=f"0 0 {WIDTH} {HEIGHT}", role="img", aria_label=title)
    return element("section", heading, picture)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("result", metavar="FILE", help="what `partita plan search --json FILE` has written")
    parser.add_argument("-o", "--output", metavar="PAGE", help="page to write (default: FILE with the suffix .html)")
    parser.add_argument("--overwrite", action="store_true", help="replace PAGE even if it is not such a page")
    arguments = parser.parse_args()
    output = arguments.output or os.path.splitext(arguments.result)[0] + ".html"
    pictures = read(arguments.result)
    legend = element("p", "Each point is an accelerator; the line joins those whose throughput no smaller one "
                          "reaches; the diamond is the reference.")
    page = element("html", element("head", element("meta", charset="utf-8"), element("title", "Placement search"),
                                   element("style", STYLE)),
                   element("body", element("h1", "Throughput and area"), legend, *(draw(*one) for one in pictures)))
    try:
        refuse_inputs(output, files=[arguments.result])
        if not arguments.overwrite:
            refuse_others(output, MARK, "page")
        write((MARK + page + "\n").encode("utf-8", "replace"), output)
    except RunError as error:
        fail(error)
    except OSError as error:
        fail(f"{output}: {(error.strerror or str(error)).lower()}")


if __name__ == "__main__":
    main()
