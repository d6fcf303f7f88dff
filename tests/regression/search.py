"""partita plan search: the same answer on any number of ranks and after an interruption, certificates, refusals, plot."""

import fcntl
import json
import os
import re
import resource
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import support
from support import finish, run, start

ROOT = Path(__file__).resolve().parents[2]
EVERY = int(os.environ.get("PARTITA_SEARCH_EVERY", 1000))  # accelerator; the soak test: every 29th, a thousand in all
os.environ["PYTHONDONTWRITEBYTECODE"] = "1"  # the script lies in the sources
SPEC = """
[search]
devices = 64
batch = 256
[architectures]
every = 1500
[[model]]
file = "small.toml"
[[model]]
file = "{deck}"
[[case]]
memory = 2e9
[[case]]
memory = 1e9
microbatch = 2
recompute = true
[[case]]
memory = 2e9
microbatch = 2
"""
MODEL = """
[model]
name = "small"
layers = 4
width = 256
heads = 4
feed_forward = 1024
vocabulary = 1000
sequence = 128

[expert]
stages = 2
replicas = 4
parts = 2
"""


def state_line(words):
    """A line of a state, with its check word (FNV-1a)."""
    check = 0xcbf29ce484222325
    for byte in " ".join(words).encode():
        check = (check ^ byte) * 0x100000001b3 % 2**64
    return " ".join([*words, f"{check:016x}"])


