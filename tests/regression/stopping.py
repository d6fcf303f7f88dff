"""Runs that are stopped, asked for a checkpoint, diverge, or find their directory in use: what they print, and that a
run that continues from what they leave ends like one that was never stopped."""

import json
import re
import shutil
import signal
import time

import support
from machine import EndedEarly, Job
from support import checkpoints, complaints, contents, history, run, train, with_fault

STEPS_AN_EPOCH = 15
# A constant rate, so that the steps do not depend on the length of the run.
COMMON = ["run/log_every=50", "run/evaluate_every=40", "optimiser/schedule=constant"]
ENDLESS = 1000000
# Ranks, what is trained and how, and the key that sets the length: for a run that continues until it is stopped, the
# length is chosen afterwards.
VARIANTS = {
    "joint": (1, ["strategy/kind=joint"], "run/epochs"),
    "replicas": (2, ["strategy/kind=joint", "strategy/replicas=2", "optimiser/kind=sgd"], "run/epochs"),
    "relay": (2, ["strategy/input=relay"], "run/epochs"),
    "free": (1, ["strategy/input=free"], "run/epochs"),
    "grid": (4, ["strategy/input=free", "strategy/replicas=2", "optimiser/clip_norm=1"], "run/epochs"),
    "pipeline": (2, ["strategy/kind=pipeline", "strategy/microbatches=3", "optimiser/offload=file",
                     "optimiser/offload_bucket=1000"], "run/epochs"),
    "worker": (2, ["strategy/kind=hogbatch", "optimiser/kind=sgd", "optimiser/momentum=0"], "run/epochs"),
    "meetings": (2, ["strategy/kind=local-sgd", "strategy/replicas=2", "strategy/every=7"], "run/epochs"),
    "pipelines": (4, ["strategy/kind=pipeline", "strategy/replicas=2", "strategy/microbatches=2"], "run/epochs"),
    "recovery": (2, ["strategy/input=free", "run/epochs=4"], "strategy/recovery_epochs"),
    "recovery on four ranks": (4, ["strategy/input=relay", "strategy/replicas=2", "run/epochs=4"],
                               "strategy/recovery_epochs"),
}
# All causes end in the same way, so the other variants are stopped once.
STOPPED_BY_ALL_MEANS = ("joint", "relay", "grid", "recovery", "worker")
FROZEN = {
    "frozen": (1, ["strategy/input=frozen"]),
    "frozen on two ranks": (2, ["strategy/input=frozen"]),
    "frozen on four ranks": (4, ["strategy/input=frozen", "strategy/replicas=2"]),
}


def rows_of_stage(folder, stage):
    """What the history has of it: run steps."""
    path = folder / "history.csv"
    text = path.read_text() if path.exists() else ""
    return {int(step) for step in re.findall(rf"^[^,]*,step,{stage},[^,]*,[^,]*,(\d+),.*\n", text, re.MULTILINE)}


def steps_in(folder):
    return max(checkpoints(folder), default=0)


