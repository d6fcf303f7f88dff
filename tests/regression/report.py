"""apps/plot/report.py: the page of a run is well formed, needs nothing else, and shows the numbers of the files."""

import csv
import json
import math
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import support
from support import contents, history, train

ROOT = Path(__file__).resolve().parents[2]
PLOT = ROOT / "apps" / "plot"
sys.path[:0] = [str(ROOT / "tests" / "support"), str(PLOT)]
sys.dont_write_bytecode = True
from html_page import Page, read_number  # noqa: E402
from run_files import History  # noqa: E402

os.environ["PYTHONDONTWRITEBYTECODE"] = "1"  # the scripts lie in the sources
TEXT = ('network/layers=[{ type = "embedding", width = 16, positions = true }, { type = "block", repeat = 2, layers = ['
        '{ type = "layer-norm" }, { type = "attention", heads = 2 }] }, { type = "dense" }]')
RUNS = {
    "sil": (2, ("strategy/stages=3", "strategy/cuts=[2,4]", "checkpoint/every=10")),
    "frozen": (1, ("strategy/input=frozen", "strategy/recovery_epochs=1")),
    "joint": (1, ("strategy/kind=joint", "data/validation=0.1")),
    "pipeline": (4, ("strategy/kind=pipeline", "strategy/replicas=2", "strategy/microbatches=4", "run/trace=2")),
    "local-sgd": (2, ("strategy/kind=local-sgd", "strategy/replicas=2")),
    "forecast": (2, ("strategy/kind=joint", "strategy/replicas=2", f"run/cluster={ROOT / 'clusters' / 'abci.toml'}")),
    "text": (1, ("data/kind=grammar", "data/sequence=16", "data/classes=0", TEXT, "strategy/kind=joint")),
}
CHANGED = {"run/seed", "run/epochs", "run/log_every", "data/image_size", "data/classes", "data/samples",
           "data/test_samples", "network/layers", "training/batch", "strategy/kind", "strategy/cuts"}
NASTY = '"><script>alert(1)</script></code></pre></style>&amp;\' # " \\ \x07'


def value_at(values, key):
    for part in key.split("."):
        values = values[int(part)] if isinstance(values, list) else values[part]
    return values


