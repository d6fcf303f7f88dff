"""The HTML page of report.py as a test sees it: its tags, tables, figures and numbers."""

import re
from html.parser import HTMLParser

PREFIXES = {"": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "m": 1e-3}


class Page(HTMLParser):
    """The page as a tree of tables, figures and numbers; `faults` is what is wrong with its tags."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.faults, self.tags, self.ids, self.links = [], [], [], [], []
        self.numbers, self.tables, self.figures, self.titles, self.texts = [], [], {}, [], {}
        self.feed(text)
        self.close()
        self.faults += [f"<{tag}> stays open" for tag, _ in self.open]

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        if tag == "meta":
            return
        self.open.append((tag, found))
        self.tags.append(tag)
        self.ids += [found["id"]] if "id" in found else []
        self.links += [found["href"]] if "href" in found else []
        self.faults += [f"<{tag} {name}>" for name in found if name.startswith("on") or name in ("src", "style")]
        self.faults += [f"{name}={value}" for name, value in attributes if value and "//" in value]
        if tag == "th" and "scope" not in found:
            self.faults.append("<th> without a scope")
        if tag == "svg" and not (found.get("aria-label") or found.get("aria-hidden")):
            self.faults.append("<svg> says nothing")
        if tag == "table":
            self.tables.append({"caption": "", "rows": []})
        if tag == "tr":
            self.tables[-1]["rows"].append([])
        if tag in ("th", "td"):
            self.tables[-1]["rows"][-1].append("")
        if tag == "figure":
            key = found.get("data-key", len(self.figures))
            self.figures[key] = {"numbers": [], "titles": [], "paths": [], "ticks": []}
        if tag == "data":
            self.numbers.append([found.get("data-key"), found["value"], ""])
        if tag == "title":
            self.titles.append("")
        if tag == "path" and self.inside("figure"):
            colour = self.open[-2][1].get("class")
            list(self.figures.values())[-1]["paths"].append((colour, found.get("class"), found["d"]))

    def handle_endtag(self, tag):
        if not self.open or self.open[-1][0] != tag:
            self.faults.append(f"</{tag}> ends {self.open[-1:]}")
            return
        _, attributes = self.open.pop()
        figure = list(self.figures.values())[-1] if self.inside("figure") else None
        if figure and tag == "data":
            figure["numbers"].append(self.numbers[-1])
        if figure and tag == "title":
            figure["titles"].append(self.titles[-1])
        if figure and tag == "text":
            figure["ticks"].append((attributes.get("x"), attributes.get("y"), self.texts.get("text", "")))
        self.texts[f"all {tag}"] = [*self.texts.get(f"all {tag}", []), self.texts.pop(tag, "")]

    def handle_data(self, data):
        for tag in {tag for tag, _ in self.open}:
            self.texts[tag] = self.texts.get(tag, "") + data
        if self.inside("data"):
            self.numbers[-1][2] += data
        if self.inside("title"):
            self.titles[-1] += data
        if self.inside("caption"):
            self.tables[-1]["caption"] += data
        if self.inside("th") or self.inside("td"):
            self.tables[-1]["rows"][-1][-1] += data

    def inside(self, tag):
        return any(name == tag for name, _ in self.open)

    def table(self, caption):
        return next(table["rows"] for table in self.tables if table["caption"].startswith(caption))


def read_number(text):
    """(value, the largest error that rounding can have made) of a number as the page shows it."""
    text = text.replace("\u00a0", " ").replace("\u202f", "")
    if ":" in text:
        value = 0
        for part in text.split(":"):
            value = 60 * value + int(part)
        return value, 0.5
    found = re.fullmatch(r"(-?[0-9]+)(?:\.([0-9]+))?(?:e([-+][0-9]+))? ?([kMGTm]?)(%|B/s|B|s|)", text)
    if not found:
        raise ValueError(text)
    factor = PREFIXES[found[4]] * (0.01 if found[5] == "%" else 1) * 10.0 ** int(found[3] or 0)
    return float(f"{found[1]}.{found[2] or 0}") * factor, 0.5001 * factor * 10.0 ** -len(found[2] or "")
