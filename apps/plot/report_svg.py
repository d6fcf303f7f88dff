"""SVG charts for a page: curves with axes, bars, and operations in time. Colours are classes of report.css."""

import math

from report_html import element, grouped

WIDTH = 960
LEFT, RIGHT, TOP, BOTTOM = 62, 14, 12, 30
MARKERS = "ostd"
MOST_POINTS = 600  # of a curve: about two per three pixels
MOST_BANDS = 200   # steps whose values a chart shows under the pointer


class Scale:
    """Maps values to pixels, and chooses the ticks of an axis."""

    def __init__(self, low, high, begin, end, log=False):
        self.log = log
        self._low, self._high, self._begin, self._end = low, high, begin, end

    def _place(self, value):
        return math.log10(value) if self.log else value

    def __call__(self, value):
        low, high = self._place(self._low), self._place(self._high)
        share = (self._place(value) - low) / (high - low) if high > low else 0.5
        return round(self._begin + share * (self._end - self._begin), 1)

    def ticks(self, most=6, whole=False):
        if self.log:
            exponents = range(math.floor(math.log10(self._low)), math.ceil(math.log10(self._high)) + 1)
            for digits in ((1, 2, 5), (1, 3), (1,)):
                found = [digit * 10.0 ** exponent for exponent in exponents for digit in digits]
                found = [value for value in found if self._low * 0.999 <= value <= self._high * 1.001]
                if 3 <= len(found) <= most + 1:
                    return found
            if len(found) > most:
                return found[::math.ceil(len(found) / most)]
        step = max(nice_step((self._high - self._low) / most), 1.0 if whole else 0.0)
        first, last = math.ceil(self._low / step - 1e-9), math.floor(self._high / step + 1e-9)
        return [float(f"{index * step:.12g}") for index in range(first, last + 1)]


def nice_step(least):
    """The smallest value of 1, 2 or 5 times a power of ten that is not below `least`."""
    if least <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(least))
    return next(digit * power for digit in (1, 2, 5, 10, 20) if digit * power >= least * 0.999)


def widened(values, log, bounds=(-math.inf, math.inf)):
    """The ends of an axis for the values, with a margin."""
    low, high = min(values), max(values)
    if log:
        margin = max((high / low) ** 0.05, 1.02)
        return low / margin, high * margin
    margin = 0.06 * (high - low) or 0.05 * abs(high) or 1.0
    return max(low - margin, min(bounds[0], low)), min(high + margin, max(bounds[1], high))


def swatch(shape, dashed=False):
    """The sample in a legend: a line with the marker of its curve, or a box if `shape` is "box"."""
    if shape == "box":
        return element("rect", x=5, y=1, width=16, height=10, class_="bar")
    line = element("path", d="M0,6H26", class_="curve dashed" if dashed else "curve")
    return element("g", line, element("path", d=marker(shape, 13, 6), class_="marker") if shape else None)


def thinned(points, most=MOST_POINTS):
    """At most `most` points: the smallest and the largest value of each interval, so that no peak is lost."""
    if len(points) <= most:
        return points
    length, kept = math.ceil(2 * len(points) / most), []
    for begin in range(0, len(points), length):
        part = points[begin:begin + length]
        kept += sorted({min(part, key=lambda point: point[1]), max(part, key=lambda point: point[1])})
    return kept


class Curve:
    """Points (step, value) and their style: `colour` is a class, `marker` is o, s, t, d or empty."""

    def __init__(self, label, points, colour, faint=(), marker="", dashed=False):
        self.label, self.points, self.colour, self.faint = label, points, colour, faint
        self.marker = marker or ("o" if len(points) == 1 else "")
        self.dashed = dashed


def marker(shape, x, y, size=4.0):
    """The path of a marker: shapes differ so that curves can be told apart without colours."""
    s = size
    shapes = {"o": f"M{x - s},{y}a{s},{s} 0 1,0 {2 * s},0a{s},{s} 0 1,0 {-2 * s},0z",
              "s": f"M{x - s + .5:.1f},{y - s + .5:.1f}h{2 * s - 1}v{2 * s - 1}h{1 - 2 * s}z",
              "t": f"M{x},{y - s - .5:.1f}l{s + .5},{2 * s}h{-2 * s - 1}z",
              "d": f"M{x},{y - s - 1:.1f}l{s + 1},{s + 1}l{-s - 1},{s + 1}l{-s - 1},{-s - 1}z"}
    return shapes[shape]


def path_of(points, x, y):
    return "M" + "L".join(f"{x(a)},{y(b)}" for a, b in points)


def drawn(curve, x, y):
    parts = []
    if len(curve.faint) > 1:
        parts.append(element("path", d=path_of(thinned(curve.faint), x, y), class_="faint"))
    points = thinned(curve.points)
    if len(points) > 1:
        parts.append(element("path", d=path_of(points, x, y), class_="curve dashed" if curve.dashed else "curve"))
    if curve.marker and len(points) <= 60:
        shapes = "".join(marker(curve.marker, x(a), y(b)) for a, b in points)
        parts.append(element("path", d=shapes, class_="marker"))
    return element("g", *parts, class_=curve.colour)


def bands(curves, x, bottom, text, axis):
    """Areas that show a line and the values of all curves at the place under the pointer."""
    values = {}
    for curve in curves:
        for place, value in curve.faint or curve.points:
            values.setdefault(place, []).append(f"{curve.label}: {text(value)}")
    places = sorted(values)
    places = sorted({*places[::math.ceil(len(places) / MOST_BANDS)], places[-1]})
    pixels = [x(place) for place in places]
    edges = [pixels[0] - 8, *((a + b) / 2 for a, b in zip(pixels, pixels[1:])), pixels[-1] + 8]
    for place, pixel, begin, end in zip(places, pixels, edges, edges[1:]):
        title = "\n".join([f"{axis} {place}", *values[place]])
        yield element("g", element("title", title),
                      element("rect", x=f"{begin:.1f}", y=TOP, width=f"{end - begin:.1f}", height=bottom - TOP),
                      element("path", d=f"M{pixel},{TOP}V{bottom}"), class_="band")


