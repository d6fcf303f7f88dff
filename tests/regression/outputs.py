"""Outputs of the commands: open descriptors, folders that cannot be read, and inputs under other names."""

import json
import os
import random
import re
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import support
from support import complaints, contents, finish, run, start, train


class Descriptors(support.RunTest):
    def setUp(self):
        super().setUp()
        self.log = self.write("log.txt", "kept\n")
        self.predict = ("plan", "predict", self.deck, "--ranks", "1,2", "--json")

    def assertAppended(self, result, *, table):
        """The list follows what the log held before; then the table, if it goes there too."""
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(complaints(result), [])
        text = self.log.read_text()
        self.assertEqual(text[:5], "kept\n")
        rows, end = json.JSONDecoder().raw_decode(text, 5)
        self.assertEqual({row["ranks"] for row in rows}, {1, 2})
        self.assertEqual(text[end:].startswith("\ncluster: "), table, text[end:])
        if not table:
            self.assertEqual(text[end:], "\n")
        self.assertEqual({path.name for path in self.folder.iterdir()} - {"link"}, {"small.toml", "log.txt"})

    def test_standard_output(self):
        link = self.folder / "link"
        link.symlink_to("/dev/stdout")
        for mode in ("ab", "r+b"):  # >> appends; > goes on where it stands
            for name in ("/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", link):
                with self.subTest(f"{mode} {name}"):
                    self.log.write_text("kept\n")
                    with self.log.open(mode) as file:
                        file.seek(0, os.SEEK_END)
                        result = finish(start(*self.predict, name, outputs=(file, subprocess.PIPE)))
                    self.assertAppended(result, table=True)

    def by_bash(self, redirection, name):
        command = ["bash", "-c", f'"$@" {redirection}', self.log, os.path.abspath(sys.argv[1]), *self.predict, name]
        return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=support.HANGS)

    def test_other_descriptors(self):
        link = self.folder / "link"
        link.symlink_to("/dev/fd/3")
        for name in ("/dev/fd/3", "/proc/self/fd/3", link):
            with self.subTest(name):
                self.log.write_text("kept\n")
                result = self.by_bash('3>>"$0"', name)
                self.assertAppended(result, table=False)
                self.assertIn("cluster: ", result.stdout)

    def test_what_is_not_open_is_refused(self):
        for redirection, number in (("", 3), ("", 777), ('3<"$0"', 3), (">&-", 1)):
            with self.subTest(f"{redirection} {number}"):
                result = self.by_bash(redirection, f"/dev/fd/{number}")
                self.assertRefused(result, f"/dev/fd/{number}: descriptor {number} is not open for writing")
                self.assertEqual(self.log.read_text(), "kept\n")

    def test_a_descriptor_of_another_process(self):
        """Nothing of what that process has written is replaced."""
        with self.log.open("r+b") as file:
            self.assertDone(run(*self.predict, f"/proc/{os.getpid()}/fd/{file.fileno()}"))
        self.assertEqual(self.log.read_text()[:6], "kept\n[")


class Folders(support.RunTest):
    def test_a_folder_in_which_files_can_be_made_but_not_listed(self):
        drop = self.folder / "drop"
        drop.mkdir()
        drop.chmod(0o1733 if os.geteuid() == 0 else 0o333)
        self.addCleanup(drop.chmod, 0o755)
        file = drop / "rows.json"
        self.assertDone(self.as_nobody("plan", "predict", self.deck, "--ranks", "1", "--json", file))
        drop.chmod(0o755)
        self.assertEqual([path.name for path in drop.iterdir()], ["rows.json"])
        self.assertEqual(json.loads(file.read_text())[0]["ranks"], 1)


