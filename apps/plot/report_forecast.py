"""What was predicted: a step of the run beside what it has cost, and the scaling that `partita plan predict` expects."""

import math

from report_html import duration, element, legend, number, percent, section, size, table
from report_svg import MARKERS, Curve, bar_chart, line_chart, swatch
from run_files import RunError, read_json

COLOURS = {"compute": "c1", "stage": "c5", "gradients": "c6", "parameters": "c4", "norm": "c3", "all_gather": "c2",
           "all_reduce": "c7", "reduce_scatter": "c4", "halo": "c2", "gather": "c3", "other": "c8"}
MOST_CURVES = 8
MOST_PREDICTIONS = 100000


def kind_text(kind):
    return "computing" if kind == "compute" else kind.replace("_", " ")


def kinds_of(run):
    """The kinds of communication that were predicted or measured."""
    found = run.summary.find("predicted.communication")
    return [kind for kind in found if run.has(f"measured.communication.{kind}")] if isinstance(found, dict) else []


def cost_bars(run, kinds):
    rows, shown = [], set()
    for side in ("predicted", "measured"):
        values = [("compute", run.number(f"{side}.compute_s")),
                  *((kind, run.number(f"{side}.communication.{kind}")) for kind in kinds)]
        segments = [(COLOURS.get(kind, "c8"), value, f"{side}, {kind_text(kind)}: {duration(value)}")
                    for kind, value in values if value is not None and value > 0]
        shown.update(kind for kind, value in values if value is not None and value > 0)
        rows.append((side, segments, duration(run.number(f"{side}.step_s"))))
    return element("figure", element("h3", "A training step"),
                   legend([(COLOURS.get(kind, "c8"), swatch("box"), kind_text(kind), None)
                           for kind in ("compute", *kinds) if kind in shown]),
                   bar_chart(rows, "A training step as predicted and as measured; the table below has the numbers", duration))


def forecast_section(run):
    terms = ("step_s", "compute_s", "memory_bytes")
    if run.summary is None or not all(run.has(f"{side}.{term}") for side in ("predicted", "measured") for term in terms):
        return None
    kinds = kinds_of(run)
    lines = [("step", "step_s", duration), ("computing", "compute_s", duration),
             *((f"waiting, {kind_text(kind)}", f"communication.{kind}", duration) for kind in kinds),
             ("memory", "memory_bytes", size)]
    rows = [[name, *(run.shown(f"{side}.{key}", text) for side in ("predicted", "measured")),
             run.shown(f"prediction_error.{key}", percent)] for name, key, text in lines]
    return section("prediction", "Prediction", cost_bars(run, kinds),
                   table("A step as predicted and as measured, and the error: predicted / measured - 1",
                         ["term", "predicted", "measured", "error"], rows))


class Predictions:
    """The list that `partita plan predict --json` writes: its feasible entries, by strategy and number of ranks."""

    KEYS = ("epoch_s", "epoch_compute_s", "epoch_communication_s", "memory_bytes")

    def __init__(self, path):
        self.path, self.rows = path, []
        entries = read_json(path)
        if not isinstance(entries, list):
            raise RunError(f"{path}: is not a list that `partita plan predict --json` wrote")
        for entry in entries[:MOST_PREDICTIONS]:
            if self._complete(entry):
                self.rows.append(entry)
        if not self.rows:
            raise RunError(f"{path}: has no feasible prediction")

    def _complete(self, entry):
        if not isinstance(entry, dict) or entry.get("feasible") is not True:
            return False
        numbers = [entry.get(key) for key in self.KEYS]
        return (all(isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) for value in numbers)
                and numbers[0] > 0 and isinstance(entry.get("strategy"), str) and isinstance(entry.get("limiter"), str)
                and type(entry.get("ranks")) is int and 0 < entry["ranks"] < 1 << 25)

    def strategies(self):
        """Those with the most ranks first, then the fastest there."""
        last = {}
        for row in self.rows:
            if row["ranks"] >= last.get(row["strategy"], row)["ranks"]:
                last[row["strategy"]] = row
        return sorted(last, key=lambda name: (-last[name]["ranks"], last[name]["epoch_s"]))


def scaling_section(predictions):
    if predictions is None:
        return None
    limiters, curves = {}, []
    for index, name in enumerate(predictions.strategies()[:MOST_CURVES]):
        points = sorted((row["ranks"], row["epoch_s"]) for row in predictions.rows if row["strategy"] == name)
        curves.append(Curve(name, points, f"c{index + 1}", marker=MARKERS[index % 4], dashed=index >= 4))
    for row in predictions.rows:
        limiters.setdefault(row["epoch_s"], set()).add(row["limiter"])
    shown = legend([(curve.colour, swatch(curve.marker, curve.dashed), curve.label,
                     number(curve.points[-1][1], duration)) for curve in curves])
    chart = line_chart(curves, "Seconds per epoch over the number of ranks", log=True, axis="ranks",
                       last=max(row["ranks"] for row in predictions.rows), tick=duration,
                       text=lambda value: f"{duration(value)}, limited by {' or '.join(sorted(limiters[value]))}")
    rows = [[str(row["ranks"]), row["strategy"], *(number(row[key], duration) for key in Predictions.KEYS[:3]),
             number(row["memory_bytes"], size), row["limiter"]]
            for row in sorted(predictions.rows, key=lambda row: (row["ranks"], row["epoch_s"]))]
    heads = ["ranks", "strategy", "epoch", "computing", "communication", "memory", "limiter"]
    return section("scaling", "Scaling", element("figure", element("h3", "Predicted time of an epoch"), shown, chart),
                   table("Predictions for each number of ranks, the fastest first", heads, rows, texts=(0, 1, 6),
                         folded=f"{len(rows)} predictions as numbers"))
