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
        self.assertWorked(run("evaluate", self.run_directory, "--predictions", mine, "--overwrite"))

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


class EarlierOutputs(support.RunTest):
    """An output replaces an earlier one of its kind, so that scripts can be run again, and no other file."""

    FOREIGN = "is not known as an output of this command, and would be overwritten; choose another name, or add --overwrite"
    EDITED = "has been edited since Partita wrote it, and would be overwritten; choose another name, or add --overwrite"

    def assertReplacesItsOwn(self, target, *words, others=()):
        """In one folder, with these words and the name of the target at the end."""
        for mine in ("a note of mine\n", *others):
            target.write_bytes(mine if isinstance(mine, bytes) else mine.encode())
            before = contents(self.folder)
            self.assertUntouched(run(*words, target), before, f"{target}: {self.FOREIGN}")
        self.assertDone(run(*words, target, "--overwrite"))
        first = target.read_bytes()
        self.assertNotIn(b"a note of mine", first)
        self.assertDone(run(*words, target))
        target.write_bytes(b"")  # as a full disk leaves it
        self.assertDone(run(*words, target))
        self.assertEqual(target.read_bytes()[:11], first[:11])

    def assertSparesEdited(self, target, *words):
        for edited in (f"# my comment\n{target.read_text()}", f"{target.read_text()}# mine\n"):
            text = target.read_text()
            target.write_text(edited)
            self.assertUntouched(run(*words, target), contents(self.folder), f"{target}: {self.EDITED}")
            target.write_text(text)
        self.assertDone(run(*words, target))

    def test_decks(self):
        target, calibrated = self.folder / "out.toml", "[cluster]\nname = 'two'\n"
        for words in (("plan", "deck", self.deck, "--ranks", 2, "-o"), ("plan", "place", self.deck, "--ranks", 2, "-o")):
            with self.subTest(words[1]):
                self.assertReplacesItsOwn(target, *words, others=(calibrated, self.deck.read_text()))
                self.assertSparesEdited(target, *words)
        self.assertDone(run("plan", "deck", self.deck, "--ranks", 2, "-o", target))  # place has written it
        self.assertDone(run("train", target, "-n", "--ranks", 2))

    def test_descriptions_of_clusters(self):
        target, cluster = self.folder / "out.toml", self.write("cluster.toml", support.CLUSTER.read_bytes())
        train(self.folder / "run", self.deck, "strategy/kind=joint", f"run/cluster={cluster}")
        words = ("plan", "calibrate", "--from", self.folder / "run", "-o")
        self.assertDone(run("plan", "deck", self.deck, "--ranks", 1, "-o", target))
        self.assertReplacesItsOwn(target, *words, others=(cluster.read_text(), target.read_text()))
        self.assertSparesEdited(target, *words)
        measure = ("plan", "calibrate", "--quick", "--noise", "1e6", "-o")
        self.assertDone(run(*measure, target))  # also a description
        self.assertReplacesItsOwn(target, *measure)
        self.assertDone(run(*words, target))
        self.assertDone(run("plan", "predict", self.deck, "--cluster", target, "--ranks", 1))

    def test_results_as_json(self):
        schedule = self.write("task.json", json.dumps({"num_tc": 1, "num_vc": 1, "edges": [], "ops": [
            {"id": 1, "core_type": "TC", "latency": 4, "intra_op_latency": 2}]}))
        place = self.write("layers.json", json.dumps({
            "maxMemoryPerDevice": 100, "maxDevices": 1, "bandwidth": 100, "mbsInBatch": 1,
            "activationRecomputation": False, "optimizerAlgorithm": "SGD", "edges": {"1": []}, "nodes": {"1": [
                {"id": 0, "parameterSize": 1, "activationSize": 1, "optimalLatencyFw": 1, "optimalLatencyBw": 2,
                 "isTensorParallelized": False}]}}))
        search = self.write("search.toml", "[search]\ndevices = 1\nbatch = 4\n[architectures]\nevery = 10000\n"
                            f"[[model]]\nfile = '{self.deck}'\n[[case]]\nmemory = 8e9\n")
        target, written, deck = self.folder / "out.json", {}, ("-o", self.folder / "best.toml")
        for words in (("predict", self.deck, "--ranks", 1), ("deck", self.deck, "--ranks", 1, *deck),
                      ("place", self.deck, "--ranks", 1), ("place", place), ("schedule", schedule), ("search", search),
                      ("bench", "--quick", "--only", "lenet")):
            words = words if words[0] == "bench" else ("plan", *words)
            with self.subTest(words[-2]):
                others = [text for name, text in written.items() if name != words[1]]
                self.assertReplacesItsOwn(target, *words, "--json", others=(*others, "{}\n", "[]\n"))
                written[words[1]] = target.read_text()

    def test_exported_networks(self):
        train(self.folder / "run", self.deck)
        archive, model = self.folder / "a.npz", self.folder / "b.onnx"
        predictions = self.folder / "p.npz"
        evaluate = ("evaluate", self.folder / "run", "--predictions")
        self.assertDone(run(*evaluate, predictions))
        self.assertReplacesItsOwn(archive, "export", self.folder / "run", "-o", others=(predictions.read_bytes(),))
        self.assertReplacesItsOwn(predictions, *evaluate, others=(archive.read_bytes(),))
        self.assertReplacesItsOwn(model, "export", self.folder / "run", "-o", others=(archive.read_bytes(),))
        with zipfile.ZipFile(archive) as arrays, zipfile.ZipFile(predictions, "w") as mine:
            for name in arrays.namelist():  # as NumPy saves them again
                with mine.open(name, "w", force_zip64=True) as file:
                    file.write(arrays.read(name))
        self.assertUntouched(run("export", self.folder / "run", "-o", predictions), contents(self.folder), self.FOREIGN)

    def test_a_link_stands_for_its_target(self):
        mine, link = self.write("mine.toml", "a note of mine\n"), self.folder / "link.toml"
        link.symlink_to(mine)
        words = ("plan", "deck", self.deck, "--ranks", 1, "-o", link)
        self.assertUntouched(run(*words), contents(self.folder), f"{link}: {self.FOREIGN}")
        self.assertDone(run(*words, "--overwrite"))
        self.assertTrue(link.is_symlink())
        self.assertIn("[network]", mine.read_text())

    def test_what_may_not_be_read_may_be_somebodys(self):
        (self.folder / "open").mkdir()
        (self.folder / "open").chmod(0o777)
        target = self.write("open/out.json", "mine")
        target.chmod(0o222)
        words = ("plan", "predict", self.deck, "--ranks", 1, "--json", target)
        self.assertRefused(self.as_nobody(*words), f"{target}: cannot be read: Permission denied")
        self.assertEqual(target.stat().st_size, 4)
        self.assertDone(self.as_nobody(*words, "--overwrite"))

    def test_a_second_output_is_refused_before_the_first_is_written(self):
        """And --overwrite needs an output."""
        target = self.write("mine.json", "a note of mine\n")
        before = contents(self.folder)
        result = run("plan", "deck", self.deck, "--ranks", 1, "-o", self.folder / "best.toml", "--json", target)
        self.assertUntouched(result, before, f"{target}: {self.FOREIGN}")
        for words, option in ((("plan", "calibrate", "--quick"), "--output"), (("bench", "--quick"), "--json")):
            self.assertRefused(run(*words, "--overwrite"), f"--overwrite requires {option}")


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
        words = ("evaluate", folder, "data/test_file=few.svm", "data/train_file=few.svm", "--predictions", self.folder / "p.npz")
        for _ in ("a new file", "an earlier output"):
            few = run(*words)
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
            result = run("evaluate", folder, "data/test_file=huge.svm", "run/precision=fp16", "--predictions", kept, "--overwrite",
                         ranks=ranks)
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
