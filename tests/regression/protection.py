"""The user's files, results of earlier runs, and messages about what cannot be read or written.

Nothing outside the test's own folder is written, and no device node is touched: pipes are used instead.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import zipfile
from pathlib import Path

import support
from machine import Job
from support import NOBODY, complaints, contents, finish, give_to_nobody, run, start, train, with_fault


class Protected(support.RunTest):
    def setUp(self):
        super().setUp()
        self.run_directory = self.folder / "run"


class Outputs(Protected):
    def setUp(self):
        super().setUp()
        train(self.run_directory, self.deck)
        self.writers = {"predictions": ("evaluate", self.run_directory, "--predictions"),
                        "export": ("export", self.run_directory, "-o")}

    def test_what_is_read_is_not_overwritten(self):
        parameters = self.run_directory / "parameters.h5"
        link, twin, copy = (self.folder / name for name in ("link.npz", "twin.npz", "same.npz"))
        link.symlink_to(parameters)
        os.link(parameters, twin)
        copy.write_bytes(parameters.read_bytes())
        before = contents(self.folder)
        (self.run_directory / "checkpoints").mkdir()
        superseded = self.run_directory / "checkpoints" / "step-000000010.h5.superseded"
        superseded.write_text("a checkpoint")
        before = contents(self.folder)
        for target in (parameters, self.run_directory / "deck.toml", link, twin, superseded):
            self.assertUntouched(run("evaluate", self.run_directory, "--predictions", target), before, target, "also an input")
        for target in (link, twin):
            self.assertUntouched(run("export", self.run_directory, "-o", target, ranks=2), before, target, "also an input")
        self.assertUntouched(run("export", copy, "-o", copy), before, copy, "also an input")

    def test_names_of_a_run_are_not_taken(self):
        """Also those of files that it does not have yet: the run could not go on."""
        absent = [self.run_directory / name for name in ("workers.csv", "trace.json", "deck.toml.partial", "output_now",
                                                         ".partita.lock")]
        link = self.folder / "link.npz"
        link.symlink_to(absent[0])
        before = contents(self.folder)
        for target in (*absent, link, self.run_directory / ".." / "run" / "workers.csv"):
            self.assertUntouched(run("evaluate", self.run_directory, "--predictions", target), before,
                                 "is the name of a file that may be added to the input")
        self.assertDone(run("evaluate", self.run_directory, "--predictions", self.run_directory / "predictions.npz"))
        (self.folder / "lone").mkdir()
        shutil.copy(self.run_directory / "parameters.h5", self.folder / "lone" / "best.h5")
        self.assertDone(run("evaluate", self.folder / "lone" / "best.h5", "--predictions", self.folder / "lone" / "new.npz"))

    def test_a_full_disk_is_told_in_one_line(self):
        full = self.folder / "full.npz"
        full.symlink_to("/dev/full")
        for name, command in self.writers.items():
            for ranks in (1, 2):
                with self.subTest(name, ranks=ranks):
                    result = run(*command, full, ranks=ranks)
                    self.assertEqual(result.returncode, 1, result.stderr)
                    self.assertEqual([line for line in result.stderr.splitlines() if "partita" in line],
                                     [f"partita: {full}: cannot be written: No space left on device"])
                    self.assertNotIn("MPI_ABORT", result.stderr)

    def test_files_of_another_kind_are_not_replaced(self):
        deck, odd = self.write("other.toml", "[run]\n"), self.write("odd.npz.txt", "notes")
        before = contents(self.folder)
        for target in (deck, odd, self.folder / "new", self.folder / "new.NPZ", "/dev/stdout"):
            for ranks in (1, 2):
                self.assertUntouched(run("evaluate", self.run_directory, "--predictions", target, ranks=ranks), before,
                                     f"'{target}' must end in .npz")

    def test_data_are_not_overwritten(self):
        data, overrides = self.libsvm()
        folder = self.folder / "svm"
        train(folder, self.deck, *overrides, "strategy/kind=joint")
        before = contents(self.folder)
        self.assertUntouched(run("evaluate", folder, "--predictions", data[1]), before, data[1], "also an input")

    def test_what_is_no_file_stays_what_it_is(self):
        for name, command in self.writers.items():
            pipe = self.folder / f"{name}.npz"
            os.mkfifo(pipe)
            received = []
            reader = threading.Thread(target=lambda: received.append(pipe.read_bytes()), daemon=True)
            reader.start()
            self.assertEqual(run(*command, pipe).returncode, 0)
            reader.join(support.HANGS)
            self.assertTrue(pipe.is_fifo())
            self.assertEqual(received[0][:2], b"PK")

    def test_links_stay_links(self):
        for name, command in self.writers.items():
            target, link = self.folder / f"{name}-target", self.folder / f"{name}.npz"
            target.touch()
            target.chmod(0o600)
            link.symlink_to(target)
            self.assertEqual(run(*command, link).returncode, 0)
            self.assertTrue(link.is_symlink())
            self.assertEqual(target.read_bytes()[:2], b"PK")
            self.assertEqual(target.stat().st_mode & 0o777, 0o600)

    def test_neighbours_are_left_alone(self):
        for name, command in self.writers.items():
            neighbour = self.write(f"{name}.npz.partial", "somebody's")
            self.assertEqual(run(*command, self.folder / f"{name}.npz").returncode, 0)
            self.assertEqual(neighbour.read_text(), "somebody's")

    def test_a_failed_output_leaves_nothing_and_is_the_fault_of_the_system(self):
        """A limit that MPI itself can live with, and files beyond it."""
        limit = ["bash", "-c", 'ulimit -f 8192; "$@"', "bash", sys.argv[1]]
        wide = 'network/layers=[{ type = "dense", units = 1800 }, { type = "dense", units = 1800 }, { type = "dense" }]'
        training = ("train", self.deck, wide, "strategy/kind=joint", "run/steps=1")
        self.assertDone(run(*training, "-d", self.folder / "wide"))
        target = self.folder / "full.npz"
        for command in (("evaluate", self.folder / "wide", "data/test_samples=40000", "--predictions", target),
                        ("export", self.folder / "wide", "-o", target), (*training, "-d", self.folder / "train")):
            result = subprocess.run([*limit, *map(str, command)], capture_output=True, text=True, timeout=support.HANGS)
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertRegex(complaints(result)[-1], "cannot be written: File too large|is the disk full")
            self.assertEqual([path for path in self.folder.rglob("*") if path.name.startswith("full") or ".partial" in path.name],
                             [])

    def test_an_interrupted_output_leaves_nothing(self):
        """The signal comes while the output is being written to the disk."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE, signal.SIGUSR2):
            with Job("evaluate", self.run_directory, "--predictions", self.folder / "stopped.npz",
                     environment=with_fault(f"sync:0:{support.HANGS}")) as job:
                job.until(lambda: "faults: " in job.said(), "the fault")
                self.assertNotEqual(list(self.folder.glob("stopped*")), [])
                job.signal(number)
                self.assertEqual(job.finish().returncode, -number)
            self.assertEqual(list(self.folder.glob("stopped*")), [])

    def test_an_output_that_is_interrupted_at_any_time_is_whole_or_absent(self):
        target = self.folder / "stopped.npz"
        for _ in range(3):
            with Job("evaluate", self.run_directory, "--predictions", target) as job:
                job.wait_for(lambda: list(self.folder.glob("stopped*")))
                job.signal(signal.SIGTERM)
                code = job.finish().returncode
            self.assertIn(code, (0, -signal.SIGTERM))
            left = list(self.folder.glob("stopped*"))
            if code == 0 or left:  # the signal may also come between the end of the output and that of the program
                self.assertEqual(left, [target])
                with zipfile.ZipFile(target) as archive:
                    self.assertIsNone(archive.testzip())
                target.unlink()

    def test_an_unwritable_table_is_noticed_before_it_is_measured(self):
        begin = time.monotonic()
        self.assertRefused(run("bench", "--json", self.folder / "nowhere" / "x.json"), "cannot be written")
        for override in ("data/sequence=64", "strategy.stages=2"):
            self.assertRefused(run("bench", override), "have their own data, network and strategy")
        self.assertRefused(run("bench", "training/batch=32"), "have their own batches")
        self.assertLess(time.monotonic() - begin, support.within(5))

    def test_printed_output_that_cannot_be_written_is_a_failure(self):
        reader, writer = os.pipe()
        os.close(reader)
        for arguments in (["--help"], ["info"], ["evaluate", self.run_directory], ["info", self.run_directory],
                          ["train", self.deck, "-n"]):
            process = start(*arguments, outputs=(writer, subprocess.PIPE),
                            before=lambda: signal.signal(signal.SIGPIPE, signal.SIG_IGN))
            result = finish(process)
            self.assertEqual(result.returncode, 1, arguments)
            self.assertIn("standard output could not be written", complaints(result)[-1])
        os.close(writer)
        environment = {**os.environ, **support.ANY_ORDER}  # stdbuf loads a library of its own
        for way in ([], ["stdbuf", "-o0"]):  # without a buffer, printing fails and flushing does not
            closed = subprocess.run(["bash", "-c", '"$@" >&-', "bash", *way, sys.argv[1], "info"], capture_output=True,
                                    text=True, env=environment)
            self.assertEqual(closed.returncode, 1, way)
        kept = self.folder / "closed"
        closed = subprocess.run(["bash", "-c", '"$@" <&- >&- 2>&-', "bash", sys.argv[1], "train", self.deck, "-d", kept])
        self.assertEqual(closed.returncode, 0)
        self.assertEqual((kept / "history.csv").read_text()[:7], "time_s,")


