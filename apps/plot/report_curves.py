"""The curves of a run, from its history, and a table of its evaluations."""

import math

from report_html import brief, element, grouped, legend, number, percent, plural, scaled, section, significant, table
from report_svg import MARKERS, Curve, line_chart, swatch
from run_files import in_order, smooth

LOG_RATIO = 5  # of the largest to the smallest loss: above that, the scale is logarithmic
JOINED = "joined"


def finite(points):
    """Those that can be drawn; a value near the largest of all numbers leaves no room for an axis."""
    return [(step, value) for step, value in points if abs(value) < 1e300]


def name_of(stage):
    return "joined network" if stage == JOINED else f"stage {stage}"


def colour_of(stage):
    return "joined" if stage == JOINED else f"c{(int(stage) - 1) % 8 + 1}"


def marker_of(stage):
    return "o" if stage == JOINED else MARKERS[(int(stage) - 1) % len(MARKERS)]


def curves_of(points_by_stage, markers=False, smoothed=False):
    """A curve for each stage that has a finite value."""
    curves = []
    for stage, points in in_order(points_by_stage):
        points = finite(points)
        if not points:
            continue
        steps, values = zip(*points)
        smoother = list(zip(steps, smooth(values, max(1, len(values) // 40)))) if smoothed else points
        curves.append(Curve(name_of(stage), smoother, colour_of(stage), points if smoothed else (),
                            marker_of(stage) if markers else ""))
    return curves


def chart(run, heading, curves, text, *, notes=(), key=None, **options):
    """A figure: its heading, a legend with the last values, and the curves."""
    last = [(curve.faint or curve.points)[-1] for curve in curves]
    entries = [(curve.colour, swatch(curve.marker, curve.dashed), curve.label, number(value, text))
               for curve, (_, value) in zip(curves, last)]
    recovery = run.history.recovery()
    marks = [] if recovery is None else [(recovery, "recovery")]
    ends = "; ".join(f"{curve.label} {text(value)} at step {step}" for curve, (step, value) in zip(curves, last))
    return element("figure", element("h3", heading, *(element("small", note) for note in notes)), legend(entries),
                   line_chart(curves, f"{heading} over the steps of the run. Last values: {ends}", text=text,
                              last=run.history.last_step(), marks=marks, **options), data_key=key)


def evaluated_on(run):
    """The set on which the run evaluates while it trains."""
    if run.deck is None:
        return "evaluation"
    fraction = run.deck.value("data", "validation")
    return "validation set" if isinstance(fraction, (int, float)) and fraction > 0 else "test set"


def loss_chart(run):
    curves = curves_of(run.history.loss, smoothed=True)
    evaluated = finite(run.history.evaluated_loss.get(JOINED, []))
    if evaluated:
        curves.append(Curve(f"joined network, {evaluated_on(run)}", evaluated, "joined", marker="o", dashed=True))
    if not curves:
        return None
    values = [value for curve in curves for _, value in [*curve.points, *curve.faint]]
    log = min(values) > 0 and max(values) > LOG_RATIO * min(values)
    notes = ["log scale"] if log else []
    if any(len(curve.faint) >= 80 for curve in curves):
        notes.append("strong lines are running means")
    return chart(run, "Training loss", curves, significant, notes=notes, key="loss", log=log)


def accuracy_chart(run):
    curves = curves_of(run.history.accuracy, markers=True)
    if not curves:
        return None
    return chart(run, f"Accuracy, {evaluated_on(run)}", curves, lambda value: f"{value:.2f}\u00a0%", key="accuracy",
                 bounds=(0, 100), tick=lambda value: f"{value:g} %")


def perplexity_chart(run):
    """The perplexity of networks that predict tokens."""
    tokens = run.deck is not None and run.deck.value("data", "kind") in ("grammar", "text")
    if not (run.has("test_perplexity") or tokens):
        return None
    points = [(step, math.exp(loss)) for step, loss in finite(run.history.evaluated_loss.get(JOINED, []))
              if loss < 600]
    if len(points) < 2:
        return None
    curve = Curve(name_of(JOINED), points, "joined", marker="o")
    return chart(run, f"Perplexity, {evaluated_on(run)}", [curve], significant, notes=["exp(loss)"], key="perplexity",
                 height=200)


def rate_chart(run):
    """Stages that have the same rates share a curve."""
    same = {}
    for stage, points in in_order(run.history.rate):
        same.setdefault(tuple(finite(points)), []).append(stage)
    curves = []
    for points, stages in same.items():
        if points:
            names = [stage for stage in stages if stage != JOINED]
            label = name_of(stages[0]) if len(stages) == 1 else f"stages {', '.join(names)}"
            curves.append(Curve(label, list(points), colour_of(stages[0])))
    if not curves:
        return None
    return chart(run, "Learning rate", curves, significant, key="rate", height=170, from_zero=True,
                 tick=lambda value: f"{value:.3g}")


def speed_chart(run):
    curves = curves_of(run.history.speed, smoothed=True)
    for curve in curves:
        curve.faint = ()
    if not curves:
        return None
    return chart(run, "Samples per second", curves, scaled, notes=["running means"], key="speed", height=170,
                 from_zero=True, tick=brief)


def evaluation_table(run):
    """All evaluations as numbers."""
    stages = [stage for stage, _ in in_order(run.history.accuracy)]
    accuracy = {stage: dict(run.history.accuracy[stage]) for stage in stages}
    losses = dict(run.history.evaluated_loss.get(JOINED, []))
    steps = sorted(run.history.epochs)
    if not steps:
        return None

    def cell(values, step, text):
        value = values.get(step)
        return number(value if value is not None and math.isfinite(value) else None, text)

    rows = [[number(step, grouped), run.history.epochs[step],
             *(cell(accuracy[stage], step, lambda value: f"{value:.2f}") for stage in stages),
             *([cell(losses, step, significant)] if losses else [])] for step in steps]
    heads = ["step", "epoch", *(f"{name_of(stage)}, %" for stage in stages), *(["loss, joined"] if losses else [])]
    shown = table(f"Accuracy of each evaluation, {evaluated_on(run)}", heads, rows, texts=())
    return element("details", element("summary", f"{plural(len(rows), 'evaluation')} as numbers"), shown)


def curves_section(run):
    if run.history is None:
        return None
    charts = [draw(run) for draw in (loss_chart, accuracy_chart, perplexity_chart, rate_chart, speed_chart)]
    return section("curves", "Curves", *charts, evaluation_table(run))


def result_of_history(run):
    """(name, number, explanation) from the last rows, for a run without a summary."""
    tiles = []
    for stage, points in reversed(in_order(run.history.accuracy)):
        points = finite(points)
        if points:
            step, value = points[-1]
            tiles.append((f"Accuracy of the {name_of(stage)}" if stage == JOINED else f"Accuracy of {name_of(stage)}",
                          number(value / 100, percent), f"{evaluated_on(run)}, step {grouped(step)}"))
            break
    for stage, points in reversed(in_order(run.history.loss)):
        points = finite(points)
        if points:
            tiles.append(("Training loss", number(points[-1][1], significant), name_of(stage)))
            break
    return tiles
