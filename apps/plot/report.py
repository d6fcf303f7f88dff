#!/usr/bin/env python3
"""Writes a report of one run: an HTML page that any browser shows without another file and without a network.

Reads deck.toml, history.csv, summary.json and trace.json of RUNDIR, which `partita train DECK -d RUNDIR` writes. Shows
the result, the curves of the training, the partition and its memory, time, prediction, traffic, the schedule of a
traced pipeline, and the settings. A run that is still going or was stopped gets a report of what there is so far."""

import argparse
import os
import re
import sys

from output_files import refuse_inputs, refuse_others, write
from report_cost import partition_section, schedule_section, time_section, traffic_section
from report_curves import curves_section, result_of_history
from report_forecast import Predictions, forecast_section, scaling_section
from report_html import (Markup, duration, element, grouped, join, number, percent, plural, scaled, section,
                         significant, table)
from run_files import Deck, History, RunError, Summary, Trace, deck_defaults

MARK = "<!DOCTYPE html>\n<!-- A report of Partita -->\n"
INPUTS = ("deck.toml", "history.csv", "summary.json", "trace.json")
POLICY = "default-src 'none'; style-src 'unsafe-inline'"  # the browser runs no script and loads nothing


class Run:
    """What is known about a run. A file that is absent or damaged is None; `notes` is for the reader of the page."""

    def __init__(self, folder, predictions=None):
        self.predictions = Predictions(predictions) if predictions else None
        if not os.path.isdir(folder):
            raise RunError(f"{folder}: no such run directory")
        self.folder, self.name = folder, os.path.basename(os.path.abspath(folder))
        self.notes = []
        self.deck = self._read("deck.toml", Deck, folder)
        self.summary = self._read("summary.json", Summary, folder)
        self.history = self._read("history.csv", History, folder)
        self.trace = self._read("trace.json", Trace, os.path.join(folder, "trace.json"))
        if not (self.deck or self.summary or self.history):
            raise RunError(self.notes[0] if self.notes else
                           f"{folder}: has no files of a run; name the folder given to `partita train -d`")
        self._note_what_is_missing()

    def _read(self, name, reader, path):
        if not os.path.lexists(os.path.join(self.folder, name)):
            return None
        try:
            return reader(path)
        except RunError as error:
            self.notes.append(str(error))
            return None

    def _note_what_is_missing(self):
        if self.summary is None and not any("summary.json" in note for note in self.notes):
            begun = f" after step {grouped(self.history.last_step())}" if self.history else ""
            self.notes.insert(0, f"This run has not finished{begun}: it is still running, or was stopped. Result, "
                              "partition, memory and traffic are known when it has finished." + self._way_on())
        if self.history and self.history.fault:
            self.notes.append(f"{self.history.fault}; the curves end there")
        elif self.history is None and not any("history.csv" in note for note in self.notes):
            self.notes.append("There is no history.csv, so there are no curves.")
        if self.history:
            for stage, points in self.history.loss.items():
                step = next((step for step, value in points if not abs(value) < float("inf")), None)
                if step is not None:
                    where = "the joined network" if stage == "joined" else f"stage {stage}"
                    self.notes.append(f"The loss of {where} is not finite at step {grouped(step)}.")
        aside = sorted(name for name in os.listdir(self.folder) if ".superseded" in name)
        if aside:
            self.notes.append(f"Files set aside from an earlier state of the run: {', '.join(aside[:6])}"
                              + (f" and {len(aside) - 6} more" if len(aside) > 6 else ""))

    def _way_on(self):
        """The newest checkpoint of a run that may have been stopped."""
        folder = os.path.join(self.folder, "checkpoints")
        names = os.listdir(folder) if os.path.isdir(folder) else []
        steps = [int(found[1]) for name in names if (found := re.fullmatch(r"step-([0-9]{9,15})\.h5", name))]
        if not steps:
            return ""
        return f" Its newest checkpoint is that of step {grouped(max(steps))}; -r latest continues from there."

    def number(self, key):
        return self.summary.number(key) if self.summary else None

    def has(self, key):
        return self.number(key) is not None

    def shown(self, key, text):
        return number(self.number(key), text, key)