class Plans(Protected):
    def setUp(self):
        super().setUp()
        self.files, self.svm = self.libsvm()
        self.cluster = self.folder / "cluster.toml"
        self.cluster.write_text("[cluster]\nname = 'two'\n")

    def test_what_is_read_is_not_overwritten(self):
        two = [self.deck, "--ranks", "2"]
        commands = {("deck", "-o"): two, ("deck", "--json"): [*two, "-o", self.folder / "out.toml"],
                    ("place", "-o"): two, ("place", "--json"): two, ("predict", "--json"): [self.deck]}
        before = contents(self.folder)
        for (command, option), words in commands.items():
            for target in (self.deck, self.cluster, *self.files):
                with self.subTest(f"{command} {option} {target}"):
                    result = run("plan", command, *words, *self.svm, "--cluster", self.cluster, option, target)
                    self.assertUntouched(result, before, target, "also an input")
        result = run("plan", "predict", self.deck, f"run/cluster={self.cluster}", "--json", self.cluster)
        self.assertUntouched(result, before, self.cluster, "also an input")
        for command in ("deck", "place"):
            result = run("plan", command, self.deck, "--ranks", "2", "-o", self.folder / "a.toml", "--json",
                         self.folder / "." / "a.toml")
            self.assertUntouched(result, before, "two outputs have this name")
        for one, other in (("x", "x.partial"), ("x.partial", "x"), ("x", "x.partial-2")):
            self.assertUntouched(run("plan", "deck", self.deck, "--ranks", 1, "-o", self.folder / one, "--json",
                                     self.folder / other), before, "of the other with .partial appended")

    def test_the_run_of_a_deck_is_not_overwritten(self):
        train(self.run_directory, self.deck)
        deck, link = self.run_directory / "deck.toml", self.folder / "link.toml"
        link.symlink_to(deck)
        before = contents(self.folder)
        for target in (self.run_directory / "parameters.h5", self.run_directory / "history.csv"):
            for words in (("predict", deck, "--ranks", "1", "--json"), ("predict", link, "--ranks", "1", "--json"),
                          ("deck", deck, "--ranks", "1", "-o"), ("place", deck, "--ranks", "1", "--json"),
                          ("calibrate", deck, "-o")):
                self.assertUntouched(run("plan", *words, target), before, target, "also an input")
        for _ in range(2):  # a deck is no run
            self.assertDone(run("plan", "deck", self.deck, "--ranks", "1", "-o", self.folder / "deck.toml"))
        self.assertDone(run("plan", "predict", self.deck, "--ranks", "1", "--json", self.folder / "summary.json"))
        (self.folder / "parameters.h5").mkdir()
        self.assertDone(run("plan", "predict", self.deck, "--ranks", "1", "--json", self.folder / "trace.json"))

    def test_models_of_a_search_are_not_overwritten(self):
        """Nor what their decks read."""
        deck = self.write("svm.toml", f"""
[run]
cluster = "{self.cluster}"
[data]
kind = "libsvm"
path = "{self.folder}"
train_file = "train.txt"
test_file = "test.txt"
[network]
layers = [{{ type = "dense", units = 8 }}, {{ type = "dense" }}]
[training]
batch = 10
""")
        spec = self.write("spec.toml", """
[search]
devices = 2
batch = 4
[architectures]
every = 10000
[[model]]
file = "svm.toml"
[[case]]
memory = 8e6
""")
        before = contents(self.folder)
        for option in ("--json", "--state"):
            for target in (deck, self.cluster, *self.files):
                with self.subTest(f"{option} {target}"):
                    self.assertUntouched(run("plan", "search", spec, option, target), before, target, "also an input")

    def test_an_output_that_may_not_be_written_stays(self):
        train(self.run_directory, self.deck)
        (self.folder / "open").mkdir()
        (self.folder / "open").chmod(0o777)
        output = self.folder / "open" / "p.npz"
        output.write_text("mine")
        output.chmod(0o444)
        result = self.as_nobody("export", self.run_directory / "parameters.h5", "-o", output, "--overwrite")
        self.assertNotEqual(result.returncode, 0)
        self.assertEqual(output.read_text(errors="replace"), "mine")

    def test_runs_are_not_overwritten(self):
        train(self.run_directory, self.deck, f"run/cluster={support.CLUSTER}")
        before = contents(self.folder)
        for name in ("parameters.h5", "summary.json", "deck.toml"):
            result = run("plan", "calibrate", "--from", self.run_directory, "-o", self.run_directory / name)
            self.assertUntouched(result, before, "also an input")


