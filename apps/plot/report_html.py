"""HTML elements, and numbers as people read them.

`element` is the only way to make markup. It escapes all other text, so that nothing from a deck, a name or a host can
become markup."""

import html
import math
import re

CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
VOID = ("meta",)
PREFIXES = ("", "k", "M", "G", "T", "P")
MOST_ROWS = 16  # of a table that stays open
NO_BREAK = "\u00a0"


class Markup(str):
    """Text that is markup already."""


def escaped(value):
    if isinstance(value, Markup):
        return value
    return html.escape(CONTROL.sub("\ufffd", str(value)))


def join(parts):
    return Markup("".join(escaped(part) for part in parts))


def element(name, /, *children, **attributes):
    """<name attributes>children</name>; `class_` stands for class, `data_x` for data-x. None is left out."""
    text = "".join(f' {key.rstrip("_").replace("_", "-")}="{escaped(value)}"'
                   for key, value in attributes.items() if value is not None)
    if name in VOID:
        return Markup(f"<{name}{text}>")
    return Markup(f"<{name}{text}>{join(child for child in children if child is not None)}</{name}>")


def scaled(value, unit=""):
    """Three significant digits and a decimal prefix, as the program prints them: 476 k, 27.0 kB."""
    prefix = 0
    while abs(value) >= 999.5 and prefix + 1 < len(PREFIXES):
        value /= 1000.0
        prefix += 1
    whole = prefix == 0 and value == math.floor(value)
    digits = 0 if whole else 2 if abs(value) < 9.995 else 1 if abs(value) < 99.95 else 0
    end = PREFIXES[prefix] + unit
    return f"{value:.{digits}f}" + (NO_BREAK + end if end else "")


def brief(value, unit=""):
    """As `scaled`, without trailing zeros, for axes: 2 MB."""
    text, _, end = scaled(value, unit).partition(NO_BREAK)
    return f"{float(text):g}" + (NO_BREAK + end if end else "")


def grouped(value):
    """12 345: a count with all its digits, up to a million."""
    return f"{value:,.0f}".replace(",", "\u202f") if abs(value) < 1e6 else brief(value)


def size(value):
    return scaled(value, "B")


def duration(seconds):
    """1:02:03, 4:05, 12.3 s or 850 ms."""
    if seconds < 0.9995:
        return f"{1e3 * seconds:.3g}{NO_BREAK}ms"
    if seconds < 59.95:
        return f"{seconds:.3g}{NO_BREAK}s"
    whole = round(seconds)
    return f"{whole // 60}:{whole % 60:02}" if whole < 3600 else \
        f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"


def percent(fraction):
    return f"{100 * fraction:.2f}{NO_BREAK}%"


def significant(value):
    return f"{value:.4g}"


def number(value, text=scaled, key=None):
    """A number as it is shown, and in `value` as it is in the file; `key` is its place in summary.json."""
    if value is None or not math.isfinite(value):
        return element("span", "\u2013", class_="none")
    return element("data", text(value), value=repr(value), data_key=key)


def table(caption, heads, rows, foot=None, texts=(0,), folded=None):
    """A table whose columns are numbers except for `texts`; the first cell of a row is its head. With `folded`, a long
    table is shown after a click on that text."""
    def kind(column):
        return "text" if column in texts else None

    def line(cells):
        first = element("th", cells[0], scope="row", class_=kind(0))
        return element("tr", first, *(element("td", cell, class_=kind(i + 1)) for i, cell in enumerate(cells[1:])))

    head = element("tr", *(element("th", text, scope="col", class_=kind(i)) for i, text in enumerate(heads)))
    body = element("table", element("caption", caption), element("thead", head),
                   element("tbody", *(line(row) for row in rows)),
                   element("tfoot", line(foot)) if foot else None)
    scroll = element("div", body, class_="scroll", tabindex="0", role="group", aria_label=caption)
    if folded is None or len(rows) <= MOST_ROWS:
        return scroll
    return element("details", element("summary", folded), scroll)


def legend(entries):
    """The legend above a chart, of (colour, shape, text, last value or None)."""
    def line(colour, shape, text, last):
        swatch = element("svg", shape, viewBox="0 0 26 12", aria_hidden="true")
        return element("li", swatch, element("span", text), last, class_=colour)

    return element("ul", *(line(*entry) for entry in entries), class_="legend")


def section(identity, heading, *children):
    return element("section", element("h2", heading, id=identity), *children, aria_labelledby=identity)


def plural(count, word):
    return f"{count} {word}" + ("" if count == 1 else "s")