def rows_of(folder):
    """The rows of the history; if the network has one stage, all are rows of the joined network."""
    with (folder / "history.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    alone = {row["stage"] for row in rows} == {"1", "joined"} and \
        all((row["event"] == "evaluation") == (row["stage"] == "joined") for row in rows)
    return [{**row, "stage": "joined" if alone else row["stage"]} for row in rows]


class Reports(support.RunTest):
    def report(self, folder, *options, plot=PLOT):
        return subprocess.run([sys.executable, plot / "report.py", folder, *options], capture_output=True, text=True,
                              timeout=support.HANGS)

    def page(self, folder, *options, plot=PLOT):
        """The page, after the checks that apply to every page."""
        result = self.report(folder, *options, plot=plot)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        text = (folder / "report.html").read_text()
        page = Page(text)
        self.assertEqual(page.faults, [])
        self.assertEqual(len(page.ids), len(set(page.ids)))
        self.assertEqual([link for link in page.links if link[0] != "#" or link[1:] not in page.ids], [])
        self.assertEqual(set(page.tags) & {"script", "link", "img", "iframe", "object", "base", "form", "use"}, set())
        self.assertNotRegex(re.search("<style>(.*?)</style>", text, re.DOTALL)[1], r"url\(|@import|//|<")
        for table in page.tables:
            self.assertEqual(len({len(row) for row in table["rows"]}), 1, table)
        return page

    def refused(self, *arguments):
        result = self.report(*arguments)
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        self.assertRegex(result.stderr, r"\Areport\.py: [^\n]+\n\Z")
        return result.stderr

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="partita-test-")
        cls.addClassCleanup(folder.cleanup)
        cls.finished = Path(folder.name)

    def trained(self, name):
        """A copy of a run that is trained once for all tests."""
        ranks, overrides = RUNS[name]
        if not (self.finished / name).exists():
            train(self.finished / name, self.deck, *overrides, ranks=ranks)
        return Path(shutil.copytree(self.finished / name, self.folder / name))

    def check_numbers(self, page, summary):
        for key, value, text in page.numbers:
            found, error = read_number(text)
            shares = (1, 100) if key is None and text.endswith("%") else (1,)  # the history has percents
            near = [abs(share * found - float(value)) <= share * error for share in shares]
            self.assertTrue(any(near), (key, value, text))
            if key is not None:
                self.assertEqual(float(value), value_at(summary, key), key)

    def check_curves(self, page, folder):
        """Legends end where the history does, the pointer shows its rows, points lie where their values are."""
        rows = rows_of(folder)
        for key, event, column in (("loss", "step", "loss"), ("accuracy", "evaluation", "accuracy"),
                                   ("rate", "step", "learning_rate")):
            values = {(row["stage"], int(row["run_step"])): float(row[column]) for row in rows if row["event"] == event}
            figure, last = page.figures[key], {}
            for (stage, _), value in values.items():
                last[stage] = value
            self.assertLessEqual({float(number[1]) for number in figure["numbers"]}, {*last.values(), *(
                float(row["loss"]) for row in rows if row["event"] == "evaluation")})
            shown = 0
            for title in figure["titles"]:
                step, *lines = title.splitlines()
                for line in lines:
                    name, text = line.rsplit(": ", 1)
                    stage = re.fullmatch(r"(?:stage |stages )?(joined|\d+)(?:, \d+)*(?: network)?", name)
                    if stage:
                        wanted, (found, error) = values[stage[1], int(step.split()[1])], read_number(text)
                        percents = 100 if text.endswith("%") else 1
                        self.assertLessEqual(abs(percents * found - wanted), percents * error + 1e-12)
                        shown += 1
            self.assertGreater(shown, 0)
        self.check_places(page.figures["accuracy"], rows)

    def check_places(self, figure, rows):
        ticks = sorted((float(y) - 4, float(text[:-2])) for _, y, text in figure["ticks"] if text.endswith(" %"))
        (y0, v0), (y1, v1) = ticks[0], ticks[-1]
        wanted = {}
        for row in rows:
            if row["event"] == "evaluation":
                wanted.setdefault(row["stage"], []).append(float(row["accuracy"]))
        curves = [path for _, kind, path in figure["paths"] if kind == "curve" and "H" not in path]  # no swatches
        self.assertEqual(len(curves), len(wanted))
        for path, (_, values) in zip(curves, sorted(wanted.items())):
            found = [v0 + (float(point.split(",")[1]) - y0) * (v1 - v0) / (y1 - y0) for point in path[1:].split("L")]
            self.assertEqual(len(found), len(values))
            self.assertLess(max(abs(a - b) for a, b in zip(found, values)), 0.005 * abs(v1 - v0), (found, values))

    def test_every_strategy(self):
        for name in RUNS:
            with self.subTest(run=name):
                folder = self.trained(name)
                page, summary = self.page(folder), support.summary_of(folder)
                self.check_numbers(page, summary)
                self.check_curves(page, folder)
                heads = [head for head in page.texts["all h2"] if head != "Notes"]
                schedule = ["Schedule"] if name == "pipeline" else []
                forecast = ["Prediction"] if name == "forecast" else []
                self.assertEqual(heads, ["Curves", "Partition and memory", "Time", *forecast, "Traffic", *schedule,
                                         "Settings", "Software and machine"])
                self.assertEqual(page.texts["all h1"], [name])
                shown = {key for key, _, _ in page.numbers}
                self.assertLessEqual({"test_accuracy", "test_loss", "train_seconds", "evaluation_seconds", "parameters",
                                      "samples_per_second", "grid.ranks", "peak_rss_bytes.0"}, shown)
                self.assertEqual("test_perplexity" in shown, name == "text")
                self.assertEqual("perplexity" in page.figures, name == "text")
                self.assertEqual("bytes_between_stages" in shown, RUNS[name][0] > 1)
                described = page.texts["all header"][0]
                for key in {"input", "outer"} & summary.keys():
                    self.assertIn(f"{key} {summary[key]}", described)
                notes = page.texts.get("all aside", [""])[0]
                self.assertTrue(all(warning in notes for warning in summary["warnings"]))

    def test_partition(self):
        folder = self.trained("sil")
        page, summary = self.page(folder), support.summary_of(folder)
        rows = page.table("Stages")[1:-1]
        self.assertEqual([row[2].replace("\u2013", "-").replace("\u2002", " ") for row in rows],
                         ["0-1 dense 32 \u00d7 2", "2-3 dense 32 \u00d7 2", "4-5 dense 32, dense"])
        self.assertEqual([row[1] for row in rows], [str(stage["rank"]) for stage in summary["partition"]])
        planned = [[read_number(text) for text in row[1:7]] for row in page.table("Bytes by rank")[1:]]
        for rank, (*kinds, (total, error)) in enumerate(planned):
            keys = ("parameter_bytes", "gradient_bytes", "optimiser_bytes", "activation_bytes", "buffer_bytes")
            wanted = [sum(stage[key] for stage in summary["partition"] if stage["rank"] == rank) for key in keys]
            self.assertTrue(all(abs(value - want) <= err for (value, err), want in zip(kinds, wanted)), (kinds, wanted))
            self.assertLessEqual(abs(total - sum(wanted)), error)

    def test_replicas_own_the_same_stages(self):
        page = self.page(self.trained("pipeline"))
        self.assertEqual([row[1] for row in page.table("Stages")[1:-1]], ["0, 2", "1, 3"])
        bytes_of = page.table("Bytes by rank")[1:]
        self.assertEqual([row[1:7] for row in bytes_of[:2]], [row[1:7] for row in bytes_of[2:]])

    def test_schedule(self):
        folder = self.trained("pipeline")
        page = self.page(folder)
        events = json.loads((folder / "trace.json").read_text())["traceEvents"]
        drawn = [title for figure in page.figures.values() for title in figure["titles"] if " ms from " in title]
        self.assertEqual(len(drawn), len(events))
        start = min(event["ts"] for event in events)
        wanted = sorted((f"{'forward' if event['cat'] == 'F' else 'backward'} {event['name'][1:]}, replica {event['pid']}, "
                         f"rank {event['tid']}", (event["ts"] - start) / 1e3, event["dur"] / 1e3) for event in events)
        title = re.compile(r"(.*)\n(\d+\.\d{3}) ms from (\d+\.\d{3}) ms")
        found = sorted((name, float(begin), float(time)) for name, time, begin in (title.fullmatch(text).groups() for text in drawn))
        self.assertEqual([name for name, *_ in found], [name for name, *_ in wanted])
        for (_, *times), (_, *exact) in zip(found, wanted):
            for time, value in zip(times, exact):
                self.assertAlmostEqual(time, value, delta=0.00051)
        for (name, forward, backward, _), (pid, tid) in zip(page.table("Milliseconds by operation")[1:],
                                                            ((0, 0), (0, 1), (1, 0), (1, 1))):
            self.assertEqual(name, f"replica {pid}, rank {tid}")
            for text, kind in ((forward, "F"), (backward, "B")):
                spent = sum(event["dur"] / 1e3 for event in events
                            if (event["pid"], event["tid"], event["cat"]) == (pid, tid, kind))
                self.assertAlmostEqual(float(text), spent, places=2)

    def test_prediction(self):
        folder = self.trained("forecast")
        page, summary = self.page(folder), support.summary_of(folder)
        self.check_numbers(page, summary)
        shown = {key for key, _, _ in page.numbers}
        self.assertLessEqual({f"{side}.{term}" for side in ("predicted", "measured", "prediction_error")
                              for term in ("step_s", "compute_s", "memory_bytes")}, shown)
        self.assertLessEqual({"measured.communication.gradients", "predicted.communication.gradients"}, shown)
        titles = [title for figure in page.figures.values() for title in figure["titles"]]
        self.assertTrue(any(title.startswith("measured, computing: ") for title in titles), titles)
        self.assertNotIn("Prediction", self.page(self.trained("joint")).texts["all h2"])
        del summary["measured"]["step_s"]
        (folder / "summary.json").write_text(json.dumps(summary))
        self.assertNotIn("Prediction", self.page(folder).texts["all h2"])

    def test_scaling(self):
        folder, file = self.trained("joint"), self.folder / "predictions.json"
        self.assertDone(support.run("plan", "predict", self.deck, "--ranks", "1,2,4", "--json", file))
        predictions = [row for row in json.loads(file.read_text()) if row["feasible"]]
        page = self.page(folder, "--predictions", file)
        rows = page.table("Predictions for each number of ranks")[1:]
        self.assertEqual([(row[0], row[1], row[6]) for row in rows],
                         [(str(row["ranks"]), row["strategy"], row["limiter"])
                          for row in sorted(predictions, key=lambda row: (row["ranks"], row["epoch_s"]))])
        titles = [title for figure in page.figures.values() for title in figure["titles"] if title.startswith("ranks ")]
        self.assertEqual([title.splitlines()[0] for title in titles], ["ranks 1", "ranks 2", "ranks 4"])
        self.assertIn("limited by compute", titles[0])
        self.check_numbers(page, support.summary_of(folder))
        self.assertIn("is a file that this script reads",
                      self.refused(folder, "--predictions", file, "--overwrite", "-o", file))
        for text, words in (("{", "not JSON"), ("{}", "is not a list"), ("[]", "has no feasible prediction"),
                            ('[{"feasible": true, "epoch_s": -1}]', "has no feasible prediction")):
            file.write_text(text)
            self.assertIn(words, self.refused(folder, "--predictions", file))
        self.assertIn("no such file", self.refused(folder, "--predictions", self.folder / "none.json"))

    def test_recovery_is_marked(self):
        figure = self.page(self.trained("frozen")).figures["loss"]
        self.assertIn("recovery", [text for _, _, text in figure["ticks"]])
        self.assertEqual([kind for _, kind, _ in figure["paths"]].count("mark"), 1)
        self.assertNotIn("mark", [kind for _, kind, _ in self.page(self.trained("sil")).figures["loss"]["paths"]])

    def test_settings(self):
        folder = self.trained("frozen")
        rows = self.page(folder).table("What differs")[1:]
        also = {"strategy/input", "strategy/recovery_epochs", "strategy/replicas"}
        self.assertEqual({row[0] for row in rows}, CHANGED | also)
        self.assertEqual([row[1:3] for row in rows if row[0] == "run/epochs"], [["2 epochs", "5"]])
        deck = self.page(folder).texts["all pre"][0]
        self.assertEqual(deck.strip(), (folder / "deck.toml").read_text().strip())

    def test_as_installed(self):
        folder, plot = self.trained("joint"), self.folder / "plot"
        here = self.page(folder).tables
        shutil.copytree(PLOT, plot, ignore=shutil.ignore_patterns("__pycache__"))
        page = self.page(folder, plot=plot)
        self.assertIn("Defaults are unknown here", " ".join(page.texts["all p"]))
        shutil.copy(ROOT / "docs" / "deck-reference.md", plot)
        self.assertEqual(self.page(folder, plot=plot).tables, here)

    def test_the_same_files_make_the_same_page(self):
        folder = self.trained("sil")
        self.page(folder)
        before = (folder / "report.html").read_bytes()
        self.page(folder)
        self.assertEqual((folder / "report.html").read_bytes(), before)

    def test_unfinished(self):
        folder = self.trained("sil")
        (folder / "summary.json").unlink()
        whole = (folder / "history.csv").read_text()
        (folder / "history.csv").write_text(whole[:-9])
        page = self.page(folder)
        self.assertEqual(page.texts["all h2"], ["Notes", "Curves", "Settings"])
        self.assertIn("has not finished after step 30", page.texts["all aside"][0])
        self.assertIn("newest checkpoint is that of step 30", page.texts["all aside"][0])
        self.check_numbers(page, {})
        (folder / "history.csv").write_text(whole.splitlines()[0] + "\n")
        page = self.page(folder)
        self.assertIn("no rows yet", page.texts["all aside"][0])
        (folder / "history.csv").unlink()
        self.assertIn("There is no history.csv", self.page(folder).texts["all aside"][0])

    def test_losses_that_are_not_finite(self):
        folder = self.trained("joint")
        lines = (folder / "history.csv").read_text().splitlines()
        cells = next(line for line in lines if ",step,1," in line).split(",")
        cells[6] = "nan"
        (folder / "history.csv").write_text("\n".join([*lines, ",".join(cells)]) + "\n")
        page = self.page(folder)
        self.assertIn("The loss of the joined network is not finite", page.texts["all aside"][0])
        self.assertNotIn("nan", page.titles)

    def test_curves_of_stages_with_exits_are_their_own(self):
        head = "time_s,event,stage,epoch,step,run_step,loss,learning_rate,samples_per_second,grad_norm,train_accuracy,accuracy"
        (self.folder / "history.csv").write_text(
            f"{head},accuracy_alone\n1,evaluation,1,1,9,9,0.5,,,,,40,30\n1,evaluation,joined,1,9,9,0.5,,,,,60,20\n")
        self.assertEqual(History(self.folder).accuracy, {"1": [(9, 30.0)], "joined": [(9, 60.0)]})
        (self.folder / "history.csv").write_text(f"{head}\n1,evaluation,1,1,9,9,0.5,,,,,40\n")
        self.assertEqual(History(self.folder).accuracy, {"1": [(9, 40.0)]})

    def test_a_damaged_head_of_the_history(self):
        folder = self.trained("joint")
        (folder / "history.csv").write_text("x" * 200000 + "\n")
        self.assertIn("not a line of names of columns", self.page(folder).texts["all aside"][0])

    def test_rows_without_a_loss(self):
        """All steps before such a row were skipped: it has a rate, and later rows count."""
        folder = self.folder / "skipped"
        train(folder, self.deck)
        history = folder / "history.csv"
        head, first, *rows = history.read_text().splitlines(keepends=True)
        columns = first.split(",")
        columns[6] = ""
        history.write_text("".join([head, ",".join(columns), *rows]))
        result = self.report(folder)
        self.assertEqual((result.returncode, result.stderr), (0, ""))

    def test_a_single_point_is_a_point(self):
        train(self.folder / "run", self.deck, "run/epochs=1", "strategy/kind=joint")
        paths = self.page(self.folder / "run").figures["accuracy"]["paths"]
        self.assertEqual([kind for colour, kind, _ in paths if colour == "joined"], ["marker"])

    def test_nothing_in_a_file_becomes_markup(self):
        source, folder = self.trained("pipeline"), self.folder / '<b onload="x">&amp;\'"'
        source.rename(folder)
        summary = support.summary_of(folder)
        summary["provenance"] = {key + "<i>": NASTY for key in summary["provenance"]}
        summary["provenance"]["version"] = summary["provenance"]["devices"] = summary["input"] = NASTY
        summary["warnings"] = [NASTY, 3, None]
        (folder / "summary.json").write_text(json.dumps(summary))
        deck = (folder / "deck.toml").read_text()
        quoted = json.dumps(NASTY)
        for key in ("path", "train_file"):
            deck = deck.replace(f'\n{key} = ""', f"\n{key} = {quoted}")
        deck = deck.replace('type = "dense"', f'type = {quoted}').replace("# ", "# </pre><script>")
        (folder / "deck.toml").write_text(deck)
        trace = json.loads((folder / "trace.json").read_text())
        for event in trace["traceEvents"]:
            event["cat"] = event["name"] = NASTY
        (folder / "trace.json").write_text(json.dumps(trace))
        (folder / "<script>.superseded").write_text("")
        page = self.page(folder)
        self.assertEqual(page.texts["all h1"], [folder.name])
        shown = NASTY.replace("\x07", "\ufffd")
        self.assertIn(f"Warning: {shown}", page.texts["all li"])
        self.assertIn(shown, [row[1] for row in page.table("Where and with what")])
        self.assertIn("<script>.superseded", page.texts["all aside"][0])

    def test_damaged_files(self):
        """Cut or changed anywhere, they give a page of the rest or one line."""
        source, chance = self.trained("pipeline"), random.Random(7)
        for number in range(60):
            folder = self.folder / "damaged"
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(source, folder)
            path = folder / chance.choice(("deck.toml", "history.csv", "summary.json", "trace.json"))
            content = bytearray(path.read_bytes())
            place = chance.randrange(len(content))
            kind = chance.randrange(4)
            if kind == 0:
                del content[place:]
            elif kind == 1:
                content[place:place + 4] = chance.randbytes(4)
            elif kind == 2:
                content[place:place + 1] = chance.choice((b"\x00", b"[" * 5000, b"9" * 5000, b"-1e999", b'"', b"null"))
            else:
                at = chance.choice(list(re.finditer(rb"[0-9.]+", bytes(content))))
                content[at.start():at.end()] = chance.choice((b"-1", b"1e300", b"nan", b"{}", b"9" * 20, b"0"))
            path.write_bytes(content)
            with self.subTest(number=number, file=path.name, kind=kind, place=place):
                result = self.report(folder)
                self.assertNotIn("Traceback", result.stderr)
                if result.returncode == 0:
                    self.assertEqual(Page((folder / "report.html").read_text()).faults, [])
                else:
                    self.assertRegex(result.stderr, r"\Areport\.py: [^\n]+\n\Z")

    def test_older_summaries_have_no_partition(self):
        folder = self.trained("sil")
        summary = support.summary_of(folder)
        del summary["partition"], summary["warnings"]
        (folder / "summary.json").write_text(json.dumps(summary))
        page = self.page(folder)
        self.assertIn("by an earlier version", " ".join(page.texts["all p"]))
        self.assertEqual(page.table("Bytes by rank")[0], ["rank", "measured", "process"])

    def test_refusals(self):
        self.assertIn("no such run directory", self.refused(self.folder / "nothing"))
        (self.folder / "empty").mkdir()
        self.assertIn("has no files of a run", self.refused(self.folder / "empty"))
        (self.folder / "empty" / "summary.json").write_text("[]")
        self.assertIn("is not the summary of a run", self.refused(self.folder / "empty"))

        folder = self.trained("joint")
        mine = self.write("mine.html", "<!DOCTYPE html>\n<p>mine</p>\n")
        self.assertIn("would be overwritten", self.refused(folder, "-o", mine))
        self.assertIn("mine", mine.read_text())
        for name in ("summary.json", "parameters.h5"):
            before = (folder / name).read_bytes()
            self.assertIn("is a file of the run itself", self.refused(folder, "--overwrite", "-o", folder / name))
            self.assertEqual((folder / name).read_bytes(), before)
        other = self.trained("pipeline")
        before = (other / "deck.toml").read_bytes()
        self.assertIn("has the name of a file of the run in this directory",
                      self.refused(folder, "--overwrite", "-o", other / "deck.toml"))
        self.assertEqual((other / "deck.toml").read_bytes(), before)
        self.assertIn("is a directory", self.refused(folder, "-o", self.folder))
        self.assertIn("no such file or directory", self.refused(folder, "-o", self.folder / "not" / "there.html"))
        self.assertEqual(self.report(folder, "-o", mine, "--overwrite").returncode, 0)
        self.assertEqual(self.report(folder, "-o", mine).returncode, 0)  # it is a report now
        self.assertEqual([path.name for path in self.folder.glob(".report*")], [])

    def test_files_of_the_run_are_never_replaced(self):
        """Under whatever name, and even if there is no such file yet."""
        folder = self.trained("sil")
        kept = folder / "checkpoints" / "step-000000020.h5"
        aside = folder / "parameters.h5.superseded"
        (folder / "summary.json").rename(self.folder / "elsewhere.json")
        (folder / "summary.json").symlink_to(self.folder / "elsewhere.json")
        for path in (aside, folder / "deck.toml.superseded-2", folder / "checkpoints" / "step-000000005.h5.superseded"):
            path.write_text("set aside")
        link, twin = self.folder / "link.html", self.folder / "twin.html"
        link.symlink_to(kept)
        os.link(aside, twin)
        before = {path: path.read_bytes() for path in self.folder.rglob("*") if path.is_file()}
        absent = [folder / name for name in (".partita.lock", "decisions.csv", "workers.csv", "trace.json", "output_now",
                                             "history.csv.partial", "checkpoints/report.html")]
        (self.folder / "later.html").symlink_to(folder / "trace.json")
        for path in (kept, *before.keys() - {self.deck}, *absent, self.folder / "later.html"):
            with self.subTest(path=path.relative_to(self.folder)):
                self.assertIn("is a file of the run itself", self.refused(folder, "--overwrite", "-o", path))
        self.assertEqual({path: path.read_bytes() for path in self.folder.rglob("*") if path.is_file()}, before)
        for name in ("report.html", "deck.toml.html"):
            self.assertEqual(self.report(folder, "-o", folder / name).returncode, 0)

    def test_open_descriptors_are_appended_to(self):
        folder, log = self.trained("joint"), self.folder / "log.txt"
        self.page(folder)
        expected = "kept\n" + (folder / "report.html").read_text()
        for name, to in (("/dev/stdout", ">>"), ("/dev/fd/3", "3>>")):
            with self.subTest(name):
                log.write_text("kept\n")
                command = ["bash", "-c", f'"$@" {to}"$0"', log, sys.executable, PLOT / "report.py", folder, "-o", name]
                result = subprocess.run(command, capture_output=True, text=True, timeout=support.HANGS)
                self.assertEqual((result.returncode, result.stderr), (0, ""))
                self.assertEqual(log.read_text(), expected)
        self.assertIn("descriptor 9 cannot be written", self.refused(folder, "-o", "/dev/fd/9"))

    def test_links_and_permissions_stay(self):
        folder, target, link = self.trained("joint"), self.folder / "page.html", self.folder / "link.html"
        target.write_text("")
        target.chmod(0o640)
        link.symlink_to("page.html")
        self.assertEqual(self.report(folder, "-o", link).returncode, 0)
        self.assertTrue(link.is_symlink())
        self.assertIn("</html>", target.read_text())
        self.assertEqual(target.stat().st_mode & 0o777, 0o640)

    def test_help(self):
        result = subprocess.run([sys.executable, PLOT / "report.py", "--help"], capture_output=True, text=True)
        for part in ("RUNDIR", "--output FILE", "--overwrite", "RUNDIR/report.html"):
            self.assertIn(part, result.stdout)

    def test_large_histories_stay_small_pages(self):
        folder = self.trained("joint")
        lines = (folder / "history.csv").read_text().splitlines()
        row = next(line for line in lines if ",step,1," in line).split(",")
        with (folder / "history.csv").open("w") as file:
            file.write(lines[0] + "\n")
            for step in range(1, 50001):
                row[5], row[6] = str(step), str(2 + math.sin(step / 900) if step != 33333 else 50)
                file.write(",".join(row) + "\n")
        self.page(folder)
        self.assertLess((folder / "report.html").stat().st_size, 400_000)
        faint = [path for _, kind, path in self.page(folder).figures["loss"]["paths"] if kind == "faint"]
        self.assertEqual(min(float(point.split(",")[1]) for point in faint[0][1:].split("L")) < 30, True)


