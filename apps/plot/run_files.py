"""Readers of the files in a run directory, for all scripts that draw them.

They need the standard library only. No file is trusted: a damaged one raises RunError with one clear line, or is read
up to the damage, which `fault` then describes."""

import csv
import json
import math
import os
import re
import sys

STAGE_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C6D31", "#7F7F7F")
COLUMNS = ("stage", "run_step", "loss", "learning_rate", "event", "accuracy")
MOST_DECK_BYTES = 1 << 20
MOST_STEPS = 1 << 53  # exact as floating-point numbers
STAGE = re.compile("joined|[0-9]{1,9}")
ENTRY = re.compile(r'^\[(\w+)\]$|^(\w+) = ((?:"(?:[^"\\\n]|\\.)*"|[^"#])*?) *# ?([^\n]*)$', re.MULTILINE)
TOML_TOKEN = re.compile(r'("(?:[^"\\]|\\.)*")|([A-Za-z_][\w-]*)\s*=|(,)(?=\s*[\]}])')
DEFAULT = re.compile(r"^## \[(\w+)\]$|^\| `(\w+)` \| [^|]* \| (?:`([^|]*)`)? *\|", re.MULTILINE)


class RunError(Exception):
    """What is wrong with a file, in one line."""


def open_text(path):
    """Opens a regular file as text; bytes that are not UTF-8 become replacement characters."""
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            raise RunError(f"{path}: is not a regular file")
        return open(path, newline="", encoding="utf-8", errors="replace")
    except OSError as error:
        raise RunError(f"{path}: {error.strerror.lower()}") from None


def print_name(path):
    """Prints a path, even one that is not UTF-8."""
    if sys.stdout is None:  # closed
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(os.fsencode(path) + b"\n")
    sys.stdout.flush()


def whole_lines(file):
    """Without an incomplete last line, which may be being written."""
    return (line for line in file if line.endswith("\n"))


def read_json(path):
    with open_text(path) as file:
        try:
            return json.loads(file.read())
        except (ValueError, RecursionError):
            raise RunError(f"{path}: is damaged: not JSON") from None


def table_rows(path):
    """The rows of a CSV file with a header, as dictionaries; a damaged or unfinished end is left out."""
    rows = []
    with open_text(path) as file:
        try:
            for row in csv.DictReader(whole_lines(file)):
                rows.append(row)
        except csv.Error:
            pass
    return rows


def numbers(rows, *columns):
    """Points of these columns. Rows without a finite number in each, as a killed run may leave, are skipped."""
    points = []
    for row in rows:
        try:
            point = tuple(float(row[column]) for column in columns)
        except (KeyError, TypeError, ValueError):
            continue
        if all(math.isfinite(value) for value in point):
            points.append(point)
    return points


def stage_colour(stage):
    return STAGE_COLOURS[(int(stage) - 1) % len(STAGE_COLOURS)]


def in_order(curves):
    """Stages by number, the joined network last."""
    return sorted(curves.items(), key=lambda item: (not item[0].isdigit(), len(item[0]), item[0]))


def smooth(values, window):
    """The running mean over the last `window` values. A sum that slides along would keep the rounding of a peak."""
    ends = range(1, len(values) + 1)
    return [math.fsum(values[max(0, end - window):end]) / min(end, window) for end in ends]


class History:
    """history.csv: points (step of the run, value) by stage, and of the joined network where it was evaluated."""

    def __init__(self, folder):
        self.name = os.path.basename(os.path.abspath(folder))
        self.path = os.path.join(folder, "history.csv")
        self.loss, self.rate, self.speed, self.accuracy, self.evaluated_loss = {}, {}, {}, {}, {}
        self.epochs = {}  # step of the run -> epoch of the evaluation there
        self.seconds = 0.0
        self.fault = ""
        with open_text(self.path) as file:
            self._read(csv.DictReader(whole_lines(file)))
        if set(self.loss) == {"1"} and set(self.accuracy) == {"joined"}:  # a network of one stage
            for curves in (self.loss, self.rate, self.speed):
                curves["joined"] = curves.pop("1", [])
        if not self.loss and not self.accuracy:
            raise RunError(self.fault or f"{self.path}: no rows yet")

    def _read(self, rows):
        try:
            names = rows.fieldnames
        except csv.Error:
            raise RunError(f"{self.path}:1: not a line of names of columns") from None
        missing = [name for name in COLUMNS if name not in (names or [])]
        if missing and names is None:
            return
        if missing:
            raise RunError(f"{self.path}: no column {', '.join(missing)}; is this a history that partita wrote?")
        try:
            for row in rows:
                self._add(row)
        except (TypeError, ValueError, csv.Error):
            self.fault = f"{self.path}:{rows.line_num}: not a complete row"

    def _add(self, row):
        step, stage, seconds = int(row["run_step"]), row["stage"], float(row.get("time_s") or 0.0)
        if not (STAGE.fullmatch(stage) and 0 <= step < MOST_STEPS and 0 <= seconds < 1e12):
            raise ValueError
        evaluation = row["event"] == "evaluation"
        wanted = [("loss", self.evaluated_loss), ("accuracy", self.accuracy)] if evaluation else \
            [("loss", self.loss), ("learning_rate", self.rate), ("samples_per_second", self.speed)]
        skipped = not evaluation and row["loss"] == ""  # no step since the last row counted
        # With exits, the accuracy is that of the sum up to the stage; the curve of a stage is its own.
        own = "accuracy_alone" if stage != "joined" and row.get("accuracy_alone") else "accuracy"
        points = [(curves, float(row[own if name == "accuracy" else name])) for name, curves in wanted
                  if name in row and not (skipped and name == "loss")]
        for curves, value in points:
            curves.setdefault(stage, []).append((step, value))
        if evaluation:
            self.epochs[step] = row.get("epoch") or ""
        self.seconds = max(self.seconds, seconds)

    def last_step(self):
        return max(points[-1][0] for curves in (self.loss, self.accuracy) for points in curves.values())

    def recovery(self):
        """The step after which the joined network was trained, in a run that had trained its stages; or None."""
        if "joined" not in self.loss or len(self.loss) < 2:
            return None
        begin = self.loss["joined"][0][0]
        earlier = [step for stage, points in self.loss.items() if stage != "joined" for step, _ in points]
        return max((step for step in earlier if step < begin), default=None)