class Stopping(support.RunTest):
    def setUp(self):
        super().setUp()
        self.kept = self.folder / "run"

    def go_on(self, ranks, *overrides, environment=None):
        return Job("train", self.deck, *overrides, *COMMON, "-d", self.kept, "-r", "latest", ranks=ranks,
                   environment=environment)

    def until_under_way(self, job, stage="1"):
        """Until this call of the program has trained the stage far enough for a row of the history."""
        before = steps_in(self.kept)
        job.until(lambda: max(rows_of_stage(self.kept, stage), default=0) > before, f"a new row of stage {stage}")

    def assertStopped(self, result, reason):
        """Exit code 75, one last line that names a complete checkpoint, no complaints and no leftovers."""
        if result.returncode == 0:
            raise EndedEarly(f"the run ended before it could be stopped ({reason}):\n{result.stdout}")
        self.assertEqual(result.returncode, 75, result.stdout + result.stderr)
        self.assertEqual(complaints(result), [])
        newest = checkpoints(self.kept)[steps_in(self.kept)]
        self.assertEqual(result.stdout.splitlines()[-1], f"stopped ({reason}); {newest} is complete: continue with -r latest")
        self.assertNothingLeft()
        shown = run("info", newest)
        self.assertDone(shown)
        self.assertIn(f"step {steps_in(self.kept)} of the run", shown.stdout)

    def assertNothingLeft(self):
        left = [path.name for path in self.kept.rglob("*")
                if path.name.endswith((".partial", ".new", "output_now")) or path.name == ".partita.lock"]
        self.assertEqual(left, [])

    def ask(self, job):
        """SIGUSR1, and a file: each brings a checkpoint, and the run goes on."""
        before = steps_in(self.kept)
        job.signal(signal.SIGUSR1)
        job.until(lambda: steps_in(self.kept) > before, "a checkpoint after SIGUSR1")
        before = steps_in(self.kept)
        request = self.kept / "output_now"
        request.touch()
        job.until(lambda: steps_in(self.kept) > before and not request.exists(), "a checkpoint after output_now")

    def stop(self, job, number, stage):
        self.until_under_way(job, stage)
        job.signal(number)
        self.assertStopped(job.finish(), signal.Signals(number).name)

    def stop_once(self, ranks, overrides, stage, number):
        with self.go_on(ranks, *overrides) as job:
            self.until_under_way(job, stage)
            self.ask(job)
            self.stop(job, number, stage)

    def stop_by_all_means(self, ranks, overrides, stages, first="1"):
        """The first stop comes when the stage stages[0] is under way, the second with stages[1]; the run begins with
        the stage `first`."""
        with self.go_on(ranks, *overrides) as job:
            self.until_under_way(job, first)
            self.ask(job)
            self.stop(job, signal.SIGTERM, stages[0])
        # Before the last stage: how much of that is left depends on the machine.
        result = run("train", self.deck, *overrides, *COMMON, "-d", self.kept, "-r", "latest", "-t", "1", ranks=ranks)
        self.assertStopped(result, "the time limit is near")
        with self.go_on(ranks, *overrides) as job:
            self.stop(job, signal.SIGINT, stages[1])

    def assertSameRun(self, ranks, overrides):
        """Goes on to the end; then a run that was never stopped."""
        found = train(self.kept, self.deck, *overrides, *COMMON, "-r", "latest", ranks=ranks)
        whole = self.folder / "whole"
        wanted = train(whole, self.deck, *overrides, *COMMON, ranks=ranks)
        self.assertEqual(found["parameters_hash"], wanted["parameters_hash"])
        self.assertEqual(history(self.kept), history(whole))
        self.assertNothingLeft()

    def check(self, name):
        ranks, overrides, length = VARIANTS[name]
        pipeline = "strategy/kind=pipeline" in overrides
        stage = "joined" if pipeline or length == "strategy/recovery_epochs" else "1"
        endless = [*overrides, f"{length}={ENDLESS}"]
        if name in STOPPED_BY_ALL_MEANS:
            self.stop_by_all_means(ranks, endless, (stage, stage), "joined" if pipeline else "1")
        else:
            self.stop_once(ranks, endless, stage, (signal.SIGTERM, signal.SIGINT)[list(VARIANTS).index(name) % 2])
        self.assertSameRun(ranks, [*overrides, f"{length}={steps_in(self.kept) // STEPS_AN_EPOCH + 2}"])

    def check_frozen(self, name):
        """Stages learn one after the other, so the length must be known beforehand: some seconds. If others had the
        cores while the sample was timed, the run is too short to be stopped; it is then tried with more epochs."""
        ranks, variant = FROZEN[name]
        sample = 30
        seconds = min(train(self.folder / "sample", self.deck, *variant, f"run/epochs={sample}", ranks=ranks)["train_seconds"]
                      for _ in range(3))
        epochs = max(sample, round(5.0 * sample / seconds))
        for longer in (1, 4, 16):
            overrides = [*variant, f"run/epochs={longer * epochs}"]
            try:
                self.stop_by_all_means(ranks, overrides, ("1", "2"))
                break
            except EndedEarly:
                if longer == 16:
                    raise
                shutil.rmtree(self.kept, ignore_errors=True)
        self.assertSameRun(ranks, overrides)

    def test_without_a_directory(self):
        for ranks in (1, 2):
            for number in (signal.SIGTERM, signal.SIGINT):
                with Job("train", self.deck, f"run/epochs={ENDLESS}", ranks=ranks) as job:
                    job.until(lambda: "step" in job.said(), "training")
                    job.signal(number)
                    result = job.finish()
                self.assertEqual(result.returncode, 1)
                self.assertEqual(complaints(result), [f"partita: stopped ({signal.Signals(number).name}); without a run "
                                                      "directory (-d) nothing was kept"])
        result = run("train", self.deck, f"run/epochs={ENDLESS}", "-t", "1")
        self.assertEqual(result.returncode, 1)
        self.assertIn("stopped (the time limit is near); without a run directory", complaints(result)[0])

    def test_second_interrupt(self):
        """It ends the run at once, although the checkpoint that the first one requested is still being written."""
        for ranks in (1, 2):
            self.kept = self.folder / f"run{ranks}"
            with self.go_on(ranks, f"run/epochs={ENDLESS}", environment=with_fault(f"sync:0:{support.HANGS}")) as job:
                self.until_under_way(job)
                processes = job.ranks().values()
                job.signal(signal.SIGINT, processes)
                job.until(lambda: "faults: " in job.said(), "the fault")
                begin = time.time()
                job.signal(signal.SIGINT, processes)
                code = job.finish().returncode
            self.assertLess(time.time() - begin, support.within(5))
            self.assertNotIn(code, (0, 75))

    def test_second_interrupt_right_after_the_first(self):
        """It may come before or after anything that the first one causes, or too late; the run ends soon in any case."""
        for ranks in (1, 2):
            self.kept = self.folder / f"run{ranks}"
            with self.go_on(ranks, f"run/epochs={ENDLESS}") as job:
                self.until_under_way(job)
                processes = job.ranks().values()
                begin = time.time()
                job.signal(signal.SIGINT, processes)
                job.signal(signal.SIGINT, processes)
                job.finish()
            self.assertLess(time.time() - begin, support.within(5))

    def test_divergence(self):
        """The run continues at a rate at which it diverges; what was kept before is intact."""
        ways = {"joint": (2, ["strategy/kind=joint", "strategy/replicas=2"]), "relay": (2, ["strategy/input=relay"]),
                "pipeline": (2, ["strategy/kind=pipeline", "strategy/microbatches=2"]),
                "free": (1, ["strategy/input=free"]), "frozen": (2, ["strategy/input=frozen"]),
                "recovery": (2, ["strategy/input=free", "run/epochs=1", "strategy/recovery_epochs=1"])}
        for name, (ranks, overrides) in ways.items():
            with self.subTest(name):
                self.kept = self.folder / name
                overrides += ["optimiser/kind=sgd", "checkpoint/every=10"]
                train(self.kept, self.deck, *overrides, "run/steps=20" if name != "recovery" else "run/seed=3", ranks=ranks)
                for path in list(checkpoints(self.kept).values())[1:]:
                    path.unlink()
                begin = time.time()
                result = run("train", self.deck, *overrides, "-d", self.kept, "-r", "latest",
                             "optimiser/learning_rate=1e30", ranks=ranks)
                self.assertLess(time.time() - begin, support.within(20))
                self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
                ours = [line for line in complaints(result) if line.startswith("partita:")]
                self.assertEqual(len(ours), 1, result.stderr)
                self.assertRegex(ours[0], r"rank \d: stage [12]: the loss is not finite at step \d+; .* of (layer\d\.dense|the stage) ")
                self.assertGreaterEqual(steps_in(self.kept), 10)
                for path in checkpoints(self.kept).values():
                    self.assertDone(run("info", path))
                train(self.kept, self.deck, *overrides, "-r", "latest", "optimiser/learning_rate=0.001", ranks=ranks)

    def relu_deck(self, units, batch):
        """A deck that takes features as they are in data.svm, so that large ones overflow."""
        return self.write("relu.toml", f"""[data]
kind = "libsvm"
train_file = "data.svm"
test_file = "data.svm"
standardise = "none"
[network]
layers = [{{ type = "dense", units = {units}, activation = "relu", repeat = 3 }}, {{ type = "dense" }}]
[training]
batch = {batch}
""")

    def test_infinite_gradient(self):
        """ReLU may turn NaN into 0, so that the loss may stay finite."""
        values = [[1.7e38 * (-1) ** (i // 4 + j // 4) if i % 6 == 5 else (i * 7 + j * 3) % 5 for j in range(32)] for i in range(120)]
        rows = [f"{i % 4} " + " ".join(f"{j + 1}:{value}" for j, value in enumerate(row)) for i, row in enumerate(values)]
        self.write("data.svm", "\n".join(rows) + "\n")
        deck = self.relu_deck(64, 2)
        result = run("train", deck, "run/steps=60", "run/log_every=6", f"data/path={self.folder}")
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertRegex(result.stderr, "stage 1: the (gradient|loss) is not finite at step ")

    def test_infinite_parameters_of_workers(self):
        """Sums of 1.6e38 overflow in the first layer, and ReLU may turn the NaN in the second one into 0: the loss may stay
        finite."""
        rows = [f"{i % 4} " + " ".join(f"{j + 1}:{1.6e38 if i % 6 == 5 else (i * 7 + j * 3) % 5}" for j in range(64))
                for i in range(120)]
        self.write("data.svm", "\n".join(rows) + "\n")
        deck = self.relu_deck(128, 20)
        result = run("train", deck, "strategy/kind=hogbatch", "strategy/rule=fixed", "optimiser/kind=sgd",
                     "optimiser/momentum=0", "optimiser/learning_rate=1e-3", "run/epochs=2", "run/log_every=1",
                     f"data/path={self.folder}", ranks=2)
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertRegex(result.stderr, "partita: rank 0: the (parameters are|loss is) not finite at ")

    def test_divergence_in_the_last_step(self):
        for ranks in (1, 2):
            result = run("train", self.deck, "strategy/kind=joint", "optimiser/kind=sgd", "optimiser/learning_rate=1e30",
                         "run/steps=1", f"strategy/replicas={ranks}", "-d", self.folder / f"run{ranks}", ranks=ranks)
            self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
            ours = [line for line in complaints(result) if line.startswith("partita:")]
            self.assertEqual(len(ours), 1, result.stderr)
            self.assertIn("after the last step, the loss of the evaluation is not finite", ours[0])
            self.assertFalse((self.folder / f"run{ranks}" / "summary.json").exists())

    def test_directory_in_use(self):
        overrides = ["run/seed=5", "strategy/input=free"]
        for ranks in (1, 2):
            self.kept = self.folder / f"run{ranks}"
            with self.go_on(ranks, *overrides, f"run/epochs={ENDLESS}") as job:
                self.until_under_way(job)
                self.ask(job)
                for restart in ([], ["-r", "latest"]):
                    second = run("train", self.deck, *overrides, "-d", self.kept, *restart, ranks=ranks)
                    self.assertRefused(second, self.kept, "is in use by process")
                self.stop(job, signal.SIGTERM, "1")
            self.assertSameRun(ranks, [*overrides, f"run/epochs={steps_in(self.kept) // STEPS_AN_EPOCH + 1}"])

    def test_killed_runs_hold_no_lock(self):
        with self.go_on(1, f"run/epochs={ENDLESS}", "checkpoint/every=100") as job:
            job.until(lambda: checkpoints(self.kept), "a checkpoint")
            job.signal(signal.SIGKILL)
            self.assertEqual(job.finish().returncode, -signal.SIGKILL)
        self.assertTrue((self.kept / ".partita.lock").exists())
        self.assertSameRun(1, [f"run/epochs={steps_in(self.kept) // STEPS_AN_EPOCH + 1}"])


class GoingOn(support.RunTest):
    """Ways to name where to continue."""

    def setUp(self):
        super().setUp()
        self.kept = self.folder / "run"
        self.arguments = ["train", self.deck, "checkpoint/every=10", "checkpoint/keep=10", "-d", self.kept]

    def summary(self, folder):
        return json.loads((folder / "summary.json").read_text())

    def test_checkpoints_without_restart(self):
        self.assertDone(run(*self.arguments))
        before = contents(self.kept)
        for ranks in (1, 2):
            self.assertRefused(run(*self.arguments, ranks=ranks), self.kept, "of an earlier run", "-r latest",
                               "--overwrite", f"{self.kept}-2")
        self.assertEqual(contents(self.kept), before)

    def test_nothing_to_continue_from(self):
        self.assertDone(run(*self.arguments, "-r", "latest"))
        whole = train(self.folder / "whole", self.deck)
        self.assertEqual(self.summary(self.kept)["parameters_hash"], whole["parameters_hash"])

    def test_file_of_another_directory(self):
        self.assertDone(run(*self.arguments))
        other = self.folder / "other"
        self.assertDone(run("train", self.deck, "-d", other, "-r", checkpoints(self.kept)[20]))
        self.assertEqual(self.summary(other)["parameters_hash"], self.summary(self.kept)["parameters_hash"])
        later = [row for row in history(self.kept) if int(row[4]) > 20]  # run_step
        self.assertEqual(history(other), later)
        self.assertEqual(sorted(checkpoints(self.kept)), [10, 20, 30])

    def test_no_such_file(self):
        missing = self.folder / "none.h5"
        self.assertRefused(run(*self.arguments, "-r", missing), missing)
        self.assertDone(run(*self.arguments))
        removed = checkpoints(self.kept)[20]
        removed.unlink()
        self.assertRefused(run("train", self.deck, "-r", removed),
                           "no such file; its folder has 'step-000000030.h5', 'step-000000010.h5'")

    def test_without_deck(self):
        self.assertDone(run(*self.arguments))
        wanted = self.summary(self.kept)
        for restart in ("latest", checkpoints(self.kept)[20]):
            checkpoints(self.kept)[30].unlink()
            for name in ("summary.json", "parameters.h5"):  # as if it had been stopped
                (self.kept / name).unlink()
            self.assertDone(run("train", "-d", self.kept, "-r", restart, ranks=2))
            self.assertEqual(self.summary(self.kept)["parameters_hash"], wanted["parameters_hash"])
        empty = self.folder / "empty"
        self.assertRefused(run("train", "-d", empty, "-r", "latest"), empty, "no checkpoint to continue from")


def add_test(prefix, name, check):
    setattr(Stopping, f"test_{prefix}{name.replace(' ', '_')}", lambda self: check(self, name))


for variant in VARIANTS:
    add_test("", variant, Stopping.check)
for variant in FROZEN:
    add_test("", variant, Stopping.check_frozen)

if __name__ == "__main__":
    support.main()
