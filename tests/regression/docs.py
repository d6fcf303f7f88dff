"""The documents: no link is broken, and the program understands every command line that they show."""

import json
import os
import re
import resource
import shlex
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from urllib.parse import unquote, urlsplit
from xml.etree import ElementTree

import support
from support import run

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^ *(`{3,}|~{3,})(\w*)[^\n]*\n(.*?)^ *\1 *$", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)
LINK = re.compile(r"\]\(\s*<?([^)>\s]+)>?(?:\s+\"[^\"]*\")?\s*\)|^ *\[[^\]]+\]: +(\S+)|(?:src|href)=\"([^\"]+)\"",
                  re.MULTILINE)
SHELL = ("sh", "bash", "shell")
LAUNCHERS = ("mpirun", "mpiexec", "srun", "flux", "time")


def pages():
    """All Markdown of the repository, without what was built or installed into it."""
    def ours(path):
        folders = path.relative_to(ROOT).parts[:-1]
        return not any(name == "build" or name.startswith(".") for name in folders)

    return sorted(path for path in ROOT.rglob("*.md") if ours(path))


def prose(text):
    """Without blocks of code."""
    return FENCE.sub("", text)


def anchors(text):
    """What GitHub makes of the headings: lower case, hyphens for blanks, no punctuation, a number where one repeats."""
    found = set(re.findall(r"<a (?:id|name)=\"([^\"]+)\"", text))
    for heading in HEADING.findall(prose(text)):
        shown = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", shown.strip().lower()).replace(" ", "-")
        name, count = slug, 0
        while name in found:
            count += 1
            name = f"{slug}-{count}"
        found.add(name)
    return found


def links(text):
    return ["".join(groups) for groups in LINK.findall(re.sub(r"`[^`]*`", "``", prose(text)))]


def fault(page, link):
    """What is wrong with a link on a page; nothing where it is good."""
    parts = urlsplit(link)
    if parts.scheme:
        form = parts.scheme == "mailto" or (parts.scheme in ("http", "https") and "." in parts.netloc)
        return None if form else "no web address"
    target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    if not target.exists() or not target.is_relative_to(ROOT):
        return "no such file in the repository"
    if parts.fragment and (target.suffix != ".md" or parts.fragment not in anchors(target.read_text())):
        return "no such heading"
    return None


def commands(text):
    """The words of each simple command in the shell blocks of a page."""
    for _, language, block in FENCE.findall(text):
        if language not in SHELL:
            continue
        for line in block.replace("\\\n", " ").splitlines():
            lexer = shlex.shlex(line, posix=True, punctuation_chars=";|&<>")
            lexer.whitespace_split = True
            words = []
            for word in [*lexer, ";"]:
                if word[0] not in ";|&<>":
                    words.append(word)
                    continue
                if words:
                    yield words
                words = []


def arguments_of_partita(words):
    """The words after the program, started by itself or by a launcher; None if it is not started."""
    while words and re.match(r"[A-Z_]+=", words[0]):
        words = words[1:]
    place = next((i for i, word in enumerate(words) if re.fullmatch(r"(.*/)?partita", word)), None)
    return words[place + 1:] if place == 0 or (place and words[0] in LAUNCHERS) else None


def named_tests(text):
    """(file, name) of the tests that a page names: `file`: `name`, `name`."""
    for path, names in re.findall(r"`(tests/[\w/]+\.\w+)`:((?:\s*`[^`]+`(?!:),?)+)", text):
        for name in re.findall("`([^`]+)`", names):
            yield path, " ".join(name.split())


def has_test(path, name):
    """A case of Catch2, a function or a class of unittest."""
    file = ROOT / path
    text = file.read_text() if file.exists() else ""
    if path.endswith(".cpp"):
        return f'TEST_CASE("{name}"' in text
    return re.search(rf"^\s*(def|class) {re.escape(name)}\(", text, re.MULTILINE) is not None


class Links(unittest.TestCase):
    def test_every_link_leads_somewhere(self):
        found = [(page, link) for page in pages() for link in links(page.read_text())]
        self.assertGreater(len(found), 20)
        faults = [f"{page.relative_to(ROOT)}: {link}: {fault(page, link)}" for page, link in found if fault(page, link)]
        self.assertEqual(faults, [])

    def test_dead_links_are_seen(self):
        page = ROOT / "README.md"
        for link in ("docs/nothing.md", "#nothing", "docs/README.md#nothing", "LICENSE#nothing", "http://x", "../.."):
            self.assertIsNotNone(fault(page, link), link)
        for link in ("docs", "LICENSE", "#quick-start", "https://example.org/a", "mailto:a@example.org"):
            self.assertIsNone(fault(page, link), link)

    def test_what_counts_as_a_link(self):
        text = '[a\nb](c.md) ![d](e.svg "f") `[g](h)` <img src="i.png">\n\n[j]: k.md\n```sh\n[l](m)\n```\n'
        self.assertEqual(links(text), ["c.md", "e.svg", "i.png", "k.md"])

    def test_anchors(self):
        text = "# A `b`, [c](d)!\n## x_y - Z\n### Twice\n### Twice\n```\n# no heading\n```\n"
        self.assertEqual(anchors(text), {"a-b-c", "x_y---z", "twice", "twice-1"})


class Tests(unittest.TestCase):
    def test_tests_that_pages_name_exist(self):
        found = [(page, *test) for page in pages() for test in named_tests(page.read_text())]
        self.assertGreater(len(found), 40)
        self.assertEqual([f"{page.name}: {path}: {name}" for page, path, name in found if not has_test(path, name)], [])

    def test_every_complaint_names_one_or_says_why_not(self):
        page = (ROOT / "docs" / "complaints.md").read_text()
        groups = re.split(r"^### \d+\. ", page, flags=re.MULTILINE)[1:]
        self.assertEqual(len(groups), 24)
        silent = [text.splitlines()[0] for text in groups if not list(named_tests(text)) and "*No test:*" not in text]
        self.assertEqual(silent, [])

    def test_every_mistake_of_the_reference_engine_names_one(self):
        page = (ROOT / "docs" / "complaints.md").read_text().split("## Ten faults")[1].split("\n## ")[0]
        mistakes = re.split(r"^\d+\. ", page, flags=re.MULTILINE)[1:]
        self.assertEqual(len(mistakes), 10)
        self.assertEqual([text for text in mistakes if not list(named_tests(text))], [])

    def test_missing_ones_are_seen(self):
        text = "`tests/regression/docs.py`: `Links`,\n`test_anchors`, `tests/x.py`: `y` and `z`"
        self.assertEqual([name for _, name in named_tests(text)], ["Links", "test_anchors", "y"])
        self.assertTrue(has_test("tests/regression/docs.py", "test_anchors"))
        self.assertFalse(has_test("tests/regression/docs.py", "test_anchor"))
        self.assertFalse(has_test("tests/regression/nothing.py", "Links"))


class Commands(unittest.TestCase):
    def setUp(self):
        self.help = {}
        self.keys = set()
        section = ""
        for line in run("info", "--deck").stdout.splitlines():
            if heading := re.match(r"## \[(\w+)\]", line):
                section = heading[1]
            if row := re.match(r"\| `(\w+)` \|", line):
                self.keys.add(f"{section}/{row[1]}")

    def options(self, *command):
        if command not in self.help:
            text = run(*command, "--help").stdout
            asked = f"Usage: {' '.join(('partita', *command))} " in text
            self.help[command] = re.findall(r"(?<![\w-])--?[A-Za-z][\w-]*", text) if asked else []
        return self.help[command]

    def fault(self, words):
        """What is wrong with the words after `partita`."""
        command = [words[0]] if words and not words[0].startswith("-") else []
        if command == ["plan"] and len(words) > 1:
            command.append(words[1])
        known = self.options(*command)
        if not known:
            return f"no subcommand {command}"
        for word in words[len(command):]:
            option = word.split("=")[0]
            if word.startswith("-") and option not in known and not option.startswith("--kokkos-"):
                return f"no option {option}"
            if override := re.match(r"([a-z]+)[/.]([a-z_0-9]+)=", word):
                if "/".join(override.groups()) not in self.keys:
                    return f"no parameter {option}"
        return None

    def test_every_command_line_is_understood(self):
        count, faults = 0, []
        for page in pages():
            for words in commands(page.read_text()):
                arguments = arguments_of_partita(words)
                if arguments is None:
                    continue
                count += 1
                if what := self.fault(arguments):
                    faults.append(f"{page.relative_to(ROOT)}: {shlex.join(words)}: {what}")
        self.assertGreaterEqual(count, 5)
        self.assertEqual(faults, [])

    def test_wrong_ones_are_seen(self):
        for line in ("trian DECK", "train DECK --bogus", "train DECK run/sed=1", "--bogus"):
            self.assertIsNotNone(self.fault(line.split()), line)
        for line in ("train DECK -n --ranks 2 run/seed=1 --kokkos-threads=2", "info", "--version"):
            self.assertIsNone(self.fault(line.split()), line)

    def test_bootstrap(self):
        usage = (ROOT / "bootstrap").read_text()
        faults = [f"{page.relative_to(ROOT)}: ./bootstrap {words[1]}" for page in pages()
                  for words in commands(page.read_text()) if words[0] == "./bootstrap" and len(words) > 1
                  and not words[1].startswith("-") and f"\n  {words[1]} " not in usage]
        self.assertEqual(faults, [])

    def run_bench(self, folder, *arguments, peer="peer=$fake"):
        """The calls of programs that `./bootstrap bench` makes; `peer` is the command that finds PyTorch."""
        script = """source scripts/commands.sh
            buildTarget() { :; }; noteBlasKernels() { :; }; say() { :; }; launcher() { :; }; needPeer() { $peer_command; }
            onRanks() { echo "$OMP_NUM_THREADS $*"; }; python3() { echo "python3 $*"; }; step() { shift; "$@"; }
            fail() { echo "$*" >&2; exit 1; }
            build=$1; cores=2; fake=$1/peer; shift
            mkdir -p "$fake/bin"; printf '#!/bin/bash\necho "peer $*"\n' >"$fake/bin/python"; chmod +x "$fake/bin/python"
            runBench "$@" """
        script = script.replace("$peer_command", peer)
        return subprocess.run(["bash", "-c", script, "bash", folder, *arguments], cwd=ROOT, text=True,
                              capture_output=True, check=False)

    def test_turns_of_the_benchmark(self):
        """Partita and PyTorch take turns for the same models, and the file of --json gets the medians."""
        for arguments, names, turns in (([], ["mlp", "lenet", "resnet", "conv", "gpt", "attention"], 5),
                                        (["--only", "gpt", "run/seed=2"], ["gpt"], 5), (["--quick"], None, 1)):
            with tempfile.TemporaryDirectory() as folder:
                file = Path(folder, "x.json")
                result = self.run_bench(folder, *arguments, "--json", str(file))
                self.assertEqual((result.returncode, result.stderr, file.exists()), (0, "", True))
            lines = [line for line in result.stdout.splitlines() if " info" not in line]
            end = next(i for i, line in enumerate(lines) if "bench_table.py" in line)
            self.assertIn(f"--json {file}", lines[end])
            one, two, threads = lines[:end:2], lines[1:end:2], lines[end + 1:-1]
            self.assertEqual(len(one), turns * len(names or "123456"))
            self.assertEqual([re.search(r"--only (\w+)", line).group(1) for line in one],
                             [re.search(r"--only (\w+)", line).group(1) for line in two])
            if names:
                self.assertEqual([re.search(r"--only (\w+)", line).group(1) for line in one], names * turns)
            self.assertTrue(all(line.startswith("1 ") and line.count("--json") == 1 for line in one), one)
            self.assertTrue(all(line.startswith("peer perf/peers/train_") for line in two), two)
            self.assertEqual(all("run/seed=2" in line for line in one), "run/seed=2" in arguments)
            self.assertEqual(sum("--only mlp256_b1024" in line for line in threads), 4 * turns)
            self.assertEqual(sum(line.startswith("2 ") for line in threads), turns)
        with tempfile.TemporaryDirectory() as folder:
            alone = self.run_bench(folder, peer="false")
            self.assertEqual((alone.returncode, alone.stderr, alone.stdout.count("peer ")), (0, "", 0))
            self.assertEqual(alone.stdout.count(" bench --only "), 5 * (6 + 2))
            result = self.run_bench(folder, "--json")
        self.assertEqual((result.returncode, result.stderr), (1, "--json needs a value\n"))

    def table_of(self, folder, *arguments):
        return subprocess.run([sys.executable, ROOT / "scripts/bench_table.py", folder, *arguments], text=True,
                              capture_output=True, check=True).stdout.splitlines()

    def assertKeeps(self, command, file):
        """If a command cannot write the whole file, the one that is there stays as it is, and no other one is left."""
        def fill():  # as a full disk does
            resource.setrlimit(resource.RLIMIT_FSIZE, (20, 20))
        before, names = file.read_bytes(), sorted(file.parent.iterdir())
        self.assertGreater(len(before), 20)
        result = subprocess.run(command, text=True, capture_output=True, check=False, preexec_fn=fill,
                                env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
        self.assertEqual(result.returncode, 1)
        self.assertIn("File too large", result.stderr)
        self.assertEqual((file.read_bytes(), sorted(file.parent.iterdir())), (before, names))

    def test_results_of_measurements(self):
        with tempfile.TemporaryDirectory() as folder:
            file, values = Path(folder) / "results.json", list(range(100))
            program = "import sys; sys.path.append(sys.argv[1]); import runs; runs.write_json(sys.argv[2], list(range(100)))"
            command = [sys.executable, "-c", program, ROOT / "perf", file]
            subprocess.run(command, check=True, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
            self.assertEqual(json.loads(file.read_text()), values)
            self.assertKeeps(command, file)

    def test_tables_of_the_benchmark(self):
        """Ratios are those of each turn, and the median counts; the last column compares the fastest turns."""
        with tempfile.TemporaryDirectory() as folder:
            for turn, times in enumerate(((10.0, 5.0, 20.0), (12.0, 8.0, 12.0), (30.0, 10.0, 90.0)), 1):
                for program, threads, value in zip(("partita", "partita", "pytorch"), (1, 2, 1), times):
                    entry = {"name": "mlp", "value": value, "unit": "ms", "flops": 3.0}
                    Path(folder, f"{program}_mlp_{threads}_{turn}.json").write_text(json.dumps([entry]))
            file = Path(folder, "medians")
            self.assertEqual(self.table_of(folder, "--json", file)[-1].split(), ["mlp", "12", "20", "ms", "2.00x", "1.20x"])
            self.assertEqual(json.loads(file.read_text()), [dict(entry, value=12.0)])
            self.assertKeeps([sys.executable, ROOT / "scripts/bench_table.py", folder, "--json", file], file)
            self.assertEqual(self.table_of(folder, "--threads", "mlp")[-1].split(), ["mlp", "12", "8", "ms", "2.00x"])
            for program, values in (("partita", (3.0, 2.0)), ("pytorch", (24.0, 4.0))):
                entries = [{"name": name, "value": value, "unit": "ms"} for name, value in zip(("conv", "mlp_bf16"), values)]
                Path(folder, f"{program}_other_1_1.json").write_text(json.dumps(entries))
            lines = self.table_of(folder)
            self.assertEqual(lines[-1].split(), ["mlp_bf16", "against", "float", "5.00x", "5.00x"])
            for kind in ("models", "convolutions"):  # one of each is no mean
                self.assertNotIn(f" {kind}", "".join(lines))
            entries[0]["name"], entries[0]["value"] = "conv2", 6.0
            Path(folder, "partita_third_1_1.json").write_text(json.dumps(entries[:1]))
            Path(folder, "pytorch_third_1_1.json").write_text(json.dumps([dict(entries[0], value=12.0)]))
            self.assertIn("geometric mean of 2 convolutions 4.00x 4.00x", [" ".join(line.split()) for line in self.table_of(folder)])

    def test_roofline_of_the_benchmark(self):
        """The lower of both roofs counts; bf16 has its own."""
        rates = {"sgemm": 100.0, "bgemm": 400.0, "triad": 10.0}
        entries = [{"name": name, "value": value, "unit": "GFLOP/s"} for name, value in rates.items()]
        for name, flops, value in (("steep", 5e9, 200.0), ("flat", 80e9, 1600.0), ("flat_bf16", 80e9, 400.0)):
            entries.append({"name": name, "value": value, "unit": "ms", "flops": flops, "bytes": 1e9})
        with tempfile.TemporaryDirectory() as folder:
            file, picture = Path(folder) / "bench.json", Path(folder) / "roofline.svg"
            file.write_text(json.dumps(entries))
            command = [sys.executable, ROOT / "perf" / "roofline.py", file, "-o", picture]
            result = subprocess.run(command, text=True, capture_output=True, check=True)
            self.assertRegex(result.stdout, r"steep +5\.0 FLOP/byte +25\.0 GFLOP/s +50\.0 % of the roof \(float\)")
            self.assertRegex(result.stdout, r"flat +80\.0 FLOP/byte +50\.0 GFLOP/s +50\.0 % of the roof \(float\)")
            self.assertRegex(result.stdout, r"flat_bf16 +80\.0 FLOP/byte +200\.0 GFLOP/s +50\.0 % of the roof \(bf16\)")
            self.assertEqual(len(ElementTree.parse(picture).findall(".//{*}circle")), 3)
            self.assertKeeps(command, picture)
            file.write_text("[]")
            result = subprocess.run(command, text=True, capture_output=True, check=False)
            self.assertEqual((result.returncode, len(result.stderr.splitlines())), (1, 1))


if __name__ == "__main__":
    support.main()