class Summary:
    """summary.json. A value that is absent, or has a type other than expected, is None or empty."""

    def __init__(self, folder):
        path = os.path.join(folder, "summary.json")
        self.values = read_json(path)
        if not isinstance(self.values, dict) or not isinstance(self.values.get("strategy"), str):
            raise RunError(f"{path}: is not the summary of a run")

    def find(self, key):
        """The value at a path such as `grid.ranks` or `partition.0.rank`."""
        value = self.values
        for part in key.split("."):
            if isinstance(value, list) and part.isdigit() and int(part) < len(value):
                value = value[int(part)]
            else:
                value = value.get(part) if isinstance(value, dict) else None
        return value

    def number(self, key):
        value = self.find(key)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or abs(value) > 1e300 or math.isnan(value):
            return None
        return value

    def text(self, key):
        value = self.find(key)
        return value if isinstance(value, str) else ""

    def length(self, key):
        value = self.find(key)
        return len(value) if isinstance(value, list) else 0


def toml_value(text):
    """The value of a text in the effective deck; None if it is not a value."""
    def as_json(token):
        return token[1] or (f'"{token[2]}":' if token[2] else "")

    try:
        return json.loads(TOML_TOKEN.sub(as_json, text))
    except (ValueError, RecursionError):
        return None


class Deck:
    """deck.toml, the effective deck: `entries` lists (section, key, value, meaning) as texts."""

    def __init__(self, folder):
        self.path = os.path.join(folder, "deck.toml")
        with open_text(self.path) as file:
            self.text = file.read(MOST_DECK_BYTES + 1)
        if len(self.text) > MOST_DECK_BYTES:
            raise RunError(f"{self.path}: is too long for a deck")
        self.entries, section = [], ""
        for found in ENTRY.finditer(self.text):
            if found[1]:
                section = found[1]
            else:
                self.entries.append((section, found[2], found[3], found[4]))
        if not self.entries:
            raise RunError(f"{self.path}: is not the effective deck of a run")
        self._values = {(section, key): value for section, key, value, _ in self.entries}

    def value(self, section, key):
        return toml_value(self._values.get((section, key), ""))

    def layers(self):
        """(first, end, table) of each entry of the network, with repeats counted as `strategy/cuts` does."""
        found, index, layers = [], 0, self.value("network", "layers")
        for layer in layers if isinstance(layers, list) else []:
            repeat = layer.get("repeat", 1) if isinstance(layer, dict) else None
            if not isinstance(repeat, int) or repeat < 1:
                return []
            found.append((index, index + repeat, layer))
            index += repeat
        return found


def deck_defaults():
    """(section, key) -> default as a deck writes it, from the deck reference; empty if that is not found."""
    here = os.path.dirname(os.path.abspath(__file__))
    for folder in (here, os.path.join(here, "..", "..", "docs")):
        path = os.path.join(folder, "deck-reference.md")
        if os.path.isfile(path):
            break
    else:
        return {}
    defaults, section = {}, ""
    with open_text(path) as file:
        for found in DEFAULT.finditer(file.read().split("\n## Layers\n")[0]):
            section = found[1] or section
            if found[2]:
                defaults[section, found[2]] = found[3] or ""
    return defaults


class Trace:
    """trace.json: `rows` lists (replica, rank), `events` (row, kind, name, start in ms, duration in ms)."""

    def __init__(self, path):
        with open_text(path) as file:
            try:
                events = [event for event in json.loads(file.read())["traceEvents"] if event["ph"] == "X"]
                places = [(int(event["pid"]), int(event["tid"])) for event in events]
                times = [(float(event["ts"]) / 1e3, float(event["dur"]) / 1e3) for event in events]
                names = [(str(event["cat"]), str(event["name"])) for event in events]
            except (ValueError, TypeError, KeyError, RecursionError, OverflowError):
                raise RunError(f"{path}: is damaged: not a trace of a run") from None
        if not events:
            raise RunError(f"{path}: has no operations")
        if not all(math.isfinite(time) and 0 <= time < 1e15 for pair in times for time in pair):
            raise RunError(f"{path}: is damaged: a time is out of range")
        self.rows = sorted(set(places))
        row = {place: index for index, place in enumerate(self.rows)}
        start = min(begin for begin, _ in times)
        self.events = sorted((row[place], what, name, begin - start, duration)
                             for place, (what, name), (begin, duration) in zip(places, names, times))

    def length(self):
        """Milliseconds from the start of the first operation to the end of the last one."""
        return max(begin + duration for _, _, _, begin, duration in self.events)

    def label(self, row):
        replica, rank = self.rows[row]
        return f"rank {rank}" if len({pid for pid, _ in self.rows}) == 1 else f"replica {replica}, rank {rank}"