class Search(support.RunTest):
    def setUp(self):
        super().setUp()
        self.write("small.toml", MODEL)
        self.spec = self.write("spec.toml", SPEC.format(deck=ROOT / "input-decks" / "gpt-char.toml"))

    def search(self, *options, ranks=1):
        result = run("plan", "search", self.spec, *options, ranks=ranks)
        self.assertDone(result)
        return result.stdout

    def test_ranks_and_interruptions_change_no_bit(self):
        state, outputs = self.folder / "state", {}
        for ranks in (1, 2, 4):
            outputs[ranks] = self.search("--json", "-", *(("--state", state) if ranks == 1 else ()), ranks=ranks)
        self.assertEqual(outputs[1], outputs[2])
        self.assertEqual(outputs[1], outputs[4])
        lines = state.read_text().splitlines(keepends=True)
        self.assertEqual(len(lines), 1 + len(json.loads(outputs[1])["cases"][0]["answers"]))
        for kept, ranks in ((1, 1), (8, 2), (len(lines), 1)):
            state.write_text("".join(lines[:kept]))
            self.assertEqual(self.search("--json", "-", "--state", state, ranks=ranks), outputs[1])
            self.assertEqual(state.read_text(), "".join(lines))

    def test_two_at_once_share_a_state(self):
        alone, shared = self.folder / "alone", self.folder / "shared"
        wanted = self.search("--json", "-", "--state", alone)
        processes = [start("plan", "search", self.spec, "--json", "-", "--state", shared) for _ in range(2)]
        for process in processes:
            result = finish(process)
            self.assertDone(result)
            self.assertEqual(result.stdout, wanted)
        self.assertEqual(shared.read_text(), alone.read_text())

    def test_a_state_that_cannot_be_written_costs_no_answer(self):
        """The disk is full after the beginning of the search, which the lock of the folder holds up until then."""
        state = self.folder / "state"
        wanted, folder = self.search("--json", "-"), os.open(self.folder, os.O_RDONLY)
        fcntl.flock(folder, fcntl.LOCK_EX)
        process = start("plan", "search", self.spec, "--json", "-", "--state", state)
        files = Path("/proc", str(process.pid), "fd")
        while not any(os.path.realpath(file) == os.path.realpath(self.folder) for file in files.iterdir()):
            self.assertIsNone(process.poll())
            time.sleep(0.01)
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (200, 200))  # room for the first line
        begin = time.time()
        os.close(folder)
        result = finish(process)
        self.assertEqual(result.returncode, 1)
        self.assertEqual(result.stdout, wanted)
        long = time.time() - begin > 10  # a long search warns meanwhile, in addition
        self.assertIn(result.stderr.count("File too large"), (1, 2) if long else (1,), result.stderr)
        self.assertEqual(len(state.read_text().splitlines()), 1)

    def test_the_answers_are_written_before_they_are_printed(self):
        """A reader that leaves, such as head, ends the program."""
        answers = self.folder / "answers.json"
        reader, writer = os.pipe()
        os.close(reader)
        result = support.finish(support.start("plan", "search", self.spec, "--json", answers, outputs=(writer, subprocess.PIPE)))
        os.close(writer)
        self.assertEqual(result.returncode, -signal.SIGPIPE)
        self.assertIn("cases", json.loads(answers.read_text()))

    def test_a_state_is_really_continued(self):
        state = self.folder / "state"
        self.search("--state", state)
        lines = state.read_text().splitlines()
        words = lines[1].split()[:-1]
        words[2] = "0x1p-20"  # the time of the first answer
        state.write_text("\n".join([lines[0], state_line(words), *lines[2:]]) + "\n")
        answers = json.loads(self.search("--state", state, "--json", "-"))["cases"][0]["answers"]
        self.assertEqual(answers["0"]["small"]["time"], 2.0 ** -20)

    def test_a_row_that_was_cut_off_is_computed_again(self):
        state, wanted, found = (self.folder / name for name in ("state", "wanted.json", "found.json"))
        self.search("--state", state, "--json", wanted)
        whole = state.read_text()
        state.write_text(whole[:-20])
        self.search("--state", state, "--json", found)
        self.assertEqual(found.read_text(), wanted.read_text())
        self.assertEqual(state.read_text(), whole)

    def test_damaged_numbers_are_refused(self):
        """Read as 0, they would change the ranking without a word."""
        state = self.folder / "state"
        self.search("--state", state)
        lines = state.read_text().splitlines(keepends=True)
        good = lines[2].split()
        damaged = [[*good[:place], word, *good[place + 1:]] for place, word in (
            (1, "garbage"), (2, "nan"), (2, "-nan"), (2, "inf"), (2, "-0x1p-20"), (3, "0x1p-20x"), (2, "0x1p+9999"),
            (0, "1x"), (0, "-1"), (0, "0x1"), (0, "100000"))]
        for words in (*damaged, good[:-1], [*good, "0x1p+0"]):
            with self.subTest(" ".join(words[:4])):
                text = "".join([*lines[:2], " ".join(words) + "\n", *lines[3:]])
                state.write_text(text)
                self.assertRefused(run("plan", "search", self.spec, "--state", state), f"{state}:3: is not a row of a search")
                self.assertEqual(state.read_text(), text)

    def test_a_state_of_other_data_is_refused(self):
        """The layers of a deck follow from the shape of its images, too."""
        def images(extent):
            for name in ("train", "test"):
                self.write(f"{name}-images", struct.pack(">BBBB3I", 0, 0, 8, 3, 2, extent, extent) + bytes(2 * extent * extent))
                self.write(f"{name}-labels", struct.pack(">BBBBI", 0, 0, 8, 1, 2) + bytes([0, 1]))
        files = "".join(f'{part}_{what} = "{part}-{what}"\n' for part in ("train", "test") for what in ("images", "labels"))
        deck = self.write("images.toml", f'[data]\nkind = "idx"\npath = "{self.folder}"\n{files}[training]\nbatch = 2\n'
                          '[network]\nlayers = [{ type = "dense", units = 4 }, { type = "dense" }]\n')
        spec = self.write("images-spec.toml", f"[search]\ndevices = 2\nbatch = 2\n[architectures]\nevery = 5000\n"
                          f"[[model]]\nfile = '{deck}'\n[[case]]\nmemory = 2e9\n")
        images(6)
        words = ["plan", "search", spec, "--state", self.folder / "state"]
        self.assertDone(run(*words))
        images(8)
        self.assertRefused(run(*words), "is the state of another search")

    def test_answers(self):
        data = json.loads(self.search("--json", "-"))
        self.assertEqual([case["microbatch"] for case in data["cases"]], [1, 2, 2])
        best = data["best"]
        scores, of_reference = [], []
        for case in data["cases"]:
            reference = case["answers"][str(data["reference"])]
            yardstick = {name: max(other["answers"][str(data["reference"])][name]["throughput"]
                                   for other in data["cases"] if other["memory"] == case["memory"])
                         for name in ("small", "gpt-char")}
            self.assertEqual(reference["acc_config"]["num_tc"], 8)
            self.assertEqual(reference["acc_config"]["GLB_Buffer"], 128)
            for answer in case["answers"].values():
                score = 0
                for name in ("small", "gpt-char"):
                    own = answer[name]
                    self.assertLessEqual(own["lower_bound"], own["time"])
                    self.assertGreaterEqual(own["gap"], 0)
                    self.assertEqual(own["throughput"], 256 / own["time"])
                    stages, parts, replicas = own["dist_strategy"]
                    self.assertLessEqual(stages * replicas * (parts if name == "small" else 1), 64)
                    if own["fixed_strategy_throughput"] is not None:
                        self.assertLessEqual(own["fixed_strategy_throughput"], own["throughput"])
                    score += own["throughput"] / yardstick[name] / 2
                scores.append(score)
                if answer is reference:
                    of_reference.append(score)
        self.assertAlmostEqual(best["score"], max(scores), delta=1e-12 * max(scores))
        self.assertEqual(len(of_reference), 3)
        self.assertGreaterEqual(best["score"], max(of_reference))
        self.assertEqual(of_reference[1], 1)  # the only case with its memory
        for name, layers in (("small", 6), ("gpt-char", 10)):
            plan = best["plans"][name]
            self.assertIn(plan["limit"], ("memory", "bandwidth", "devices", "computation"))
            self.assertEqual([node for stage in plan["stages"] for node in stage["nodes"]], list(range(layers)))

    def test_the_best_is_the_fastest_with_its_memory(self):
        """Not the one that gains most on the reference in a case that slows both down."""
        self.spec = self.write("cases.toml", """
[architectures]
every = 10000
[[model]]
file = "small.toml"
[[case]]
memory = 2e9
[[case]]
memory = 2e9
recompute = true
""")
        state = self.folder / "state"
        reference = json.loads(self.search("--state", state, "--json", "-"))["reference"]
        lines = state.read_text().splitlines()
        first, second = [row for row in range(len(lines) - 1) if row != reference][:2]
        times = {reference: (4.0, 16.0), first: (3.0, 24.0), second: (8.0, 6.0)}
        numbers = 8  # of an answer

        def best(times):
            changed = [lines[0]]
            for line in lines[1:]:
                words = line.split()[:-1]
                for case, time in enumerate(times.get(int(words[0]), (32.0, 32.0))):
                    words[1 + case * numbers] = "0x1p+0" if time else "0x0p+0"  # does it fit?
                    words[2 + case * numbers] = time.hex()
                changed.append(state_line(words))
            state.write_text("\n".join(changed) + "\n")
            found = json.loads(self.search("--state", state, "--json", "-"))["best"]
            return found["case"], found["answer"], found["score"]
        self.assertEqual(best(times), (0, first, 4 / 3))
        self.assertEqual(best({**times, reference: (0.0, 16.0)}), (0, first, 16 / 3))
        self.assertEqual(best({**times, reference: (0.0, 0.0)}), (0, first, 1))  # it fits in no case

    def test_the_embedding_is_no_block_of_the_expert(self):
        """With as many stages as blocks, each stage has one; otherwise the last one would have two."""
        rates = []
        for stages in (1, 4):
            model = MODEL.replace("vocabulary = 1000", "vocabulary = 10")
            self.write("small.toml", model.split("[expert]")[0] + f"[expert]\nstages = {stages}\nreplicas = 1\nparts = 1\n")
            self.spec = self.write("one.toml", "[search]\ndevices = 4\nbatch = 256\nbandwidth = 1e15\n[architectures]\n"
                                   "every = 29360\n[[model]]\nfile = 'small.toml'\n")
            data = json.loads(self.search("--json", "-"))
            answer = data["cases"][0]["answers"][str(data["reference"])]["small"]
            rates.append(answer["fixed_strategy_throughput"])
            self.assertLessEqual(rates[-1], answer["throughput"])
        self.assertGreater(rates[1], 3 * rates[0])

    def test_the_best_of_many_accelerators(self):
        """It is as fast as each other one, the reference and all plans of experts, and four ranks find the same bits."""
        for name in ("llama2-7b", "gpt2-xl"):  # of the expert's 32 stages for GPT-2, seven are empty
            with self.subTest(name):
                spec = self.write("many.toml", f"[architectures]\nevery = {EVERY}\n[[model]]\n"
                                  f"file = '{ROOT / 'models' / name}.toml'\n[[case]]\n[[case]]\nrecompute = true\n"
                                  "[[case]]\nmicrobatch = 2\n")
                files = {ranks: self.folder / f"{ranks}.json" for ranks in (1, 4)}
                for ranks, file in files.items():
                    self.assertDone(run("plan", "search", spec, "--json", file, ranks=ranks, timeout=3000))
                self.assertEqual(files[1].read_text(), files[4].read_text())
                data = json.loads(files[1].read_text())
                answers = [(row, next(plan for key, plan in answer.items() if key != "acc_config"))
                           for case in data["cases"] for row, answer in case["answers"].items()]
                self.assertGreater(len(answers), 3 * 29360 // EVERY)
                rates = [plan["throughput"] or 0 for _, plan in answers]
                best = rates[data["best"]["case"] * len(rates) // 3 + data["best"]["answer"]]
                self.assertGreaterEqual(best, max(rates) * (1 - 1e-12))
                self.assertIn(str(data["reference"]), {row for row, _ in answers})
                experts = [(plan["fixed_strategy_throughput"], rate) for (_, plan), rate in zip(answers, rates)
                           if plan["fixed_strategy_throughput"] is not None]
                self.assertGreater(len(experts), len(answers) // 10)
                self.assertTrue(all(expert <= rate for expert, rate in experts))
                for _, plan in answers:
                    if plan["throughput"] is not None:
                        self.assertLessEqual(plan["lower_bound"], plan["time"])

    def test_nodes_and_choices(self):
        """Both raise the throughput, and the results name the choices."""
        def best(search="", case=""):
            self.spec = self.write("spec.toml", f"""
[search]
devices = 16
batch = 64
adam = true
{search}
[architectures]
every = 10000
[[model]]
file = "small.toml"
[[case]]
memory = 8e6
{case}""")
            return json.loads(self.search("--json", "-"))
        plain = best()
        near = best("node_devices = 4\nnode_bandwidth = 1e12")
        both = best("node_devices = 4\nnode_bandwidth = 1e12", "choose_recompute = true\nchoose_shard = true\nchoose_offload = true")
        self.assertNotIn("choose", plain["cases"][0])
        self.assertEqual(both["cases"][0]["choose"], ["recompute", "shard", "offload"])

        def throughputs(data):
            return [answer["small"]["throughput"] or 0 for answer in data["cases"][0]["answers"].values()]
        for slow, fast in ((plain, near), (near, both)):
            self.assertTrue(all(a <= b for a, b in zip(throughputs(slow), throughputs(fast))))
            self.assertLess(sum(throughputs(slow)), sum(throughputs(fast)))
        self.assertIn("opensNode", both["best"]["plans"]["small"]["stages"][0])
        for search, case, part in (("node_devices = 3", "", "must divide the 16 devices"),
                                   ("node_devices = 2\nnode_bandwidth = 1", "", "at least as fast"),
                                   ("", "recompute = true\nchoose_recompute = true", "has no effect"),
                                   ("host_bandwidth = nan", "", "host_bandwidth"), ("bandwidth = -1", "", "bandwidth"),
                                   ("bandwidth = 1e-305", "", "out of range (allowed [1, 1e+18]"),
                                   ("[estimator]\nfrequency = 1e-305", "", "out of range (allowed [1, 1e+18]"),
                                   ("[estimator]\nbytes_per_value = 1e300", "", "out of range")):
            with self.subTest(part):
                self.write("bad.toml", f"[search]\ndevices = 16\n{search}\n[[model]]\nfile = 'small.toml'\n[[case]]\n{case}\n")
                self.assertRefused(run("plan", "search", self.folder / "bad.toml"), part)

    def test_table_and_plot(self):
        file, page = self.folder / "result.json", self.folder / "result.html"
        table = self.search("--json", file)
        self.assertIn("accelerator: TC, VC, array, buffer", table)
        self.assertEqual(table.count("  small: "), 10)
        script = [sys.executable, ROOT / "apps" / "plot" / "plot_search.py"]
        result = subprocess.run([*script, file], capture_output=True, text=True, timeout=support.HANGS)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        text = page.read_text()
        self.assertEqual(text.count("<svg"), 6)
        self.assertIn("gpt-char: microbatch 2, 1 GB, recomputation", text)
        self.assertIn("8 TC 128 x 128, 2 VC 128, 128 MiB", text)
        for content, part in (("{}", "is not the result of"), ("[", "is not the result of"),
                              ("[" * 200000, "is not the result of"),
                              (re.sub(r'"area": [0-9.e+]+', '"area": {}', file.read_text()), "is not the result of")):
            bad = self.write("bad.json", content)
            result = subprocess.run([*script, bad], capture_output=True, text=True, timeout=support.HANGS)
            self.assertEqual(result.returncode, 1)
            self.assertIn(part, result.stderr)
            self.assertEqual(result.stderr.count("\n"), 1)
        page.write_text("my own page")
        for options, code, begin in (((), 1, "my own page"), (("--overwrite",), 0, "<!DOCTYPE html>"), ((), 0, "<!DOC")):
            result = subprocess.run([*script, file, *options], capture_output=True, text=True, timeout=support.HANGS)
            self.assertEqual(result.returncode, code, result.stderr)
            self.assertTrue(page.read_text().startswith(begin))

    def test_values_larger_than_the_smallest_memory(self):
        self.spec = self.write("wide.toml", SPEC.format(deck=ROOT / "input-decks" / "gpt-char.toml")
                               + "[estimator]\nbytes_per_value = 1000.0\n")
        self.assertIn("accelerator:", self.search())

    def test_refusals(self):
        self.assertRefused(run("plan", "search"), "SPEC is required")
        self.assertRefused(run("plan", "search", self.folder / "none.toml", ranks=2), "no such specification")
        self.assertRefused(run("plan", "search", self.write("huge.toml", "#" * 2_000_000)), "is larger than 1048576 bytes")
        state = self.write("state", "partita search 2 0123\n")
        self.assertRefused(run("plan", "search", self.spec, "--state", state, ranks=2), "is the state of another search")
        for first, other in (("partita search 1 0123", " of this version of the program"), ("partita schedules 2", ""), ("", "")):
            self.assertRefused(run("plan", "search", self.spec, "--state", self.write("state", first + "\n")),
                               f"{state}: is not the state of a search{other}; "
                               "its first line must begin with 'partita search 2'")
        self.assertRefused(run("plan", "search", self.spec, "--state", self.spec), "is also an input")
        self.assertRefused(run("plan", "search", self.spec, "--json", self.spec), "is also an input")
        self.search("--state", self.folder / "good")
        text = (self.folder / "good").read_text()
        number = re.search("0x1.([0-8])", text)
        for bad in (text[:-30] + "\n", text[:number.start(1)] + "9" + text[number.end(1):]):
            (self.folder / "good").write_text(bad)
            self.assertRefused(run("plan", "search", self.spec, "--state", self.folder / "good"),
                               "is not a row of a search")
        model = self.folder / "small.toml"
        for option in ("--json", "--state"):
            self.assertRefused(run("plan", "search", self.spec, option, model), model, "is also an input")
        self.assertEqual(model.read_text(), MODEL)
        same = ("--state", self.folder / "both", "--json", self.folder / "." / ".." / self.folder.name / "both")
        self.assertRefused(run("plan", "search", self.spec, *same), "two outputs have this name")
        for change, part in (("[[model]]\nfile = 'none.toml'", "model/file: there is no file"),
                             ("[[model]]\nfile = 'small.toml'\n[[model]]\nfile = 'small.toml'", "two models have the name"),
                             ("[[model]]\nfile = 'spec.toml'", "model: expected a section, found a list"),
                             ("[search]\nengine = 'gurobi'", "unknown choice 'gurobi'"), ("[search", "not TOML")):
            with self.subTest(change):
                self.assertRefused(run("plan", "search", self.write("spec.toml", change)), part)


if __name__ == "__main__":
    support.main()