class RunDirectories(Protected):
    def test_results_are_not_overwritten(self):
        train(self.run_directory, self.deck)
        before = contents(self.folder)
        for more in ([], ["run/seed=4"], ["-r", self.run_directory / "parameters.h5"]):
            self.assertUntouched(run("train", self.deck, "-d", self.run_directory, *more), before, "-r latest",
                                 "--overwrite", f"-d {self.run_directory}-2")
        for more in ([], [self.deck]):  # a finished run has nothing to go on from, and nothing to do
            self.assertDone(run("train", *more, "-d", self.run_directory, "-r", "latest"))
            self.assertEqual(contents(self.folder), before)
        self.assertUntouched(run("train", self.deck, "-d", self.run_directory, "-r", "latest", "run/epochs=5"), before,
                             "run/epochs: 2 -> 5")
        self.assertDone(run("train", self.deck, "run/seed=4", "-d", self.run_directory, "--overwrite"))
        self.assertEqual(support.summary_of(self.run_directory)["seed"], 4)

    def test_results_stay_whatever_a_run_continues_from(self):
        """A checkpoint in the middle of a run that went on to its end, and other decks: nothing gets lost."""
        folder = self.run_directory
        train(folder, self.deck, "checkpoint/every=10", "checkpoint/keep=9")
        (folder / "checkpoints" / "step-000000030.h5").unlink()
        before = contents(self.folder)
        arguments = ("train", self.deck, "checkpoint/every=10", "checkpoint/keep=9", "-d", folder)
        self.assertDone(run(*arguments, "-r", "latest"))
        self.assertEqual(contents(self.folder), before)  # nothing to do
        self.assertDone(run(*arguments, "run/epochs=3", "-r", "latest"))
        for name in ("summary.json", "parameters.h5"):
            self.assertEqual((folder / f"{name}.superseded").read_bytes(), before[str(folder / name)])
        rows = len(support.history(folder))
        other = run(*arguments, "run/epochs=5", "training/batch=80", "-r", "latest")
        self.assertEqual(other.returncode, 0, other.stderr)
        self.assertEqual(len((folder / "history.csv.superseded").read_text().splitlines()), rows + 1)

    def test_a_finished_run_is_left_alone(self):
        """Also one with a checkpoint of its end: its summary and trace may say more than a second evaluation."""
        arguments = ("train", self.deck, "strategy/kind=pipeline", "run/trace=5", "checkpoint/every=15", "-d", self.run_directory)
        self.assertWorked(run(*arguments, ranks=2))
        before = contents(self.folder)
        self.assertGreater(len(json.loads(before[str(self.run_directory / "trace.json")])["traceEvents"]), 5)
        result = run(*arguments, "-r", "latest", ranks=2)
        self.assertDone(result)
        self.assertIn("contains a finished run: nothing to do", result.stdout)
        self.assertEqual(contents(self.folder), before)

    def test_a_run_that_died_while_it_wrote_its_results(self):
        """Without a summary it has not finished, even if the parameters are there."""
        for every in (0, 15, 20):  # no checkpoint, one of the end, and older ones only
            with self.subTest(every=every):
                folder = self.folder / f"every-{every}"
                arguments = ("train", self.deck, f"checkpoint/every={every}", "-d", folder)
                self.assertDone(run(*arguments))
                wanted = support.summary_of(folder)["parameters_hash"]
                (folder / "summary.json").unlink()
                if every == 20:
                    (folder / "checkpoints" / "step-000000030.h5").unlink()
                self.assertWorked(run(*arguments, "-r", "latest"))
                self.assertEqual(support.summary_of(folder)["parameters_hash"], wanted)

    def test_a_finished_run_without_readable_parameters(self):
        train(self.run_directory, self.deck)
        path = self.run_directory / "parameters.h5"
        content = bytearray(path.read_bytes())
        content[len(content) // 2:len(content) // 2 + 400] = bytes(400)
        path.write_bytes(content)
        before = contents(self.folder)
        self.assertUntouched(run("train", self.deck, "-d", self.run_directory, "-r", "latest"), before,
                             "parameters.h5 of the finished run is damaged", "--overwrite")

    def test_what_a_run_begins_with_stays(self):
        train(self.run_directory, self.deck, "checkpoint/every=10", "checkpoint/keep=9")
        link = self.folder / "link.h5"
        link.symlink_to(self.run_directory / "checkpoints" / "step-000000020.h5")
        start_file = self.run_directory / "parameters.h5"
        parameters = start_file.read_bytes()
        result = run("train", self.deck, "-r", start_file, "-d", self.run_directory, "--overwrite", "run/steps=0",
                     "data/samples=20")  # refused in the end: nothing was removed
        self.assertEqual((result.returncode, start_file.read_bytes()), (2, parameters))
        self.assertWorked(run("train", self.deck, "-r", link, "-d", self.run_directory, "--overwrite"))
        self.assertTrue(link.exists())

    def test_damaged_checkpoints_cost_no_history(self):
        train(self.run_directory, self.deck, "checkpoint/every=10")
        rows = (self.run_directory / "history.csv").read_text()
        for name in ("summary.json", "parameters.h5"):
            (self.run_directory / name).unlink()
        for path in support.checkpoints(self.run_directory).values():
            path.write_bytes(path.read_bytes()[:2000])
        self.assertEqual(run("train", self.deck, "-d", self.run_directory, "-r", "latest").returncode, 0)
        self.assertEqual((self.run_directory / "history.csv.superseded").read_text(), rows)

    def place_of_values(self, checkpoint):
        """Where a checkpoint has values that its export has as well."""
        archive = self.folder / "values.npz"
        self.assertDone(run("export", checkpoint, "-o", archive))
        content = checkpoint.read_bytes()
        with zipfile.ZipFile(archive) as arrays:
            ends = [arrays.read(name)[-64:] for name in arrays.namelist()]
        places = [content.find(end) for end in ends if any(end)]
        self.assertGreater(max(places), 0)
        return max(places)

    def test_wrong_checksums_cost_no_file(self):
        """Not even with --overwrite, which replaces only what comes after the checkpoint to continue from."""
        train(self.run_directory, self.deck, "checkpoint/every=10", "checkpoint/keep=1")
        for name in ("summary.json", "parameters.h5"):
            (self.run_directory / name).unlink()
        (newest,) = support.checkpoints(self.run_directory).values()
        whole = bytearray(newest.read_bytes())
        whole[self.place_of_values(newest)] ^= 1
        newest.write_bytes(whole)
        rows = (self.run_directory / "history.csv").read_text()
        result = run("train", self.deck, "-d", self.run_directory, "-r", "latest", "--overwrite")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("skipped: ", result.stderr)
        self.assertEqual((self.run_directory / "history.csv.superseded").read_text(), rows)
        self.assertEqual(newest.with_name(newest.name + ".superseded").read_bytes(), whole)

    def test_a_changed_deck_is_kept(self):
        folder = self.folder / "edited"
        train(folder, self.deck, "checkpoint/every=10")
        edited = (folder / "deck.toml").read_text().replace("seed = 3", "seed = 3 # my choice")
        (folder / "deck.toml").write_text(edited)
        self.assertWorked(run("train", folder / "deck.toml", "run/epochs=3", "-d", folder, "-r", "latest"))
        self.assertEqual((folder / "deck.toml.superseded").read_text(), edited)

    def test_a_changed_value_of_the_deck_is_kept(self):
        """Also where the text could have been written by the program."""
        folder = self.run_directory
        train(folder, self.deck, "checkpoint/every=10")
        edited = (folder / "deck.toml").read_text().replace("seed = 3 ", "seed = 4 ")
        self.assertNotEqual(edited, (folder / "deck.toml").read_text())
        (folder / "deck.toml").write_text(edited)
        result = run("train", "run/epochs=3", "-d", folder, "-r", "latest")
        self.assertWorked(result)
        self.assertEqual(complaints(result), [
            f"warning: the deck in the run directory differs from that of {folder}/parameters.h5 and was renamed to "
            f"{folder}/deck.toml.superseded"])
        self.assertEqual((folder / "deck.toml.superseded").read_text(), edited)
        self.assertDone(run("train", "run/epochs=4", "-d", folder, "-r", "latest"))  # this one the program wrote
        self.assertFalse((folder / "deck.toml.superseded-2").exists())

    def test_links_are_not_written_through(self):
        other, folder = self.folder / "other", self.run_directory
        train(other, self.deck)
        before = contents(other)
        folder.mkdir()
        (folder / "deck.toml").symlink_to("../other/deck.toml")
        result = run("train", folder / "deck.toml", "run/seed=2", "-d", folder)
        self.assertWorked(result)
        self.assertIn(f"warning: a link in the run directory was renamed to {folder}/deck.toml.superseded: the run writes "
                      "a file of its own in its place", complaints(result))
        self.assertEqual(contents(other), before)
        self.assertTrue((folder / "deck.toml.superseded").is_symlink())
        self.assertFalse((folder / "deck.toml").is_symlink())
        self.assertIn("seed = 2 ", (folder / "deck.toml").read_text())

    def test_checkpoints_of_another_run_are_not_reached_through_a_link(self):
        other, folder, link = self.folder / "other", self.run_directory, self.run_directory / "checkpoints"
        train(other, self.deck, "checkpoint/every=10", "checkpoint/keep=9")
        folder.mkdir()
        (self.folder / "detour").symlink_to("other/checkpoints")
        for target in ("../other/checkpoints", other / "checkpoints", "../detour"):
            link.symlink_to(target)
            before = contents(self.folder)
            for more in ([], ["--overwrite"], ["-r", "latest"], ["-r", link / "step-000000010.h5", "--overwrite"]):
                self.assertUntouched(run("train", self.deck, "-d", folder, *more), before,
                                     f"{link}: leads to the checkpoints of another run, in ", "other'; remove this link")
            link.unlink()

    def test_checkpoints_may_be_in_a_folder_of_their_own(self):
        place = self.folder / "elsewhere" / "checkpoints"
        place.mkdir(parents=True)
        self.run_directory.mkdir()
        (self.run_directory / "checkpoints").symlink_to(place)
        for more in ([], ["--overwrite"]):
            self.assertDone(run("train", self.deck, "checkpoint/every=10", "-d", self.run_directory, *more))
            self.assertEqual(sorted(path.name for path in place.iterdir()), ["step-000000020.h5", "step-000000030.h5"])

    def test_a_history_that_is_a_link_continues_as_a_copy(self):
        folder, elsewhere = self.run_directory, self.folder / "elsewhere.csv"
        train(folder, self.deck, "checkpoint/every=10")
        (folder / "history.csv").rename(elsewhere)
        (folder / "history.csv").symlink_to(elsewhere)
        text = elsewhere.read_text()
        self.assertWorked(run("train", "run/epochs=3", "-d", folder, "-r", "latest"))
        self.assertEqual(elsewhere.read_text(), text)
        self.assertFalse((folder / "history.csv").is_symlink())
        continued = (folder / "history.csv").read_text()
        self.assertEqual((continued[:len(text)], len(continued) > len(text)), (text, True))

    def test_files_that_may_not_be_read_are_somebodys(self):
        for name in ("history.csv", "summary.json", "deck.toml", "history.csv.partial"):
            folder = self.folder / f"with-{name}"
            folder.mkdir()
            path = folder / name
            path.write_text("somebody's\n")
            if os.geteuid() == 0:
                os.chown(folder, NOBODY, NOBODY)
            before = contents(self.folder)
            path.chmod(0)
            results = [self.as_nobody("train", self.deck, "-d", folder, *more)
                       for more in ([], ["--overwrite"], ["-r", "latest"])]
            path.chmod(0o600)
            for result in results:
                self.assertUntouched(result, before, path, "cannot be read: Permission denied")

    def test_a_checkpoint_of_another_name(self):
        train(self.run_directory, self.deck, "checkpoint/every=30")
        best = self.run_directory / "checkpoints" / "best.h5"
        support.checkpoints(self.run_directory)[30].rename(best)
        before = contents(self.folder)
        self.assertUntouched(run("train", self.deck, "-r", best, "-d", self.run_directory), before, "--overwrite")

    def test_each_result_protects_its_directory(self):
        train(self.run_directory, self.deck, "checkpoint/every=10", "run/trace=2", "strategy/kind=joint")
        for name in ("history.csv", "summary.json", "parameters.h5", "trace.json", "checkpoints/step-000000020.h5"):
            folder = self.folder / name.replace("/", "-")
            (folder / "checkpoints").mkdir(parents=True)
            (folder / name).write_bytes((self.run_directory / name).read_bytes())
            before = contents(folder)
            self.assertRefused(run("train", self.deck, "-d", folder), name, "of an earlier run")
            self.assertEqual(contents(folder), before)

    def test_a_table_that_cannot_be_read_keeps_its_rows(self):
        train(self.run_directory, self.deck, "checkpoint/every=10")
        before = (self.run_directory / "history.csv").read_bytes()
        result = run("train", self.deck, "run/epochs=3", "-d", self.run_directory, "-r", "latest",
                     environment=with_fault("table:0:0"))
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("history.csv: cannot be read: Input/output error", result.stderr)
        self.assertEqual((self.run_directory / "history.csv").read_bytes(), before)

    def test_rows_that_the_system_gives_up_are_reported(self):
        """NFS and Lustre may accept rows and report a quota only when they are synchronised."""
        result = run("train", self.deck, "-d", self.run_directory, environment=with_fault("quota:0:0"))
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("history.csv: cannot be written: Disk quota exceeded", result.stderr)
        self.assertFalse((self.run_directory / "summary.json").exists())
        self.assertTrue((self.run_directory / "parameters.h5").exists())

    def test_results_that_may_not_be_removed_stay_together(self):
        train(self.run_directory, self.deck, "checkpoint/every=10")
        kept = ("history.csv", "summary.json", "parameters.h5", "checkpoints/step-000000030.h5")
        before = [(self.run_directory / name).read_bytes() for name in kept]
        give_to_nobody(self.run_directory)
        (self.run_directory / "checkpoints").chmod(0o555)
        try:
            result = self.as_nobody("train", self.deck, "run/epochs=3", "-d", self.run_directory, "--overwrite")
        finally:
            (self.run_directory / "checkpoints").chmod(0o755)
        self.assertRefused(result, "step-", "cannot be removed: Permission denied")
        self.assertEqual([(self.run_directory / name).read_bytes() for name in kept], before)

    def test_tables_that_may_not_be_written_change_nothing(self):
        train(self.run_directory, self.deck, "checkpoint/every=10")
        give_to_nobody(self.run_directory)
        for name in ("history.csv", "deck.toml"):
            path = self.run_directory / name
            path.chmod(0o444)
            before = contents(self.folder)
            result = self.as_nobody("train", self.deck, "run/epochs=3", "-d", self.run_directory, "-r", "latest")
            self.assertUntouched(result, before, name, "cannot be written: Permission denied")
            path.chmod(0o644)

    def test_one_file_that_may_not_be_read_protects_the_others(self):
        train(self.run_directory, self.deck)
        parameters = self.run_directory / "parameters.h5"
        give_to_nobody(self.run_directory)
        parameters.chmod(0)
        summary = self.run_directory / "summary.json"
        before = summary.read_bytes()
        result = self.as_nobody("plan", "predict", self.deck, "--ranks", 1, "--json", summary)
        self.assertRefused(result, "has the name of a file of the run in this directory")
        self.assertEqual(summary.read_bytes(), before)

    def test_a_run_does_not_remove_what_it_begins_with(self):
        train(self.run_directory, self.deck, "checkpoint/every=10")
        folder = self.run_directory / "checkpoints"
        (folder / "step-000000030.h5").rename(folder / "step-000000030.h5.partial")
        shutil.copy(self.run_directory / "deck.toml", self.run_directory / "deck.toml.partial")
        shutil.copy(self.deck, self.run_directory / "output_now")
        partial, begin = folder / "step-000000030.h5.partial", ("-d", self.run_directory, "--overwrite")
        before = contents(self.folder)
        for command in ((self.deck, "-r", partial), (self.run_directory / "deck.toml.partial",),
                        (self.run_directory / "output_now",)):
            self.assertUntouched(run("train", *command, *begin), before, "a run in this directory removes")

    def test_a_link_beside_the_checkpoints(self):
        train(self.run_directory, self.deck, "checkpoint/every=10")
        folder = self.run_directory / "checkpoints"
        (self.run_directory / "parameters.h5").unlink()
        (folder / "best.h5").symlink_to("step-000000030.h5")
        result = run("train", self.deck, "run/epochs=3", "-d", self.run_directory, "-r", folder / "best.h5")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("at step 30 of 45", result.stdout)
        self.assertNotIn("superseded", result.stderr)
        self.assertDone(run("export", folder / "step-000000030.h5", "-o", folder / "step-000000030.npz"))

    def test_a_checkpoint_that_is_a_link(self):
        train(self.run_directory, self.deck, "checkpoint/every=10")
        (self.run_directory / "parameters.h5").unlink()
        newest = self.run_directory / "checkpoints" / "step-000000030.h5"
        newest.rename(self.folder / "elsewhere.h5")
        newest.symlink_to(self.folder / "elsewhere.h5")
        before = (self.folder / "elsewhere.h5").read_bytes()
        result = run("train", self.deck, "run/epochs=3", "-d", self.run_directory, "-r", "latest")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("at step 30 of 45", result.stdout)
        self.assertNotIn("superseded", result.stderr)
        self.assertEqual((self.folder / "elsewhere.h5").read_bytes(), before)

    def test_files_of_other_runs_are_no_outputs(self):
        train(self.run_directory, self.deck, "checkpoint/every=10")
        other = self.folder / "other"
        train(other, self.deck, "checkpoint/every=10")
        before = contents(self.folder)
        said = "has the name of a file of the run in this directory"
        for name in ("history.csv", "deck.toml", ".partita.lock", "trace.json", "checkpoints", "checkpoints/step-000000030.h5",
                     "checkpoints/step-000000099.h5", "checkpoints/step-000000099.h5.partial"):
            self.assertUntouched(run("evaluate", self.run_directory, "--predictions", other / name), before, said)
        for command in (("plan", "predict", self.deck, "--ranks", 1, "--json"), ("plan", "deck", self.deck, "--ranks", 1, "-o"),
                        ("plan", "calibrate", "--quick", "-o"), ("bench", "--quick", "--only", "mlp", "--json"), ("export", self.run_directory, "-o")):
            self.assertUntouched(run(*command, other / "summary.json"), before)
        name = self.run_directory / "checkpoints" / "step-000000099.h5"
        self.assertUntouched(run("evaluate", self.run_directory, "--predictions", name), before, said)

    def test_a_full_disk_is_noticed_before_a_checkpoint(self):
        """A file needs space for its values and 1 MiB more."""
        wide = 'network/layers=[{ type = "dense", units = 300, activation = "relu", repeat = 5 }, { type = "dense" }]'
        for free, network, written in (("1000000", (), False), ("2000000", (), True), ("2000000", (wide,), False)):
            for ranks in (1, 2):
                with self.subTest(free=free, network=network, ranks=ranks):
                    folder = self.folder / f"run-{free}-{len(network)}-{ranks}"
                    result = run("train", self.deck, *network, "checkpoint/every=10", "-d", folder, ranks=ranks,
                                 environment=with_fault(f"space:0:{free}"))
                    self.assertEqual(result.returncode, 0, result.stderr)
                    full = [line for line in complaints(result) if "the disk is full (" in line]
                    self.assertEqual(len(full), 0 if written else 3, result.stderr)
                    self.assertEqual(bool(support.checkpoints(folder)), written)
                    self.assertTrue((folder / "parameters.h5").exists())

    def test_contents_are_on_the_disk_before_their_name(self):
        """Otherwise, after a crash of the machine, an empty file may have replaced a whole one."""
        environment = with_fault("order:0:0")
        for ranks in (1, 2):
            with self.subTest(ranks=ranks):
                folder = self.folder / f"run-{ranks}"
                result = run("train", self.deck, "checkpoint/every=10", "-d", folder, ranks=ranks,
                             environment=environment)
                self.assertEqual(result.returncode, 0, result.stderr)
                named = sorted((Path(name).name, order) for order, name in
                               re.findall(r"^faults: (.*synchronised) (.*\.h5)$", result.stderr, re.MULTILINE))
                self.assertEqual(named, [(name, "synchronised") for name in (
                    "parameters.h5", "step-000000010.h5", "step-000000020.h5", "step-000000030.h5")])

    def test_files_of_others_are_not_touched(self):
        own = self.write("deck.toml", "# my own comments\n" + support.SMALL_DECK)
        before = contents(self.folder)
        self.assertUntouched(run("train", own, "-d", self.folder), before, own, "is not a Partita file")
        for name in ("history.csv", "summary.json", "parameters.h5", "trace.json", "deck.toml", ".partita.lock",
                     "checkpoints", "deck.toml.partial", "parameters.h5.partial", "checkpoints/step-000000010.h5",
                     "checkpoints/step-000000010.h5.partial"):
            folder = self.folder / f"with-{name.replace('/', '-')}"
            (folder / name).parent.mkdir(parents=True)
            (folder / name).write_text("somebody's\n")
            before = contents(self.folder)
            for more in ([], ["--overwrite"], ["-r", "latest"]):
                self.assertUntouched(run("train", self.deck, "-d", folder, *more), before, name)

    def test_only_what_a_killed_run_was_writing_is_removed(self):
        folder = self.run_directory
        (folder / "checkpoints").mkdir(parents=True)
        foreign = [folder / name for name in ("a.partial", "mine.h5.partial", "checkpoints/b.partial", "output_now.txt",
                                              "checkpoints/step-one.h5", "checkpoints/step-1.h5.partial")]
        for path in foreign:
            path.write_text("somebody's")
        left = [folder / "deck.toml.partial", folder / "checkpoints" / "step-000000010.h5.partial"]
        for path in left:
            path.write_bytes(b"")
        self.assertDone(run("train", self.deck, "-d", folder, "checkpoint/every=10"))
        self.assertEqual([path.read_text() for path in foreign], ["somebody's"] * len(foreign))
        self.assertEqual([path for path in left if path.exists()], [])

    def test_a_folder_that_not_all_ranks_see(self):
        """Each rank has a current folder of its own, as folders of nodes are."""
        for name in ("a", "b"):
            (self.folder / name).mkdir()
        script = 'cd "$1/$(test "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" = 0 && echo a || echo b)"; shift; exec "$@"'
        command = [os.environ.get("PARTITA_MPIEXEC", "mpiexec"), "-n", "2", "bash", "-c", script, "bash", self.folder,
                   sys.argv[1], "train", self.deck, "-d", "run"]
        begin = time.monotonic()
        result = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=support.HANGS)
        self.assertRefused(result, "run directory 'run' on rank 1 is not that of rank 0")
        self.assertLess(time.monotonic() - begin, support.within(20))

    def test_ranks_with_other_arguments(self):
        mpiexec = os.environ.get("PARTITA_MPIEXEC", "mpiexec")
        for first, second in ((["-d", self.folder / "a"], ["-d", self.folder / "b"]), (["-d", self.folder / "a"], []),
                              (["run/seed=1"], ["run/seed=2"])):
            command = [mpiexec, "-n", "1", sys.argv[1], "train", self.deck, *first, ":",
                       "-n", "1", sys.argv[1], "train", self.deck, *second]
            result = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=support.HANGS)
            self.assertRefused(result, "the command line of rank 1 differs from that of rank 0")
        for second in (["train", self.deck, "--bogus"], ["info"], ["--help"]):
            command = [mpiexec, "-n", "1", sys.argv[1], "train", self.deck, ":", "-n", "1", sys.argv[1], *second]
            result = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=support.HANGS)
            self.assertRefused(result, "'--bogus'" if "--bogus" in second else "the command line of rank 1 differs")

    def test_empty_and_odd_names(self):
        before = contents(self.folder)
        for option in ("-d", "-r"):
            self.assertUntouched(run("train", self.deck, option, ""), before, "is empty")
            self.assertUntouched(run("train", self.deck, option, "-n"), before, "looks like an option")
        for name in ("two\nlines", "tab\t", "\x7f"):
            for more in ([], ["-n"], ["-r", "latest"]):
                self.assertUntouched(run("train", self.deck, "-d", self.folder / name, *more), before,
                                     "--directory: contains a control character, such as a line break")
        for arguments in (["evaluate", "two\nlines"], ["info", "two\nlines"], ["plan", "predict", self.deck, "--json", "a\nb"]):
            self.assertUntouched(run(*arguments), before, "contains a control character")
        for arguments in (["evaluate", "x", "--predictions", ""], ["bench", "--json", ""], ["bench", "--json", "--quick"],
                          ["export", "x", "-o", ""]):
            self.assertUntouched(run(*arguments), before)

    def test_names_that_are_not_text(self):
        folder = os.fsencode(self.folder) + b"/run-\xff"
        command = [os.fsencode(sys.argv[1]), b"train", os.fsencode(self.deck), b"-d", folder]
        self.assertEqual(subprocess.run(command, capture_output=True).returncode, 0)
        with open(folder + b"/summary.json", "rb") as file:
            self.assertIn("run-\ufffd", file.read().decode())
        self.assertEqual(subprocess.run([os.fsencode(sys.argv[1]), b"evaluate", folder], capture_output=True).returncode, 0)
        refused = subprocess.run([*command[:3], b"data/path=/\xfe"], capture_output=True)
        self.assertEqual(refused.returncode, 2)
        self.assertIn(b"data/path: is not valid UTF-8", refused.stderr)

    def test_long_command_lines_can_be_read_again(self):
        folder = self.folder / "long"
        self.assertDone(run("train", self.deck, *["run/seed=5"] * 8000, "strategy/labels=orthogonal", "-d", folder))
        for command in ("evaluate", "info"):
            self.assertDone(run(command, folder))