class Others(support.RunTest):
    """The scripts that draw with matplotlib say what is wrong with a file before they ask for it."""

    def said(self, script, *arguments):
        result = subprocess.run([sys.executable, PLOT / script, *arguments], capture_output=True, text=True)
        self.assertEqual(result.returncode, 1)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        return result.stderr

    def test_histories(self):
        self.assertIn("name the folder given to", self.said("plot_history.py", self.folder))
        train(self.folder / "run", self.deck)
        path = self.folder / "run" / "history.csv"
        whole = path.read_text()
        path.write_text(re.sub(r",10,10,", ",10,x,", whole, count=1))
        self.assertIn("history.csv:2: not a complete row", self.said("plot_history.py", self.folder / "run"))
        path.write_text(whole.replace("run_step", "x", 1))
        self.assertIn("no column run_step", self.said("plot_history.py", self.folder / "run"))
        self.assertEqual(len(history(self.folder / "run")), len(whole.splitlines()) - 1)

    def test_predictions(self):
        file = self.write("predictions.json", "[]")
        self.assertIn("has no feasible prediction", self.said("plot_prediction.py", file, "-o", self.folder / "x.png"))
        self.assertDone(support.run("plan", "predict", self.deck, "--ranks", "1,2", "--json", file, "--overwrite"))
        train(self.folder / "run", self.deck)
        self.assertIn("has no prediction; train with run/cluster=FILE",
                      self.said("plot_prediction.py", file, self.folder / "run", "-o", self.folder / "x.png"))

    def test_names_that_are_not_utf8(self):
        folder = os.fsencode(self.folder) + b"/run-\xff"
        train(self.folder / "run", self.deck)
        os.rename(self.folder / "run", folder)
        result = subprocess.run([sys.executable, PLOT / "report.py", folder], capture_output=True,
                                env={**os.environ, "PYTHONIOENCODING": "utf-8:strict"})
        self.assertEqual((result.returncode, result.stdout), (0, folder + b"/report.html\n"), result.stderr)

    def test_ranks_of_workers(self):
        """Rank 0 coordinates and has no stage."""
        train(self.folder / "run", self.deck, "strategy/kind=hogbatch", "optimiser/kind=sgd", "optimiser/momentum=0", ranks=3)
        self.assertDone(subprocess.run([sys.executable, PLOT / "report.py", self.folder / "run"], capture_output=True, text=True))
        page = (self.folder / "run" / "report.html").read_text()
        self.assertIn("1, 2", page)
        self.assertNotIn("rank 3", page)

    def test_workers(self):
        folder = self.folder / "run"
        folder.mkdir()
        self.assertIn("name the folder given to", self.said("plot_workers.py", folder))
        (folder / "history.csv").write_text("time_s,event,loss\n1,step,2\n")
        for rows in ("", "1,x\n", "1,shared,2,nan,3\n", "1,shared,2\n", "x,shared,1,2,3\n", "\xff,shared,1,2,3\n"):
            (folder / "workers.csv").write_bytes(("rank,role,time_s,batch,update_share\n" + rows).encode("latin-1"))
            self.assertIn("has no rows of workers", self.said("plot_workers.py", folder))

    def test_traces(self):
        trace = self.write("trace.json", '{"displayTimeUnit": "ms", "traceEvents": [\n]}\n')
        self.assertIn("has no operations", self.said("draw_trace.py", trace, self.folder / "x.png"))
        trace.write_text("{")
        self.assertIn("not a trace of a run", self.said("draw_trace.py", trace, self.folder / "x.png"))