class Inputs(support.RunTest):
    def setUp(self):
        super().setUp()
        self.run_directory = self.folder / "run"

    def assertSpared(self, result, before, target):
        self.assertUntouched(result, before, target, "also an input")

    def test_the_run_of_a_linked_checkpoint(self):
        train(self.run_directory, self.deck, "checkpoint/every=10", "checkpoint/keep=9")
        checkpoints = self.run_directory / "checkpoints"
        link, twice, folder = (self.folder / name for name in ("ck.h5", "twice.h5", "linked"))
        link.symlink_to(Path("run", "checkpoints", "step-000000020.h5"))
        twice.symlink_to("ck.h5")
        folder.symlink_to(checkpoints)
        twin = self.folder / "twin.npz"
        os.link(self.run_directory / "parameters.h5", twin)
        before = contents(self.folder)
        for path in (link, twice, folder / "step-000000020.h5"):
            for target in (self.run_directory / "parameters.h5", checkpoints / "step-000000010.h5", twin):
                with self.subTest(f"{path.name} {target.name}"):
                    self.assertSpared(run("evaluate", path, "--predictions", target), before, target)
            self.assertSpared(run("export", path, "-o", twin), before, twin)
        self.assertWorked(run("evaluate", link, "--predictions", self.folder / "new.npz"))

    def test_what_was_set_aside(self):
        train(self.run_directory, self.deck)
        (self.run_directory / "checkpoints").mkdir(exist_ok=True)
        names = ("parameters.h5.superseded", "parameters.h5.superseded-2", "deck.toml.superseded",
                 "summary.json.partial", "checkpoints/step-000000010.h5.superseded", "checkpoints/best.h5")
        for name in names:
            (self.run_directory / name).write_text("set aside")
        mine = self.write("run/mine.superseded.npz", "mine")
        before = contents(self.folder)
        for name in names:
            with self.subTest(name):
                target = self.run_directory / name
                for path in (self.run_directory, self.run_directory / "parameters.h5"):
                    self.assertSpared(run("evaluate", path, "--predictions", target), before, target)
        self.assertWorked(run("evaluate", self.run_directory, "--predictions", mine))

    def test_all_that_a_calibration_reads(self):
        data, overrides = self.libsvm()
        cluster = self.write("cluster.toml", support.CLUSTER.read_bytes())
        train(self.run_directory, self.deck, *overrides, "strategy/kind=joint", f"run/cluster={cluster}")
        (self.run_directory / "parameters.h5.superseded").write_text("set aside")
        before = contents(self.folder)
        for target in (cluster, *data, self.run_directory / "parameters.h5.superseded"):
            with self.subTest(target.name):
                result = run("plan", "calibrate", "--from", self.run_directory, "-o", target)
                self.assertSpared(result, before, target)
        refined = self.folder / "refined.toml"
        self.assertWorked(run("plan", "calibrate", "--from", self.run_directory, "-o", refined))


NETWORK = 'network/layers=[{ type = "dense", units = 64, activation = "relu" }, { type = "dense" }]'


