"""What a run leaves behind, and that this suffices to inspect, evaluate and repeat the run."""

import csv
import json
import os
import re
import shutil
import subprocess
import sys

import support
from support import run, train

STEPS, BATCH, WIDTH, REAL = 30, 40, 32, 4
PARAMETERS = 144 * 32 + 32 + 4 * (32 * 32 + 32) + 32 * 10 + 10
HEAD = 32 * 10  # labels that learn, after each stage but the last
STORED = 144 * 32 + 64 + 4 * (32 * 32 + 64) + 32 * 10 + 64  # each tensor as a multiple of 64 values
COLUMNS = ["time_s", "event", "stage", "epoch", "step", "run_step", "loss", "learning_rate", "samples_per_second", "grad_norm",
           "train_accuracy", "accuracy", "accuracy_alone"]
PROVENANCE = {"version", "git", "compiler", "kokkos", "blas", "gemm", "mpi", "hdf5", "host", "processor", "threads", "started",
              "command_line"}


class Summary(support.RunTest):
    def check_types(self, summary):
        types = {"test_accuracy": float, "epochs": (int, float), "samples_per_second": float, "train_seconds": float,
                 "bytes_between_stages": int, "bytes_between_replicas": int, "parameters": int, "seed": int,
                 "strategy": str, "parameters_hash": str, "stage_accuracy": list, "peak_device_bytes": list,
                 "peak_rss_bytes": list, "grid": dict, "provenance": dict}
        for key, kind in types.items():
            self.assertIsInstance(summary[key], kind, key)
        self.assertLessEqual(PROVENANCE, summary["provenance"].keys())
        self.assertEqual([key for key in PROVENANCE if not str(summary["provenance"][key])], [])
        self.assertEqual([text for text in summary["provenance"].values() if not str(text).isprintable()], [])
        for key, pattern in (("mpi", r"MPI.* v?\d+\.\d"), ("kokkos", r"^\d+\.\d+\.\d+ \(.+\), Kokkos Kernels \d+\.\d"),
                             ("hdf5", r"^1\.\d+\.\d+$|^2\.\d+\.\d+$"), ("started", r"^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ$")):
            self.assertRegex(summary["provenance"][key], pattern)

    def check_values(self, summary, stages, replicas, ranks):
        self.assertEqual(summary["grid"], {"stages": stages, "replicas": replicas, "ranks": ranks})
        self.assertEqual((summary["strategy"], summary["seed"], summary["epochs"]), ("sil", 3, 2))
        self.assertEqual(summary["parameters"], PARAMETERS)
        self.assertRegex(summary["parameters_hash"], "^[0-9a-f]{64}$")
        self.assertEqual(len(summary["stage_accuracy"]), stages)
        self.assertTrue(all(0 <= accuracy <= 1 for accuracy in summary["stage_accuracy"]))
        self.assertEqual(summary["stage_accuracy"][-1], summary["test_accuracy"])
        self.assertAlmostEqual(summary["samples_per_second"] * summary["train_seconds"], STEPS * BATCH, places=3)
        self.check_partition(summary, stages, ranks // replicas)
        for key, least in (("peak_device_bytes", 1e4), ("peak_rss_bytes", 1e6)):
            self.assertEqual(len(summary[key]), ranks)
            self.assertTrue(all(least < value < 1e10 for value in summary[key]), summary[key])

    def check_partition(self, summary, stages, groups):
        """The stages make up the network, and every rank has one."""
        partition = summary["partition"]
        self.assertEqual(len(partition), stages)
        self.assertEqual(sorted({stage["rank"] for stage in partition}), list(range(groups)))
        self.assertEqual(sum(stage["parameters"] for stage in partition), PARAMETERS)
        layers = [index for stage in partition for index in range(stage["layers"][0], stage["layers"][1] + 1)]
        self.assertEqual(layers, list(range(6)))
        self.assertEqual([stage["head_parameters"] for stage in partition], [HEAD] * (stages - 1) + [0])
        stored = STORED + (stages - 1) * HEAD
        self.assertEqual(sum(stage["parameter_bytes"] for stage in partition), REAL * stored)
        self.assertEqual(sum(stage["optimiser_bytes"] for stage in partition), 2 * REAL * stored)
        for stage in partition:
            self.assertEqual(stage["offloaded_bytes"], 0)
            self.assertTrue(all(stage[key] > 0 for key in ("flops_per_sample", "activation_bytes", "buffer_bytes")))

    def test_grids(self):
        """Stages on 1, 2 and 4 ranks: what is sent follows from the grid, what is learned does not."""
        hashes, accuracies = set(), set()
        for ranks in (1, 2, 4):
            summary = train(self.folder / f"run{ranks}", self.deck, "strategy/stages=4", "strategy/cuts=flops",
                            ranks=ranks)
            self.check_types(summary)
            self.check_values(summary, 4, 1, ranks)
            self.assertEqual(summary["bytes_between_stages"], (ranks - 1) * STEPS * BATCH * WIDTH * REAL)
            self.assertEqual(summary["bytes_between_replicas"], 0)
            hashes.add(summary["parameters_hash"])
            accuracies.add(tuple(summary["stage_accuracy"]))
        self.assertEqual((len(hashes), len(accuracies)), (1, 1))

    def test_replicas(self):
        for stages, ranks in ((1, 2), (2, 4)):
            summary = train(self.folder / f"run{ranks}", self.deck, f"strategy/stages={stages}",
                            "strategy/cuts=flops", "strategy/replicas=2", ranks=ranks)
            self.check_values(summary, stages, 2, ranks)
            self.assertEqual(summary["bytes_between_replicas"], 2 * STEPS * (STORED + (stages - 1) * HEAD) * REAL)
            self.assertEqual(summary["bytes_between_stages"], (stages - 1) * STEPS * BATCH * WIDTH * REAL)

    def test_warnings_are_kept(self):
        result = run("train", self.deck, "-d", self.folder / "run", environment={"OPENBLAS_CORETYPE": "Haswell"})
        told = [line[len("warning: "):] for line in result.stderr.splitlines() if line.startswith("warning: ")]
        self.assertEqual(support.summary_of(self.folder / "run")["warnings"], told)

    def test_free_stages_send_nothing(self):
        summary = train(self.folder / "run", self.deck, "strategy/input=free", ranks=2)
        self.assertEqual(summary["bytes_between_stages"], 0)

    def test_frozen_stages_send_each_sample_once(self):
        summary = train(self.folder / "run", self.deck, "strategy/input=frozen", ranks=2)
        self.assertEqual(summary["bytes_between_stages"], 600 * WIDTH * REAL)

    def test_a_stage_that_does_not_learn_behind_exits(self):
        """A single unit tells two of the classes apart at most, which the sum up to its stage does not show."""
        layers = 'network/layers=[{type="dense",units=32,activation="relu",repeat=2},{type="dense",units=1},{type="dense"}]'
        summary = train(self.folder / "run", self.deck, layers, "strategy/stages=3", "strategy/cuts=[2,3]",
                        "strategy/labels=gaussian", "strategy/exits=sum", "data/classes=20", "data/samples=2000",
                        "data/test_samples=1000", "run/epochs=8")
        alone, added = summary["stage_alone"], summary["stage_accuracy"]
        self.assertEqual((len(alone), alone[0]), (3, added[0]))
        self.assertLess(alone[1], 0.14)
        self.assertGreater(added[1], 0.2)
        self.assertIn("stage 2 does not learn", "".join(summary["warnings"]))
        with (self.folder / "run" / "history.csv").open(newline="") as file:
            last = [row for row in csv.DictReader(file) if row["event"] == "evaluation"][-3:]
        for row, of_stage, of_sum in zip(last, alone, added):
            self.assertAlmostEqual(float(row["accuracy_alone"]), 100 * of_stage, places=3)
            self.assertAlmostEqual(float(row["accuracy"]), 100 * of_sum, places=3)

    def test_utilisation_with_and_without_recomputation(self):
        layers = 'network/layers=[{type="block",recompute=%s,layers=[{type="dense",units=128,activation="relu",repeat=4}]},{type="dense"}]'
        flops = []
        for recompute in ("false", "true"):
            summary = train(self.folder / "run", self.deck, layers % recompute, "strategy/kind=joint", "run/epochs=20")
            flops.append(summary["partition"][0]["flops_per_sample"])
            hardware, model = summary["hardware_flops_utilisation"], summary["model_flops_utilisation"]
            self.assertAlmostEqual(hardware / model, flops[-1] / flops[0], places=9)
            self.assertRegex(summary["flops_reference"], r"^[\d.]+ [kMGT]?FLOP/s, gemm of rank 0$")
            rate = float(re.search(r"([\d.]+) GFLOP/s measured", summary["provenance"]["gemm"])[1])  # a whole number
            reached = flops[-1] * summary["samples_per_second"] / 1e9
            self.assertLess(abs(reached / hardware - rate), 0.51)
        self.assertGreater(flops[1], 1.2 * flops[0])
        pair = train(self.folder / "run", self.deck, "strategy/kind=joint", "strategy/replicas=2", ranks=2)
        self.assertRegex(pair["flops_reference"], r"^2 x [\d.]+ [kMGT]?FLOP/s, gemm of rank 0$")

    def test_joint(self):
        summary = train(self.folder / "run", self.deck, "strategy/kind=joint")
        self.assertEqual(summary["strategy"], "joint")
        self.assertEqual(len(summary["stage_accuracy"]), 1)
        self.assertNotIn("stage_alone", summary)


class Progress(support.RunTest):
    def test_long_path(self):
        """Open MPI once had room for 256 characters."""
        (self.folder / ("a" * 200)).mkdir()
        train(self.folder / ("a" * 200) / ("b" * 200), self.deck, "run/epochs=1")

    def test_losses_of_a_line_are_of_one_step(self):
        """Also where the first stage is far ahead of the last one."""
        layers = 'network/layers=[{type="dense",units=256,activation="relu",repeat=5},{type="dense"}]'
        result = run("train", self.deck, layers, "strategy/stages=3", "strategy/cuts=flops", "run/log_every=1", "run/steps=3000",
                     "-d", self.folder / "run", ranks=3)
        self.assertDone(result)
        shown = re.findall(r"step (\d+)/3000 +loss ([0-9.]+) ([0-9.]+) ([0-9.]+) ", result.stdout)
        self.assertGreaterEqual(len(shown), 3, result.stdout)  # a file gets at most ten per second
        with (self.folder / "run" / "history.csv").open(newline="") as file:
            kept = {(row["step"], row["stage"]): float(row["loss"]) for row in csv.DictReader(file) if row["event"] == "step"}
        for step, *losses in shown:
            for stage, loss in enumerate(losses, 1):
                self.assertAlmostEqual(float(loss), kept[step, str(stage)], delta=6e-5)


class Files(support.RunTest):
    def setUp(self):
        super().setUp()
        self.run_directory = self.folder / "run"
        self.summary = train(self.run_directory, self.deck, ranks=2)

    def test_names(self):
        found = sorted(path.name for path in self.run_directory.iterdir())
        self.assertEqual(found, ["deck.toml", "history.csv", "parameters.h5", "summary.json"])
        frozen = self.folder / "frozen"
        train(frozen, self.deck, "strategy/input=frozen", ranks=2)
        self.assertEqual(sorted(path.name for path in frozen.iterdir()), found)

    def test_history(self):
        with (self.run_directory / "history.csv").open() as file:
            rows = list(csv.DictReader(file))
        self.assertEqual(list(rows[0]), COLUMNS)
        steps = [(row["stage"], row["step"], row["epoch"]) for row in rows if row["event"] == "step"]
        self.assertEqual(sorted(steps), [(stage, step, epoch) for stage in "12"
                                         for step, epoch in (("10", "1"), ("20", "2"), ("30", "2"))])
        evaluations = [(row["stage"], row["epoch"]) for row in rows if row["event"] == "evaluation"]
        self.assertEqual(evaluations, [("1", "1"), ("joined", "1"), ("1", "2"), ("joined", "2")])
        for row in rows:
            numbers = [float(row[name]) for name in COLUMNS if name not in ("event", "stage") and row[name]]
            self.assertTrue(all(0 <= number < 1e9 for number in numbers), row)
        times = [float(row["time_s"]) for row in rows]
        self.assertEqual(times, sorted(times))
        self.assertAlmostEqual(float(rows[-1]["accuracy"]), 100 * self.summary["test_accuracy"], places=3)

    def test_the_deck_repeats_the_run(self):
        deck = self.run_directory / "deck.toml"
        self.assertDone(run("train", deck, "-n"))
        again = train(self.folder / "again", deck)
        self.assertEqual(again["parameters_hash"], self.summary["parameters_hash"])
        self.assertEqual((self.folder / "again" / "deck.toml").read_text(), deck.read_text())

    def test_evaluation(self):
        for ranks in (1, 2, 3):  # the network has two stages: any number of ranks will do
            for path in (self.run_directory, self.run_directory / "parameters.h5"):
                result = run("evaluate", path, ranks=ranks)
                self.assertDone(result)
                self.assertIn(f"parameters_hash {self.summary['parameters_hash']}", result.stdout)
                found = re.search(r"joined network +([\d.]+) %", result.stdout)
                self.assertEqual(found[1], f"{100 * self.summary['test_accuracy']:.2f}")
        self.assertIn("on 50 samples", run("evaluate", self.run_directory, "data/test_samples=50").stdout)

    def test_a_cut_by_memory_stays(self):
        """Evaluation has other replicas and no optimiser; by memory a new network would be cut elsewhere."""
        network = "network/layers=[" + ", ".join(
            f'{{ type = "dense", units = {units}, activation = "relu" }}' for units in (256, 32, 512, 512)
        ) + ', { type = "dense" }]'
        for batch, offload, ranks in ((40, "none", 3), (20, "file", 1)):
            folder = self.folder / f"batch-{batch}"
            summary = train(folder, self.deck, network, "strategy/cuts=memory", "strategy/input=free", "run/epochs=1",
                            f"training/batch={batch}", f"optimiser/offload={offload}")
            result = run("evaluate", folder, ranks=ranks)
            self.assertDone(result)
            found = re.search(r"joined network +([\d.]+) %", result.stdout)
            self.assertEqual(found[1], f"{100 * summary['test_accuracy']:.2f}")

    def test_a_new_run_removes_old_results(self):
        folder = self.folder / "twice"
        folder.mkdir()
        for name in ("summary.json", "history.csv", "parameters.h5"):
            shutil.copy(self.run_directory / name, folder)
        old = (folder / "summary.json").read_text()
        self.assertRefused(run("train", self.deck, "-d", folder, "--overwrite", ranks=5), "5 ranks do not fit")
        self.assertEqual((folder / "summary.json").read_text(), old)  # refused: nothing was touched
        self.assertFalse((folder / "deck.toml").exists())
        self.assertDone(run("train", self.deck, "-d", folder, "run/steps=1", "--overwrite"))
        self.assertNotEqual((folder / "summary.json").read_text(), old)

    def test_another_network_is_refused(self):
        self.assertRefused(run("evaluate", self.run_directory, "data/image_size=14"),
                           "samples have 196 values, but the network was trained on 144")

    def test_info(self):
        result = run("info", self.run_directory)
        self.assertDone(result)
        self.assertIn((self.run_directory / "deck.toml").read_text().strip(), result.stdout)
        self.assertIn("layer0.dense/weight  32 x 144\n", result.stdout)
        self.assertIn(f"  {PARAMETERS} parameters, and {HEAD} in the heads of stages\n", result.stdout)

    def test_other_programs_read_the_parameters(self):
        if shutil.which("h5dump") is None:
            self.skipTest("there is no h5dump")
        text = subprocess.run(["h5dump", "-H", self.run_directory / "parameters.h5"], capture_output=True, text=True,
                              check=True).stdout
        self.assertEqual(text.count("DATASET"), 12 + 4)  # a weight and a bias per layer; deck, shape, shift and scale

    def test_nothing_is_kept_without_a_directory(self):
        before = sorted(self.folder.rglob("*"))
        self.assertDone(run("train", self.deck))
        self.assertEqual(sorted(self.folder.rglob("*")), before)

    def test_summary_is_plain_json(self):
        text = (self.run_directory / "summary.json").read_text()
        self.assertNotIn("NaN", text)
        self.assertEqual(json.loads(text)["parameters_hash"], self.summary["parameters_hash"])


class Kept(support.RunTest):
    def test_a_smaller_number_of_checkpoints_names_those_that_go(self):
        folder, words = self.folder / "run", ("train", self.deck, "checkpoint/every=5", "-d", self.folder / "run")
        first = run(*words, "checkpoint/keep=5")
        self.assertDone(first)
        self.assertNotIn("older checkpoints", first.stdout)  # 5 has made room for 30
        self.assertEqual(list(support.checkpoints(folder)), [10, 15, 20, 25, 30])
        second = run(*words, "checkpoint/keep=2", "run/epochs=3", "-r", "latest")
        self.assertDone(second)
        told = [line for line in second.stdout.splitlines() if "older checkpoints" in line]
        self.assertEqual(told, ["4 older checkpoints were removed, step-000000010.h5 to step-000000025.h5 "
                                "(checkpoint/keep = 2)"])
        self.assertEqual(list(support.checkpoints(folder)), [40, 45])


class Metadata(support.RunTest):
    def test_ranks_of_other_command_lines_write_one_file(self):
        """HDF5 waits forever if ranks describe a file differently; here each rank has a command line of its own."""
        def train_with(option):
            return [sys.argv[1], "train", self.deck, option, self.folder / "run", "checkpoint/every=15"]

        # A launcher that is killed leaves its ranks behind, one that is asked to end does not.
        command = ["timeout", str(support.HANGS), os.environ.get("PARTITA_MPIEXEC", "mpiexec"), "-n", "1", *train_with("-d"),
                   ":", "-n", "1", *train_with("--directory")]
        self.assertDone(subprocess.run(list(map(str, command)), capture_output=True, text=True))
        shown = run("info", self.folder / "run" / "checkpoints" / "step-000000030.h5")
        self.assertDone(shown)
        self.assertIn("all checksums correct", shown.stdout)

    def test_stages_are_named_where_they_train_in_turns(self):
        """Of two stages that take 30 steps each, the second one has taken 15 of the 45."""
        for key, step, said in (("strategy/input=relay", 15, "training, step 15"),
                                ("strategy/kind=pipeline", 15, "training, step 15"),
                                ("strategy/kind=joint", 15, "training, step 15"),
                                ("strategy/input=frozen", 15, "training of stage 1, step 15"),
                                ("strategy/input=frozen", 45, "training of stage 2, step 15")):
            with self.subTest(key=key, step=step):
                folder = self.folder / key.split("=")[1]
                if not folder.exists():
                    support.train(folder, self.deck, key, "checkpoint/every=15", "checkpoint/keep=9")
                shown = run("info", support.checkpoints(folder)[step])
                self.assertDone(shown)
                self.assertIn(f"  step {step} of the run: {said} (epoch 1, batch 0 of 15)\n", shown.stdout)


if __name__ == "__main__":
    support.main()
