"""A run that goes on where something is different: the grid, the cuts, the strategy, the data, the length. What carries
over is the same as before, what does not is said in one line each, and nothing of the earlier run is lost."""

import os
import shutil
import subprocess
import sys

import support
from support import run, train

STEP, STEPS = 10, 30  # where it goes on, and where the run ends


class Elsewhere(support.RunTest):
    def setUp(self):
        super().setUp()
        self.whole = self.folder / "whole"
        self.result = train(self.whole, self.deck, f"checkpoint/every={STEP}", "checkpoint/keep=9",
                            ranks=2)
        self.checkpoint = self.whole / "checkpoints" / f"step-{STEP:09}.h5"

    def go_on(self, *overrides, ranks=1):
        """The summary of a run that goes on at the step, in a directory as a killed run leaves it."""
        folder = self.folder / "run"
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "checkpoints").mkdir(parents=True)
        shutil.copy(self.checkpoint, folder / "checkpoints")
        shutil.copy(self.whole / "history.csv", folder)
        return train(folder, self.deck, *overrides, "-r", "latest", ranks=ranks)

    def steps(self):
        rows = (self.folder / "run" / "history.csv").read_text().splitlines()[1:]
        return [int(row.split(",")[5]) for row in rows]

    def warned(self, summary, *parts):
        lines = [line for line in summary["warnings"] if "does not learn" not in line]
        self.assertEqual(len(lines), len(parts), lines)
        for line, part in zip(lines, parts):
            self.assertIn(part, line)

    def test_stages_dealt_to_other_ranks(self):
        for ranks in (1, 2):
            found = self.go_on(ranks=ranks)
            self.assertEqual(found["parameters_hash"], self.result["parameters_hash"])
            self.warned(found)

    def test_other_replicas(self):
        found = self.go_on("strategy/replicas=2", ranks=4)
        self.warned(found)
        self.assertAlmostEqual(found["test_loss"], self.result["test_loss"], places=4)
        self.assertEqual(max(self.steps()), STEPS)

    def test_other_cuts(self):
        found = self.go_on("strategy/cuts=[2]")
        self.warned(found, "labels do not")
        self.assertEqual(min(step for step in self.steps() if step > STEP), 15)  # no step twice, none left out

    def test_another_strategy(self):
        found = self.go_on("strategy/kind=joint")
        self.warned(found, "labels do not")
        self.assertEqual(max(self.steps()), STEPS)

    def test_stages_one_after_another(self):
        """Stages that learnt together have no common step with stages that learn in turn."""
        found = self.go_on("strategy/input=frozen", "run/epochs=1")
        self.warned(found, "only the parameters carry over", "set aside")
        self.assertEqual(max(self.steps()), 30)  # twice 15, from the beginning

    def test_another_optimiser(self):
        self.warned(self.go_on("optimiser/kind=sgd"), "its state begins anew")

    def test_other_data(self):
        """Two thirds of the samples: the same part of the epoch, though that is an earlier step than before."""
        found = self.go_on("data/samples=400")
        self.warned(found, "an epoch has 10 steps now and had 15", "set aside")
        self.assertEqual(found["steps"], 20)
        self.assertEqual(max(self.steps()), 20)
        kept = sorted(path.name for path in (self.folder / "run" / "checkpoints").iterdir())
        self.assertEqual(kept, [self.checkpoint.name + ".superseded"])

    def test_other_length(self):
        self.assertEqual(self.go_on("run/epochs=3")["steps"], 45)
        self.assertEqual(self.go_on("run/steps=5")["steps"], 5)  # already there: evaluated, and that is all

    def test_another_network_is_refused(self):
        smaller = "network/layers=[{type='dense',units=16,repeat=5},{type='dense'}]"
        self.assertRefused(run("train", self.deck, smaller, "-r", self.checkpoint, "-d", self.folder / "other"),
                           self.checkpoint, "has another shape than the deck")

    def test_mistakes_are_not_overlooked_with_the_deck_of_the_checkpoint(self):
        self.assertRefused(run("train", "run/sed=1", "-r", self.checkpoint, "-d", self.folder / "other"),
                           "run/sed: unknown key")

    def test_parameters_alone(self):
        """A file of parameters begins a run that has taken no step."""
        found = train(self.folder / "other", self.deck, "-r", self.whole / "parameters.h5")
        self.assertEqual(found["steps"], STEPS)
        self.assertLess(found["test_loss"], self.result["test_loss"])


class Metadata(support.RunTest):
    def test_ranks_of_other_command_lines_write_one_file(self):
        """All ranks describe a file in the same words, or HDF5 waits for ever: here each has words of its own."""
        def train_with(option):
            return [sys.argv[1], "train", self.deck, option, self.folder / "run", "checkpoint/every=15"]

        # A launcher that is killed leaves its ranks behind, one that is asked to end does not.
        command = ["timeout", "60", os.environ.get("PARTITA_MPIEXEC", "mpiexec"), "-n", "1", *train_with("-d"), ":",
                   "-n", "1", *train_with("--directory")]
        result = subprocess.run(list(map(str, command)), capture_output=True, text=True)
        self.assertDone(result)
        shown = run("info", self.folder / "run" / "checkpoints" / "step-000000030.h5")
        self.assertDone(shown)
        self.assertIn("all checksums right", shown.stdout)


if __name__ == "__main__":
    support.main()