def frame(height, label, *children):
    return element("div", element("svg", *children, viewBox=f"0 0 {WIDTH} {height}", role="img", aria_label=label),
                   class_="chart")


def grid_x(x, top, bottom, text, name, left=LEFT, whole=False):
    """Vertical lines with their values below them, and the name of the axis to the left of these."""
    for value in x.ticks(8, whole):
        yield element("path", d=f"M{x(value)},{top}V{bottom}", class_="grid")
        yield element("text", text(value), x=x(value), y=bottom + 18, text_anchor="middle")
    if name:
        yield element("text", name, x=left - 18, y=bottom + 18, text_anchor="end", class_="axis")


def grid_y(y, left, right, text, most=5):
    """Horizontal lines with their values to the left of them."""
    for value in y.ticks(most):
        yield element("path", d=f"M{left},{y(value)}H{right}", class_="grid")
        yield element("text", text(value), x=left - 8, y=y(value) + 4, text_anchor="end")


def line_chart(curves, label, *, last, text, height=280, log=False, bounds=(-math.inf, math.inf), from_zero=False,
               tick=lambda value: f"{value:.4g}", marks=(), axis="step"):
    """Curves over `axis`, the steps of a run, from 0 to `last`; `marks` lists (step, text) of vertical lines."""
    points = [point for curve in curves for point in [*curve.points, *curve.faint]]
    low, high = widened([value for _, value in points], log, bounds)
    bottom = height - BOTTOM
    x = Scale(0, max(last, 1), LEFT, WIDTH - RIGHT - 6)
    y = Scale(0.0 if from_zero and low > 0 else low, high, bottom, TOP, log)
    parts = [*grid_x(x, TOP, bottom, grouped, axis, whole=True), *grid_y(y, LEFT, WIDTH - RIGHT, tick)]
    parts.append(element("path", d=f"M{LEFT},{TOP}V{bottom}H{WIDTH - RIGHT}", class_="frame"))
    for step, name in marks:
        parts.append(element("path", d=f"M{x(step)},{TOP}V{bottom}", class_="mark"))
        parts.append(element("text", name, x=x(step) + 5, y=TOP + 12, class_="axis"))
    parts += [drawn(curve, x, y) for curve in curves]
    parts += bands(curves, x, bottom, text, axis)
    return frame(height, label, *parts)


def bar_chart(rows, label, text, name_width=90):
    """Stacked bars: rows of (name, [(class, value, title), ...], text at the end)."""
    most = max((sum(value for _, value, _ in segments) for _, segments, _ in rows), default=0) or 1
    x, step, parts = Scale(0, most, name_width, WIDTH - 120), 26, []
    bottom = TOP + step * len(rows)
    parts += grid_x(x, TOP, bottom, text, "")
    for index, (name, segments, end) in enumerate(rows):
        top, sum_before = TOP + step * index + 4, 0.0
        parts.append(element("text", name, x=name_width - 10, y=top + 13, text_anchor="end"))
        for colour, value, title in segments:
            begin, finish = x(sum_before), x(sum_before + value)
            parts.append(element("rect", element("title", title), x=begin, y=top, height=18,
                                 width=round(max(finish - begin, 0.0), 1), class_=f"bar {colour}"))
            sum_before += value
        parts.append(element("text", end, x=x(sum_before) + 7, y=top + 13, class_="end"))
    parts.append(element("path", d=f"M{name_width},{TOP}V{bottom}", class_="frame"))
    return frame(bottom + BOTTOM, label, *parts)


def share_bar(colour, value, most):
    """A bar for a table cell, with a width in proportion to the largest value."""
    width = round(100 * value / most, 2) if most > 0 else 0
    bar = element("rect", x=0, y=1, width=f"{width}%", height=12, class_=f"bar {colour}")
    return element("svg", bar, class_="share", aria_hidden="true")


def gantt_chart(rows, events, length, label):
    """Operations (row, class, text inside, title, start, duration) in milliseconds, one line per row."""
    left = 40 + 6.6 * max(len(name) for name in rows)
    x, step, parts = Scale(0, length, left, WIDTH - RIGHT - 6), 30 if len(rows) <= 16 else 20, []
    bottom = TOP + step * len(rows)
    parts += grid_x(x, TOP, bottom, lambda value: f"{value:.6g}", "ms", left)
    for index, name in enumerate(rows):
        parts.append(element("text", name, x=left - 10, y=TOP + step * index + step // 2 + 4, text_anchor="end"))
    for row, colour, inside, title, begin, time in events:
        top, start, finish = TOP + step * row + 3, x(begin), x(begin + time)
        width = round(max(finish - start, 0.6), 1)
        parts.append(element("rect", element("title", title), x=start, y=top, width=width, height=step - 6,
                             class_=f"bar {colour}"))
        if inside and width > 7 * len(inside) + 3:
            parts.append(element("text", inside, x=round(start + width / 2, 1), y=top + step // 2 + 1,
                                 text_anchor="middle", class_=f"inside {colour}"))
    parts.append(element("path", d=f"M{left},{TOP}V{bottom}H{WIDTH - RIGHT}", class_="frame"))
    return frame(bottom + BOTTOM, label, *parts)