class Unreadable(Protected):
    def setUp(self):
        super().setUp()
        train(self.run_directory, self.deck, "checkpoint/every=10", "run/steps=20")
        (self.run_directory / "summary.json").unlink()
        (self.run_directory / "parameters.h5").unlink()
        self.newest = self.run_directory / "checkpoints" / "step-000000020.h5"
        self.arguments = ("train", self.deck, "run/steps=20", "-d", self.run_directory, "-r", "latest")

    def test_checkpoints_that_may_not_be_read(self):
        give_to_nobody(self.run_directory)
        for path, mode in ((self.newest, 0), (self.newest.parent, 0)):
            before, old = contents(self.folder), path.stat().st_mode
            path.chmod(mode)
            result = self.as_nobody(*self.arguments)
            path.chmod(old & 0o777)
            self.assertRefused(result, path.name, "cannot be read: Permission denied")
            self.assertEqual(contents(self.folder), before)

    def test_a_disk_that_fails(self):
        before = contents(self.folder)
        broken = with_fault("disk:0:0")
        for arguments in (self.arguments, ("info", self.newest), ("evaluate", self.newest)):
            result = run(*arguments, environment=broken)
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertIn("cannot be read: Input/output error", complaints(result)[-1])
        self.assertEqual(contents(self.folder), before)

    def test_what_is_no_file(self):
        for make in (os.mkfifo, os.mkdir, lambda path: os.symlink(path, path)):
            later = self.newest.with_name("step-000000021.h5")
            make(later)
            before = contents(self.folder)
            self.assertUntouched(run(*self.arguments), before, later.name)
            for command in (("train", self.deck, "-r", later), ("evaluate", later), ("info", later)):
                result = run(*command)
                self.assertEqual(result.returncode, 2, result.stderr)
            later.rmdir() if later.is_dir() else later.unlink()

    def test_damage_is_skipped(self):
        self.newest.write_bytes(self.newest.read_bytes()[:3000])
        result = run(*self.arguments)
        self.assertEqual(result.returncode, 0)
        self.assertIn("skipped: ", complaints(result)[0])

    def test_messages(self):
        self.assertRefused(run("train", self.deck, "-r", self.run_directory), "is a folder",
                           f"-d {self.run_directory} -r latest", f"{self.run_directory}/checkpoints")
        text = self.newest.read_bytes()
        place = text.index(b"# The effective deck")
        broken = self.write("broken.h5", text[:place + 200] + b"X" + text[place + 201:])
        for command in (("evaluate", broken), ("info", broken), ("train", "-r", broken), ("export", broken, "-o", "x.npz")):
            result = run(*command)
            self.assertEqual(result.returncode, 2)
            self.assertRegex(complaints(result)[-1], "the deck in this file is damaged|'/deck' is damaged")