def result_tiles(run):
    """(name, number, explanation), the most important one first."""
    if run.summary is None:
        tiles = result_of_history(run) if run.history else []
        if run.history:
            tiles.append(("Time so far", number(run.history.seconds, duration), "up to the last row of the history"))
        return tiles
    perplexity = run.has("test_perplexity")
    accuracy = ("Test accuracy", run.shown("test_accuracy", percent), "of tokens" if perplexity else "joined network")
    loss = ("Test loss", run.shown("test_loss", significant), "joined network")
    first = [("Test perplexity", run.shown("test_perplexity", significant), "exp(loss)"), loss, accuracy] \
        if perplexity else [accuracy, loss]
    grid = [run.number(f"grid.{name}") for name in ("stages", "replicas")]
    parts = run.number("grid.parts") or 1
    about = f"{plural(int(grid[0]), 'stage')} \u00d7 {plural(int(grid[1]), 'replica')}" if None not in grid else ""
    if about and parts > 1:
        about += f" \u00d7 {int(parts)} parts"
    return [*first, ("Training time", run.shown("train_seconds", duration), "without evaluations"),
            ("Throughput", run.shown("samples_per_second", scaled), "samples per second"),
            ("Ranks", run.shown("grid.ranks", grouped), about),
            ("Parameters", run.shown("parameters", scaled), "whole network")]


def facts(run):
    """What the strategy says about itself: the texts between its name and the seed."""
    keys = list(run.summary.values)
    end = keys.index("seed") if "seed" in keys else 0
    return [f"{key} {run.summary.text(key)}" for key in keys[:end] if key != "strategy" and run.summary.text(key)]


def description(run):
    """One line that says what was run."""
    if run.summary is None:
        kind = run.deck.value("strategy", "kind") if run.deck else None
        return [f"strategy {kind}"] if isinstance(kind, str) else []
    data = run.deck.value("data", "kind") if run.deck else None
    parts = [run.summary.text("strategy"), *facts(run), f"data {data}" if isinstance(data, str) else ""]
    for key, word in (("epochs", "epoch"), ("steps", "step"), ("recovery_epochs", "epoch")):
        value = run.number(key)
        if value:
            count = grouped(value) if value == int(value) else f"{value:.3g}"
            parts.append(f"{count} {word}{'' if value == 1 else 's'}" + (" of recovery" if key[0] == "r" else ""))
    if run.has("seed"):
        parts.append(f"seed {run.number('seed')}")
    return [part for part in parts if part]


def machine_line(run):
    if run.summary is None:
        return None
    of = {name: run.summary.text(f"provenance.{name}") for name in ("version", "git", "precision", "host", "devices")}
    version = f"Partita {of['version']}" + (f" ({of['git']})" if of["git"] else "") if of["version"] else ""
    place = of["devices"] + (f", {of['host']}" if of["host"] else "")
    return element("p", " \u00b7 ".join(part for part in (version, of["precision"], place) if part), class_="quiet")


def header(run):
    state = element("span", "finished", class_="state") if run.summary else \
        element("span", "not finished", class_="state open")
    tiles = [element("div", element("dt", name), element("dd", value), element("dd", about, class_="about"))
             for name, value, about in result_tiles(run)]
    return element("header", element("p", "Training report", state, class_="over"), element("h1", run.name),
                   element("p", " \u00b7 ".join(description(run))), machine_line(run),
                   element("dl", *tiles, class_="tiles") if tiles else None)


def notes_section(run):
    warnings = [warning for index in range(run.summary.length("warnings") if run.summary else 0)
                if (warning := run.summary.text(f"warnings.{index}"))]
    if not run.notes and not warnings:
        return None
    lines = [*(element("li", note) for note in run.notes),
             *(element("li", element("b", "Warning: "), warning) for warning in warnings)]
    return element("aside", element("h2", "Notes", id="notes"), element("ul", *lines), aria_labelledby="notes")