class Pictures(support.RunTest):
    """How pictures are written, with a figure that needs no matplotlib."""

    SAVE = """
import sys
sys.path.insert(0, sys.argv[1])
import pictures
class Figure:
    def savefig(self, file, format, dpi):
        file.write(b"a picture, " + format.encode())
pictures.save(Figure(), sys.argv[2], runs=sys.argv[3:4], files=sys.argv[4:])
"""

    def setUp(self):
        super().setUp()
        self.run_directory, self.file = self.folder / "run", self.write("predictions.json", "[]")
        train(self.run_directory, self.deck)

    def save(self, output):
        return subprocess.run([sys.executable, "-c", self.SAVE, PLOT, output, self.run_directory, self.file],
                              capture_output=True, text=True, timeout=support.HANGS)

    def test_inputs_are_never_replaced(self):
        """Under whatever name."""
        names = {"link.png": "run/history.csv", "later.svg": "run/trace.json", "other.png": "predictions.json"}
        for name, target in names.items():
            (self.folder / name).symlink_to(target)
        os.link(self.run_directory / "summary.json", self.folder / "twin.png")
        before = contents(self.folder)
        for name, part in (*((name, "is a file") for name in (*names, "twin.png")), ("run", "needs an extension"),
                           ("run/trace.json", "is a file of the run itself"), ("no extension", "needs an extension")):
            with self.subTest(name):
                result = self.save(self.folder / name)
                self.assertEqual((result.returncode, result.stdout, result.stderr.count("\n")), (1, "", 1), result.stderr)
                self.assertIn(part, result.stderr)
        self.assertEqual(contents(self.folder), before)

    def test_names_and_devices(self):
        for name in ("run/history.png", "a.SVG"):
            result = self.save(self.folder / name)
            self.assertEqual((result.returncode, result.stdout), (0, f"{self.folder / name}\n"), result.stderr)
            self.assertEqual((self.folder / name).read_text(), f"a picture, {name[-3:].lower()}")
        (self.folder / "full.png").symlink_to("/dev/full")
        self.assertIn("full.png: no space left on device", self.save(self.folder / "full.png").stderr)


if __name__ == "__main__":
    unittest.TestCase.maxDiff = None
    support.main()
