"""partita plan calibrate: measures, writes what predict reads, and refuses noise and bad paths."""

import json
import os
import re
import statistics
from pathlib import Path

try:
    import tomllib
except ImportError:
    print("tomllib needs Python 3.11")
    raise SystemExit(77) from None

import support
from support import DECKS, run

ANY_NOISE = ("--noise", "1e6")  # tests share their cores
DECK = DECKS / "demo.toml"
AGAIN = """
[data]
kind = "glyphs"
samples = 1024
[network]
layers = [
  { type = "block", recompute = true, layers = [{ type = "dense", units = 512, activation = "relu", repeat = 4 }] },
  { type = "dense" },
]
[training]
batch = 128
[optimiser]
offload = "host"
"""


class Calibrations(support.RunTest):
    def calibrate(self, *arguments, ranks=2):
        file = self.folder / "cluster.toml"
        result = run("plan", "calibrate", *arguments, *ANY_NOISE, "--quick", "-o", file, ranks=ranks)
        self.assertDone(result)
        with open(file, "rb") as text:
            return file, tomllib.load(text)

    def test_what_is_measured(self):
        for ranks, rings in ((1, []), (2, [2]), (3, [2, 3])):
            with self.subTest(ranks=ranks):
                _, cluster = self.calibrate(ranks=ranks)
                self.assertEqual(cluster["node"]["ranks"], ranks)
                self.assertNotIn("link", cluster)  # the assumed one is not a measurement
                self.assertGreater(cluster["node"]["memory"], 1e6)
                self.assertTrue(1e8 < cluster["compute"]["flops"] < 1e14, cluster["compute"])
                for key in {"bf16_flops", "fp16_flops"} & set(cluster["compute"]):  # where no conversion is needed
                    self.assertTrue(1e8 < cluster["compute"][key] < 1e16, cluster["compute"])
                for key in ("seconds_per_reduced_byte", "seconds_per_copied_byte"):
                    self.assertTrue(1e-12 < cluster["compute"][key] < 1e-7, cluster["compute"])
                self.assertTrue(0 <= cluster["compute"]["overlap"] <= 1, cluster["compute"])
                for key, least in (("host_bandwidth", 1e6), ("file_bandwidth", 1e5)):
                    self.assertTrue(least < cluster["offload"][key] < 1e13, cluster["offload"])
                self.assertIsInstance(cluster["offload"]["device"], bool)
                self.assertEqual({path.name for path in self.folder.iterdir()} - {"small.toml"}, {"cluster.toml"})
                self.assertEqual([row["ranks"] for row in cluster["concurrency"]], [1, *rings][:ranks])
                self.assertEqual({row["type"] for row in cluster["kernel"]}, {"dense", "conv2d"})
                speeds = [row[way] for row in cluster["kernel"] for way in ("forward", "backward")]
                self.assertTrue(0 < min(speeds) <= max(speeds) < 1e14, speeds)
                # The machine may halt a single measurement, so medians are tested.
                self.assertGreater(statistics.median(speeds), 1e6)
                rows = cluster.get("message", [])
                self.assertEqual(sorted({row["ranks"] for row in rows}), rings)
                for ring in rings:
                    sizes = [row["bytes"] for row in rows if row["ranks"] == ring]
                    self.assertEqual(sizes, [64 * 2**i for i in range(len(sizes))])
                    times = [row["seconds"] for row in rows if row["ranks"] == ring]
                    self.assertTrue(1e-8 < min(times) <= statistics.median(times) < 1, times)
                    self.assertLess(max(times), 60)

    def test_a_network_is_timed_and_predicted(self):
        """Serial training is predicted to take the time that was measured."""
        file, cluster = self.calibrate(DECK)
        (network,) = cluster["network"]
        self.assertEqual(network["deck"], "demo")
        self.assertEqual((network["parameters"], network["batch"], network["precision"]), (476207, 128, "float"))
        self.assertAlmostEqual(network["flops_per_sample"] / (6 * 476207), 1, delta=0.2)  # without one gradient of inputs
        self.assertGreater(network["seconds_per_update"], 0)
        self.assertEqual(cluster["compute"]["seconds_per_update"], network["seconds_per_update"])
        shapes = {(row["type"], row["rows"], row["inputs"], row["outputs"]) for row in cluster["kernel"]}
        self.assertLessEqual({("dense", 128, 784, 256), ("dense", 128, 784, 128)}, shapes)  # whole, and half the outputs
        result = run("plan", "predict", DECK, "--cluster", file, "--ranks", "1", "--strategy", "serial", "--json", "-")
        self.assertDone(result)
        (serial,) = json.loads(result.stdout)
        batch, parameters = 128, 476207
        steps = 20000 // batch  # the rest of an epoch is left out
        expected = steps * (batch * network["seconds_per_sample"] + parameters * network["seconds_per_update"])
        alone, together = cluster["concurrency"]
        self.assertEqual((alone["ranks"], alone["factor"], together["ranks"]), (1, 1, 2))
        expected /= together["factor"]  # both ranks of the node have computed in the calibration
        self.assertAlmostEqual(serial["epoch_s"] / expected, 1, delta=1e-4)

    def test_recomputation_and_offload_are_no_part_of_a_network(self):
        """The written time is without them; predictions add both again."""
        deck = self.write("again.toml", AGAIN)
        file = self.folder / "cluster.toml"
        for _ in range(3):  # the machine may be halted while one part of the times is measured
            result = run("plan", "calibrate", deck, *ANY_NOISE, "--quick", "-o", file)
            self.assertDone(result)
            step, update = map(float, re.search(r"again: ([0-9.]+) ms per step, ([0-9.]+)", result.stdout).groups())
            cluster = tomllib.loads(file.read_text())
            passes = 128e3 * cluster["network"][0]["seconds_per_sample"]
            if plausible := 1.02 < (step - update) / passes < 2:  # at most every forward pass again
                break
        self.assertTrue(plausible, (step, update, passes))
        state = 2 * 4 * cluster["network"][0]["parameters"] / cluster["offload"]["host_bandwidth"]
        for offload, more in (("none", 0), ("host", 2e3 * state)):
            result = run("plan", "predict", deck, "--cluster", file, "--ranks", "1", "--strategy", "serial", "--json", "-",
                         f"optimiser/offload={offload}")
            self.assertDone(result)
            self.assertAlmostEqual(1e3 * json.loads(result.stdout)[0]["step_s"] / (step + more), 1, delta=0.01)

    def test_workers_with_few_samples_and_a_log(self):
        """Batches may be larger than the data, and only hogbatch writes decisions."""
        text = support.SMALL_DECK.split("[strategy]")[0].replace("samples = 600", "samples = 50")
        deck = self.write("workers.toml", text.replace("[run]", "[run]\ndecisions = true") +
                          '[strategy]\nkind = "hogbatch"\n[optimiser]\nkind = "sgd"\nmomentum = 0.0\n')
        _, cluster = self.calibrate(deck)
        self.assertEqual([row["rank"] for row in cluster["worker"]], [1])

    def test_it_is_printed_without_a_file(self):
        result = run("plan", "calibrate", "--quick", *ANY_NOISE, ranks=2)
        self.assertDone(result)
        text = result.stdout[result.stdout.index("[cluster]"):]
        self.assertIn("message", tomllib.loads(text))

    def test_it_goes_to_an_open_descriptor(self):
        """Offload is not measured in /dev, where a user can make no files."""
        support.give_to_nobody(self.folder)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder)
        result = self.as_nobody("plan", "calibrate", "--quick", *ANY_NOISE, "-o", "/dev/stdout")
        self.assertDone(result)
        self.assertIn("file_bandwidth", result.stdout[result.stdout.index("[cluster]"):])

    def test_a_full_disk_is_told_in_one_line(self):
        for ranks in (1, 2):
            with self.subTest(ranks=ranks):
                result = run("plan", "calibrate", "--quick", *ANY_NOISE, "-o", "/dev/full", ranks=ranks)
                self.assertEqual(result.returncode, 1, result.stderr)
                self.assertEqual([line for line in result.stderr.splitlines() if "partita" in line],
                                 ["partita: /dev/full: cannot be written: No space left on device"])
                self.assertNotIn("MPI_ABORT", result.stderr)

    def test_noise_is_refused(self):
        file = self.folder / "cluster.toml"
        result = run("plan", "calibrate", "--quick", "--noise", "0", "-o", file, ranks=2)
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        self.assertIn("the time of the same product varies by", result.stderr)
        self.assertFalse(file.exists())

    def test_mistakes(self):
        file = self.folder / "cluster.toml"
        self.assertRefused(run("plan", "calibrate", self.folder / "no.toml", "-o", file), "no.toml", "no such")
        self.assertRefused(run("plan", "calibrate", "-o", self.folder / "no" / "cluster.toml"), "cluster.toml")
        self.assertRefused(run("plan", "calibrate", "--noise", "-1"), "--noise")
        for text in ("nan", "NAN", "inf", "1e400", "2e6", "15%", "abc"):
            with self.subTest(text):
                result = run("plan", "calibrate", "--quick", "--noise", text, "-o", file)
                self.assertRefused(result, f"--noise: '{text}' is not a number in [0, 1000000]")
        small = self.write("small.toml", support.SMALL_DECK.replace("batch = 40", "batch = 4000"))
        for command in (["calibrate", small, "--quick"], ["place", small, "-o", self.folder / "placed.toml"]):
            self.assertRefused(run("plan", *command), "a batch of 4000 samples is larger than the training set of 600")
        wide = self.write("wide.toml", support.SMALL_DECK.replace("units = 32", "units = 4000000"))
        for ranks in (1, 2):
            self.assertRefused(run("plan", "calibrate", wide, "--quick", ranks=ranks), "wide.toml: a rank that trains the "
                               "whole network needs", "of memory, but each rank here has only")
        deck = self.write("deck.toml", DECK.read_text())
        self.assertRefused(run("plan", "calibrate", deck, "-o", deck), "deck.toml")
        self.assertEqual(deck.read_text(), DECK.read_text())
        self.assertFalse(file.exists())


class Tutorial(support.RunTest):
    def test_every_command(self):
        """The commands of docs/prediction-tutorial.md, one after another, in a folder like that of the sources."""
        for name in ("input-decks", "clusters"):
            (self.folder / name).symlink_to(DECKS.parent / name)
        page = (DECKS.parent / "docs" / "prediction-tutorial.md").read_text()
        lines = [line for block in re.findall(r"```sh\n(.*?)```", page, re.DOTALL) for line in block.splitlines()]
        self.assertGreater(len(lines), 5)
        before = Path.cwd()
        os.chdir(self.folder)
        self.addCleanup(os.chdir, before)
        for line in lines:
            with self.subTest(line):
                launched = re.fullmatch(r"(?:mpirun -n (\d+) )?partita (.*)", line)
                words = launched[2].split()
                if "calibrate" in words and "--from" not in words:
                    words += [*ANY_NOISE, "--quick"]
                self.assertDone(run(*words, ranks=int(launched[1] or 1)))
        for name in ("cluster.toml", "best.toml", "refined.toml", "run/summary.json"):
            self.assertTrue((self.folder / name).exists(), name)


if __name__ == "__main__":
    support.main()