def settings_section(run):
    """The keys that differ from their defaults, then the whole deck."""
    if run.deck is None:
        return None
    defaults = deck_defaults()
    changed = [entry for entry in run.deck.entries if defaults.get(entry[:2]) != entry[2]]
    rows = []
    for place, key, value, comment in changed:
        unit, meaning = re.fullmatch(r"(?:\[([^]]*)\] )?(.*)", comment).groups()
        default = defaults.get((place, key))
        rows.append([f"{place}/{key}", join([element("code", value), f" {unit}" if unit else ""]),
                     element("code", default) if default else "\u2013", meaning])
    parts = [table("What differs from the defaults", ["key", "value", "default", "meaning"], rows, texts=range(4))] \
        if defaults else [element("p", "Defaults are unknown here: deck-reference.md is not next to the script.",
                                  class_="quiet")]
    whole = element("details", element("summary", f"The effective deck, {len(run.deck.entries)} keys"),
                    element("pre", element("code", run.deck.text), tabindex="0"))
    return section("settings", "Settings", *parts, whole)


def machine_section(run):
    provenance = run.summary.find("provenance") if run.summary else None
    if not isinstance(provenance, dict) or not provenance:
        return None
    rows = [[name.replace("_", " "), element("code", value)] for name, value in provenance.items()]
    hashed = run.summary.text("parameters_hash")
    rows += [["parameters hash", element("code", hashed)]] if hashed else []
    return section("machine", "Software and machine",
                   table("Where and with what it was run", ["what", "value"], rows, texts=(0, 1)))


SECTIONS = (("curves", "Curves", curves_section), ("partition", "Partition", partition_section),
            ("time", "Time", time_section), ("prediction", "Prediction", forecast_section),
            ("scaling", "Scaling", lambda run: scaling_section(run.predictions)),
            ("traffic", "Traffic", traffic_section),
            ("schedule", "Schedule", schedule_section), ("settings", "Settings", settings_section),
            ("machine", "Machine", machine_section))


def page(run):
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "report.css"), encoding="utf-8") as file:
        style = Markup(file.read())
    found = [(identity, name, content) for identity, name, draw in SECTIONS if (content := draw(run)) is not None]
    links = element("nav", *(element("a", name, href=f"#{identity}") for identity, name, _ in found),
                    aria_label="Sections")
    used = [name for name in INPUTS if os.path.isfile(os.path.join(run.folder, name))]
    footer = element("footer", f"Written by Partita's report.py from {', '.join(used)} of {run.name}.")
    head = element("head", element("meta", charset="utf-8"),
                   element("meta", http_equiv="Content-Security-Policy", content=POLICY),
                   element("meta", name="viewport", content="width=device-width, initial-scale=1"),
                   element("meta", name="color-scheme", content="light dark"),
                   element("title", f"{run.name}: training report"), element("style", style))
    body = element("body", header(run), links, element("main", notes_section(run), *(part for _, _, part in found)),
                   footer)
    return MARK + join(["\n", element("html", head, body, lang="en"), "\n"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", metavar="RUNDIR", help="folder of a run")
    parser.add_argument("-o", "--output", metavar="FILE", help="page to write (default: RUNDIR/report.html)")
    parser.add_argument("--predictions", metavar="FILE", help="list that `partita plan predict --json` wrote: adds the "
                        "predicted scaling")
    parser.add_argument("--overwrite", action="store_true", help="replace FILE even if it is not a report")
    arguments = parser.parse_args()
    output = arguments.output or os.path.join(arguments.run, "report.html")
    try:
        run = Run(arguments.run, arguments.predictions)
        refuse_inputs(output, [arguments.run], [arguments.predictions] if arguments.predictions else [])
        if not arguments.overwrite:
            refuse_others(output, MARK, "report")
        write(page(run).encode("utf-8", "replace"), output)
    except RunError as error:
        sys.exit(f"report.py: {error}")
    except OSError as error:
        sys.exit(f"report.py: {error.filename or output}: {(error.strerror or str(error)).lower()}")


if __name__ == "__main__":
    main()