class Evaluations(support.RunTest):
    def accuracies(self, *overrides):
        result = run("evaluate", self.folder / "run", *overrides)
        self.assertDone(result)
        return [float(word) for word in re.findall(r"(\d+\.\d+) %", result.stdout)]

    def test_other_data_with_the_labels_of_the_training(self):
        """Another seed draws other characters; fixed labels are those that the stages have learned."""
        train(self.folder / "run", self.deck, "strategy/input=free", "run/epochs=20", "data/samples=2000")
        for own, other in zip(self.accuracies(), self.accuracies("run/seed=77"), strict=True):
            self.assertLess(abs(own - other), 15)
        self.assertGreater(max(self.accuracies("run/seed=77")), 60)

    def test_both_spellings_of_a_key(self):
        """The labels of the stages are those of the training, whatever seed makes the data."""
        train(self.folder / "run", self.deck, "strategy/labels=gaussian", "run/epochs=8", "data/samples=2000")
        found = self.accuracies("run/seed=7")
        self.assertGreater(found[0], 40)
        self.assertEqual(self.accuracies("run.seed=7"), found)

    def test_the_test_set_of_the_run(self):
        """A part of the training file: labels mean nothing, so only samples that were trained on are known."""
        draw = random.Random(1)
        rows = "".join(f"{draw.randrange(2)} " + " ".join(f"{j}:{draw.gauss(0, 1):.3f}" for j in range(1, 21)) + "\n"
                       for _ in range(200))
        self.write("all.svm", rows)
        folder = self.folder / "svm"
        train(folder, self.deck, "data/kind=libsvm", "data/train_file=all.svm", f"data/path={self.folder}",
              "data/test_fraction=0.3", "data/classes=0", "data/samples=0", "data/test_samples=0", "run/epochs=30",
              "training/batch=20", "strategy/kind=joint", NETWORK)
        said = "the network may have been trained on its samples"

        def evaluated(*overrides):
            result = run("evaluate", folder, *overrides)
            self.assertEqual(result.returncode, 0, result.stderr)
            return float(re.search(r"joined network +([0-9.]+) %", result.stdout)[1]), said in result.stderr
        own = evaluated()
        self.assertLess(own[0], 75)
        self.assertFalse(own[1])
        self.assertEqual(evaluated("run/seed=7"), own)
        self.assertEqual(evaluated("data/validation=0.2"), own)
        for other in (("data/test_fraction=0.5",), ("data/samples=150",), ("data/test_fraction=0", "data/validation=0.3")):
            self.assertTrue(evaluated(*other)[1], other)
        self.assertFalse(evaluated("data/test_file=all.svm", "data/test_fraction=0")[1])
        on = run("train", folder / "deck.toml", "run/seed=7", "-r", folder / "parameters.h5", "-d", self.folder / "on")
        self.assertEqual(on.returncode, 0, on.stderr)
        self.assertIn(said, on.stderr)

    def test_labels_of_files_keep_their_meaning(self):
        marks = [(label, i % 2) for label in (3, 10, -1) for i in range(12)]
        lines = [f"{label} 1:{label} 2:{odd}" for label, odd in marks]
        train_file = self.write("train.svm", "\n".join(lines) + "\n")
        deck = (self.deck, "data/kind=libsvm", f"data/path={self.folder}", "data/classes=0", "data/samples=0",
                "data/test_samples=0", "data/test_fraction=0", "run/epochs=60", "training/batch=12", NETWORK,
                "data/standardise=feature", "strategy/kind=joint", "optimiser/learning_rate=0.01")
        folder = self.folder / "svm"
        train(folder, *deck, f"data/train_file={train_file.name}", f"data/test_file={train_file.name}")
        self.write("few.svm", "\n".join(line for line in lines if not line.startswith("3 ")) + "\n")
        few = run("evaluate", folder, "data/test_file=few.svm", "data/train_file=few.svm", "--predictions", self.folder / "p.npz")
        self.assertDone(few)
        self.assertIn("100.00 %", few.stdout)
        with zipfile.ZipFile(self.folder / "p.npz") as archive:
            self.assertEqual(archive.read("class_labels.npy")[-24:], struct.pack("<3q", -1, 3, 10))
        for name in ("net.npz", "net.onnx"):
            self.assertDone(run("export", folder, "-o", self.folder / name))
        with zipfile.ZipFile(self.folder / "net.npz") as archive:
            self.assertEqual(archive.read("class_labels.npy")[-24:], struct.pack("<3q", -1, 3, 10))
        self.assertIn(b"class_labels\x12\x07-1,3,10", (self.folder / "net.onnx").read_bytes())  # a text of 7 bytes

    def test_predictions_without_meaning_replace_nothing(self):
        lines = [f"{i % 2} 1:{i % 2} 2:{i % 5}" for i in range(40)]
        self.write("train.svm", "\n".join(lines) + "\n")
        self.write("huge.svm", "".join(f"{i % 2} 1:{sign}1e30 2:{sign}1e30\n" for i, sign in enumerate(("", "-") * 2)))
        folder, kept = self.folder / "svm", self.write("p.npz", "of an earlier evaluation")
        train(folder, self.deck, "data/kind=libsvm", f"data/path={self.folder}", "data/train_file=train.svm",
              "data/test_file=train.svm", "data/classes=0", "data/samples=0", "data/test_samples=0", "data/test_fraction=0",
              "training/batch=10", NETWORK, "strategy/kind=joint")
        for ranks in (1, 2):
            result = run("evaluate", folder, "data/test_file=huge.svm", "run/precision=fp16", "--predictions", kept, ranks=ranks)
            self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
            self.assertIn("its accuracy says nothing", result.stderr)
            self.assertEqual(kept.read_text(), "of an earlier evaluation")

    def test_exits_as_asked(self):
        train(self.folder / "run", self.deck, "strategy/exits=fitted", "data/validation=0.2", "run/epochs=4")
        outputs = [run("evaluate", self.folder / "run", f"strategy/exits={exits}").stdout for exits in ("fitted", "sum")]
        losses = [re.findall(r"loss \d+\.\d+", output) for output in outputs]
        self.assertTrue(losses[0])
        self.assertNotEqual(*losses)

    def test_exits_fitted_to_the_test_set(self):
        rows = "".join(f"{i % 2} 1:{i % 7} 2:{i % 2}\n" for i in range(60))
        self.write("rows.txt", rows)
        deck = [self.deck, "data/kind=libsvm", "data/train_file=rows.txt", f"data/path={self.folder}", "data/classes=0",
                "data/samples=0", "data/test_samples=0", "training/batch=10", "strategy/exits=fitted"]
        said = "on which the network is also tested"
        self.assertIn(said, run("train", *deck, "data/validation=0.3", "-n").stderr)
        self.assertNotIn(said, run("train", *deck, "data/validation=0.3", "data/test_fraction=0.2", "-n").stderr)

    def test_a_test_set_that_is_the_validation_set(self):
        self.write("rows.txt", "".join(f"{i % 2} 1:{i % 7} 2:{i % 2}\n" for i in range(60)))
        deck = [self.deck, "data/kind=libsvm", "data/train_file=rows.txt", f"data/path={self.folder}", "data/classes=0",
                "data/samples=0", "data/test_samples=0", "training/batch=10", "strategy/kind=joint"]
        for more, held_out, same in (
                (["data/validation=0.3"], "42 training, 18 validation samples, which are also the test set, of 2", True),
                (["data/validation=0.3", "data/test_samples=5"],
                 "42 training, 18 validation samples, the first 5 of which are also the test set, of 2", True),
                (["data/validation=0.3", "data/test_fraction=0.2"], "30 training, 18 validation, 12 test samples of 2", False),
                (["data/validation=0.3", "data/test_file=rows.txt"], "42 training, 18 validation, 60 test samples of 2", False)):
            self.assertIn(f"# data: {held_out} values", run("train", *deck, *more, "-n").stdout)
            result = run("train", *deck, *more)
            self.assertWorked(result)
            self.assertEqual(bool(re.search(r"test accuracy [\d.]+ % on the validation set, ", result.stdout)), same)


if __name__ == "__main__":
    support.main()