class Disturbed(Protected):
    ENDLESS = "run/epochs=1000000"

    def begin(self, *overrides):
        """A run that has written some rows. It prints more than a pipe holds, so it ends only if that is read."""
        process = start("train", self.deck, *(overrides or [self.ENDLESS]), "-d", self.run_directory)
        self.addCleanup(process.kill)
        table, end = self.run_directory / "history.csv", time.monotonic() + support.HANGS
        while not table.exists() or len(table.read_text().splitlines()) < 5:
            if process.poll() is not None:
                self.fail(f"the run ended before it wrote rows\n{finish(process).stderr}")
            self.assertLess(time.monotonic(), end, "no rows")
            time.sleep(0.02)
        return process

    def stop(self, process, signal_number):
        process.send_signal(signal_number)
        return finish(process)

    def test_a_terminal_that_closes(self):
        result = self.stop(self.begin(), signal.SIGHUP)
        self.assertEqual(result.returncode, 75, result.stderr)
        self.assertIn("stopped (SIGHUP)", result.stdout)
        self.assertEqual(len(support.checkpoints(self.run_directory)), 1)

    def test_a_directory_that_is_moved_and_made_again(self):
        """When the first run ends, it must not remove the lock of the second."""
        first = self.begin()
        self.run_directory.rename(self.folder / "moved")
        second = self.begin()
        self.stop(first, signal.SIGTERM)
        self.assertRefused(run("train", self.deck, "-d", self.run_directory), "is in use by process")
        self.stop(second, signal.SIGTERM)
        self.assertFalse((self.run_directory / ".partita.lock").exists())

    def test_a_lock_file_that_is_removed(self):
        """The directory is where it was, so the run keeps what it has learnt."""
        process = self.begin()
        (self.run_directory / ".partita.lock").unlink()
        result = self.stop(process, signal.SIGTERM)
        self.assertEqual(result.returncode, 75, result.stderr)
        self.assertEqual(len(support.checkpoints(self.run_directory)), 1)

    def test_a_history_that_is_removed(self):
        process = self.begin()
        (self.run_directory / "history.csv").unlink()
        result = self.stop(process, signal.SIGTERM)
        self.assertEqual(result.returncode, 75, result.stderr)
        self.assertIn("history.csv: was removed or replaced during the run", result.stderr)

    def test_files_that_appear_in_the_run_directory(self):
        process = self.begin("run/epochs=5000", "run/trace=2", "strategy/kind=joint")
        names = ("parameters.h5", "summary.json", "trace.json")
        for name in names:
            (self.run_directory / name).write_text("mine")
        result = finish(process)
        self.assertEqual(result.returncode, 0, result.stderr)
        for name in names:
            self.assertEqual((self.run_directory / f"{name}.superseded").read_text(), "mine")
            self.assertIn(f"{name}.superseded; the run did not write it", result.stderr)
            self.assertNotEqual((self.run_directory / name).read_bytes()[:4], b"mine")

    def test_links_that_appear_in_the_run_directory(self):
        """What they lead to stays as it is."""
        mine = self.folder / "mine.json"
        train(self.folder / "other", self.deck)
        shutil.copy(self.folder / "other" / "summary.json", mine)
        before = mine.read_bytes()
        process = self.begin("run/epochs=5000")
        (self.run_directory / "summary.json").symlink_to(mine)
        result = finish(process)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("summary.json.superseded; the run did not write it", result.stderr)
        self.assertEqual(mine.read_bytes(), before)
        self.assertFalse((self.run_directory / "summary.json").is_symlink())

    def test_a_moved_run_writes_no_checkpoint_elsewhere(self):
        process = self.begin()
        self.run_directory.rename(self.folder / "moved")
        self.run_directory.mkdir()
        result = self.stop(process, signal.SIGTERM)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("was moved or removed during the run", result.stderr)
        self.assertEqual(list(self.run_directory.iterdir()), [])

    def test_a_moved_run_leaves_the_file_that_has_the_name_of_its_own(self):
        """The checkpoint is being written while its directory is moved."""
        checkpoints, over = self.run_directory / "checkpoints", self.folder / "over"
        job = Job("train", self.deck, self.ENDLESS, "checkpoint/every=1", "-d", self.run_directory,
                  environment=support.with_fault(f"sync:0:{support.HANGS}", over))
        self.addCleanup(job.__exit__)
        job.until(lambda: "faults: " in job.said(), "the fault")  # now all of it is there
        own = next(checkpoints.glob("*.partial"))
        self.run_directory.rename(self.folder / "moved")
        checkpoints.mkdir(parents=True)
        own.write_text("own")
        job.signal(signal.SIGTERM)
        over.touch()
        result = job.finish()
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("was moved or removed during the run", result.stderr)
        self.assertEqual(own.read_text(), "own")

    def test_a_reader_that_goes(self):
        process = self.begin()
        process.stdout.readline()
        process.stdout.close()
        process.stdout = open(os.devnull)
        result = self.stop(process, signal.SIGTERM)
        self.assertEqual(result.returncode, 75, result.stderr)
        self.assertEqual(len(support.checkpoints(self.run_directory)), 1)


if __name__ == "__main__":
    support.main()
