"""Workers of unequal speed that train one model: every sample once per epoch, counts that add up, runs that can be
repeated, continued, stopped and killed."""

import collections
import csv
import fcntl
import os
import random
import re
import signal
import struct
import time

import support
from machine import Job
from support import checked_log, checkpoints, complaints, contents, finish, run, start, train

SGD = ["optimiser/kind=sgd", "optimiser/momentum=0", "optimiser/learning_rate=0.05", "optimiser/schedule=constant"]
WORKERS = ["strategy/kind=hogbatch", *SGD]
ROUNDS = int(os.environ.get("PARTITA_WORKER_ROUNDS", "6"))
SEED = int(os.environ.get("PARTITA_WORKER_SEED", "1"))
F_SETPIPE_SZ = 1031  # of Linux; module fcntl has it since Python 3.10


TABLE = """
[data]
kind = "idx"
train_images = "train-features"
train_labels = "train-labels"
test_images = "test-features"
test_labels = "test-labels"
[network]
layers = [{ type = "dense", units = 4, activation = "relu" }, { type = "dense" }]
[training]
batch = 20
"""


def rows(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


class RunOfWorkers(support.RunTest):
    """What tests of workers read from a run."""

    def train(self, *overrides, ranks=3, folder="run"):
        return train(self.folder / folder, self.deck, *WORKERS, *overrides, ranks=ranks)

    def decisions(self, folder="run"):
        return [{key: float(value) if key in ("rate", "decay") else int(value) for key, value in row.items() if key != "check"}
                for row in rows(self.folder / folder / "decisions.csv")]

    def assertEachOnce(self, decisions, samples, epochs):
        seen = collections.Counter((row["epoch"], row["first"] + i) for row in decisions for i in range(row["count"]))
        self.assertEqual(seen, {(epoch, i): 1 for epoch in range(epochs) for i in range(samples)})


class Workers(RunOfWorkers):
    def test_results(self):
        """The summary, workers.csv and the output say what each worker has done."""
        result = run("train", self.deck, *WORKERS, "strategy/slowdown=[1, 4]", "run/epochs=4",
                     "-d", self.folder / "run", ranks=3)
        self.assertDone(result)
        summary = support.summary_of(self.folder / "run")
        roles = [worker["role"] for worker in summary["workers"]]
        self.assertEqual(roles, ["coordinator", "shared", "replica"])
        self.assertEqual([worker["rank"] for worker in summary["workers"]], [0, 1, 2])
        self.assertTrue(all(worker["device"] for worker in summary["workers"]))
        self.assertTrue(0 < summary["workers"][0]["busy"] < 1)
        workers = summary["workers"][1:]
        self.assertEqual(sum(worker["examples"] for worker in workers), 4 * 600)
        shares = [worker["updates"] / sum(other["updates"] for other in workers) for worker in workers]
        for share, wanted in zip(summary["update_share"], shares):
            self.assertAlmostEqual(share, wanted)
        for worker in workers:
            self.assertEqual(worker["batch_first"], 40)
            self.assertTrue(0 < worker["busy"] <= 1)
            self.assertTrue(0 <= worker["staleness_mean"] <= worker["staleness_max"])
        losses = [reached["loss"] for reached in summary["time_to_loss"]]
        seconds = [reached["seconds"] for reached in summary["time_to_loss"]]
        self.assertTrue(losses)
        self.assertEqual(losses, sorted(losses, reverse=True))
        self.assertEqual(seconds, sorted(seconds))
        self.assertGreater(summary["test_accuracy"], 0.2)
        table = rows(self.folder / "run" / "workers.csv")
        self.assertEqual({row["rank"] for row in table}, {"1", "2"})
        self.assertEqual(int(table[-1]["updates"]), workers[-1]["updates"])
        steps = {row["run_step"] for row in rows(self.folder / "run" / "history.csv") if row["event"] == "step"}
        self.assertEqual(steps - {row["run_step"] for row in table}, set())
        self.assertRegex(result.stdout, r"shares [01]\.\d\d [01]\.\d\d  batches \d+ \d+")
        self.assertIn("# rank 0 coordinates; rule adaptive", result.stdout)
        self.assertIn("# rank 1: 1 shared worker, updates relaxed, batch 40 at first, then 16 to 512", result.stdout)
        self.assertIn("# rank 2: 1 replica worker, merge by delta, batch 40 at first, then 16 to 512", result.stdout)

    def test_trained_network(self):
        """The result is an ordinary network: it is evaluated on any number of ranks, and exported."""
        summary = self.train()
        for ranks in (1, 2):
            result = run("evaluate", self.folder / "run", ranks=ranks)
            self.assertDone(result)
            self.assertIn(summary["parameters_hash"], result.stdout)
        self.assertDone(run("export", self.folder / "run", "-o", self.folder / "network.npz"))

    def test_one_worker_is_serial_training(self):
        wanted = train(self.folder / "joint", self.deck, *SGD, "strategy/kind=joint")
        for update in ("relaxed", "plain"):
            found = self.train("strategy/rule=fixed", f"strategy/update={update}", ranks=2, folder=update)
            self.assertEqual(found["parameters_hash"], wanted["parameters_hash"])
            self.assertEqual(found["test_loss"], wanted["test_loss"])

    def test_replay(self):
        """A replay repeats the parameters of a run, also of one on emulated nodes."""
        for name, overrides, environment in (("one", [], {}),
                                             ("stale", ["strategy/staleness=scale", "strategy/merge=average"], {}),
                                             ("nodes", ["strategy/shared_workers=1"], {"PARTITA_LINKS": "node=2"})):
            with self.subTest(name):
                result = run("train", self.deck, *WORKERS, *overrides, "run/decisions=true", "training/batch=37",
                             "strategy/slowdown=[2]", "-d", self.folder / name, ranks=4, environment=environment)
                self.assertDone(result)
                again = run("train", self.folder / name / "deck.toml", "--replay", self.folder / name / "decisions.csv",
                            "-d", self.folder / f"{name}-again")
                self.assertDone(again)
                wanted, found = (support.summary_of(self.folder / folder) for folder in (name, f"{name}-again"))
                self.assertEqual(found["parameters_hash"], wanted["parameters_hash"])
                # Several ranks share an evaluation, and add up in another order.
                self.assertAlmostEqual(found["test_loss"], wanted["test_loss"], 5)
                self.assertEachOnce(self.decisions(name), 600, 2)
        evaluations = [[row["run_step"] for row in rows(self.folder / name / "history.csv")
                        if row["event"] == "evaluation"] for name in ("one", "one-again")]
        self.assertEqual(evaluations[0], evaluations[1])

    def test_replay_of_a_log_that_ends_early(self):
        """Rows come in the order in which results arrive, so the last ones may follow an update that is not there."""
        self.assertDone(run("train", self.deck, *WORKERS, "run/decisions=true", "training/batch=37",
                            "strategy/slowdown=[3]", "-d", self.folder / "run", ranks=4))
        lines = (self.folder / "run" / "decisions.csv").read_text().splitlines(keepends=True)
        applied = [row["applied"] for row in self.decisions("run")]
        # Ends of a log without gap, and if there are any, ends with one.
        with_gap = [count for count in range(1, len(applied)) if max(applied[:count]) >= count]
        replayed = 0
        for count in [*with_gap[-3:], len(applied) // 2, len(applied) - 1]:
            log = self.write("cut.csv", "".join(lines[:count + 1]))
            words = ["train", self.folder / "run" / "deck.toml", "--replay", log]
            result = run(*words, "-d", self.folder / "again", "--overwrite")
            if "no full step" in result.stderr:
                continue
            if steps := re.search(r"run/steps=(\d+)", result.stderr):  # otherwise a batch before the last one is missing
                result = run(*words, f"run/steps={steps.group(1)}", "-d", self.folder / "again", "--overwrite")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual("left out" in result.stderr, count in with_gap, result.stderr)
            replayed += 1
        self.assertGreaterEqual(replayed, 1)

    def test_continued_run(self):
        """A run of several workers takes another course, but its position, counts and log continue."""
        folder = self.folder / "run"
        with Job("train", self.deck, *WORKERS, "run/epochs=100000", "run/decisions=true", "run/log_every=20",
                 "data/samples=601", "-d", folder, ranks=3) as job:
            table = folder / "workers.csv"
            job.until(lambda: table.exists() and len(table.read_text().splitlines()) > 1, "a row of the workers")
            job.signal(signal.SIGTERM)
            self.assertEqual(job.finish().returncode, 75)
        stopped = max(checkpoints(folder))
        epochs = stopped // 15 + 2
        summary = train(folder, self.deck, *WORKERS, f"run/epochs={epochs}", "run/decisions=true", "run/log_every=20",
                        "data/samples=601", "-r", "latest", ranks=3)
        self.assertEachOnce(self.decisions(), 601, epochs)
        self.assertEqual(sum(worker["examples"] for worker in summary["workers"][1:]), 601 * epochs)
        updates = [row["applied"] for row in self.decisions()]
        self.assertEqual(sorted(updates), list(range(len(updates))))
        again = run("train", folder / "deck.toml", "--replay", folder / "decisions.csv", "-d", self.folder / "again")
        self.assertDone(again)
        self.assertEqual(support.summary_of(self.folder / "again")["parameters_hash"], summary["parameters_hash"])

    def test_times_to_losses_of_a_continued_run(self):
        """They are those of an uninterrupted run, whether steps remain to be trained or only results to be written."""
        even = ("strategy/rule=synchronous", "strategy/speeds=[1, 1]", "optimiser/learning_rate=1", "run/epochs=8",
                "checkpoint/every=30", "checkpoint/keep=99")
        wanted = self.train(*even)
        losses = [reached["loss"] for reached in wanted["time_to_loss"]]
        self.assertGreater(len(losses), 1)
        table = (self.folder / "run" / "workers.csv").read_text()
        for last in (120, 60):  # of 120 steps
            for name in ("parameters.h5", "summary.json"):
                (self.folder / "run" / name).unlink()
            for step, path in checkpoints(self.folder / "run").items():
                if step > last:
                    path.unlink()
            found = train(self.folder / "run", self.deck, *WORKERS, *even, "-r", "latest", ranks=3)
            self.assertEqual(found["parameters_hash"], wanted["parameters_hash"])
            self.assertEqual([reached["loss"] for reached in found["time_to_loss"]], losses)
            self.assertEqual([worker["examples"] for worker in found["workers"][1:]],
                             [worker["examples"] for worker in wanted["workers"][1:]])
            self.assertEqual(len((self.folder / "run" / "workers.csv").read_text().splitlines()),
                             len(table.splitlines()))

    def test_warnings_about_data_that_only_workers_read(self):
        features = b"".join(bytes([250 * (i % 2), i % 30 == 0, i % 20 == 0]) for i in range(60))
        for name in ("train", "test"):
            self.write(f"{name}-features", struct.pack(">BBBB2I", 0, 0, 8, 2, 60, 3) + features)
            self.write(f"{name}-labels", struct.pack(">BBBBI", 0, 0, 8, 1, 60) + bytes(i % 2 for i in range(60)))
        deck = self.write("table.toml", TABLE)
        result = run("train", deck, *WORKERS, f"data/path={self.folder}", ranks=2)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("will hardly matter", result.stderr)

    def test_logs_that_do_not_fit(self):
        """They are refused, and no file changes."""
        log, common = self.folder / "run" / "decisions.csv", ["run/decisions=true", "checkpoint/every=15", "run/epochs=2"]
        for folder in ("run", "second"):
            self.train(*common, folder=folder)
        rows = [row.split(",") for row in log.read_text().splitlines()]
        self.write("batch.csv", checked_log([*rows[:2], [rows[1][0], *rows[2][1:]], *rows[3:]]))
        self.write("samples.csv", checked_log([*rows[:2], rows[2][:2] + rows[1][2:4] + rows[2][4:], *rows[3:]]))
        self.write("blank.csv", checked_log([*rows[:2], [*rows[2][:4], rows[2][4] + " ", *rows[2][5:]], *rows[3:]]))
        rate = rows[2][9][:-1] + ("1" if rows[2][9][-1] != "1" else "2")
        self.write("digit.csv", "\n".join(",".join(row) for row in (*rows[:2], [*rows[2][:9], rate, *rows[2][10:]], *rows[3:]))
                   + "\n")
        self.write("gap.csv", "\n".join(",".join(row) for row in (*rows[:2], *rows[3:])) + "\n")
        wanted = {path: path.read_bytes() for path in self.folder.rglob("*") if path.is_file()}

        def refused(*words, ranks=1, warnings=0):
            result = run("train", *words, ranks=ranks)
            self.assertEqual((result.returncode, len(complaints(result))), (2, 1 + warnings), result.stderr)
            self.assertEqual({path: path.read_bytes() for path in self.folder.rglob("*") if path.is_file()}, wanted)
            return complaints(result)[-1]

        deck, run_directory = self.folder / "run" / "deck.toml", self.folder / "run"
        self.assertIn("is in the run directory", refused(deck, "--replay", log, "-d", run_directory, "--overwrite"))
        self.assertIn("is not a decisions.csv", refused(deck, "--replay", deck, "-d", run_directory, "--overwrite"))
        self.assertIn("is not a decision", refused(deck, "--replay", self.folder / "blank.csv"))
        for name in ("digit.csv", "gap.csv"):
            self.assertIn(f"{name}:3: was changed, or the row before it was changed or removed",
                          refused(deck, "--replay", self.folder / name))
        for name in ("batch.csv", "samples.csv"):
            self.assertIn("repeats a batch or samples of update", refused(deck, "--replay", self.folder / name))
        for epochs in (1, 3):
            self.assertIn("has 30 steps, but the deck", refused(deck, "--replay", log, f"run/epochs={epochs}"))
        again = [self.deck, *WORKERS, *common]
        self.assertIn("the log must begin with the run",
                      refused(*again, "-r", run_directory / "parameters.h5", "-d", self.folder / "other", ranks=3))
        self.assertIn("strategy/parts", refused(*again, "strategy/parts=2", ranks=3))
        newest = checkpoints(run_directory)[max(checkpoints(run_directory))]
        self.assertIn(f"continues from {newest} without its log",
                      refused(*again, "-r", newest, "-d", self.folder / "second", "--overwrite", ranks=3))
        more = [*again, "run/epochs=3", "-d", run_directory, "-r", "latest"]
        self.assertIn("the log cannot continue with other workers", refused(*more, ranks=2))
        self.assertIn(f"goes back from the step of {newest}", refused(*more, "training/batch=80", ranks=3, warnings=1))

    def test_logs_with_gaps(self):
        """The updates before a checkpoint are in its log, or the run does not continue with it."""
        folder, common = self.folder / "run", ["checkpoint/every=15", "run/decisions=true"]
        log = folder / "decisions.csv"
        self.train(*common, "run/epochs=1")
        again = ["train", self.deck, *WORKERS, *common, "-d", folder, "-r", "latest"]
        whole = log.read_text().splitlines(keepends=True)
        log.write_text("".join(whole[:3] + whole[4:]))
        self.assertRefused(run(*again, "run/epochs=2", ranks=3), f"{log}:4: was changed, or the row before it")
        rows = [row.rstrip().split(",") for row in whole]
        log.write_text(checked_log(rows[:3] + rows[4:]))
        result = run(*again, "run/epochs=2", ranks=3)
        self.assertRefused(result, f"the log has {len(whole) - 2} of the {len(whole) - 1} updates before")
        log.write_text("".join(whole))
        self.train("checkpoint/every=15", "run/epochs=2", "-r", "latest")  # without the log, which is then of another run
        self.assertFalse(log.exists())
        self.assertEqual((folder / "decisions.csv.superseded").read_text(), "".join(whole))
        self.assertRefused(run(*again, "run/epochs=3", ranks=3), "the log must begin with the run")

    def test_smaller_batches_than_before(self):
        """A run continues with them, and a replay of its log repeats batches of both sizes."""
        common = ["strategy/rule=fixed", "checkpoint/every=15", "run/decisions=true"]
        self.train(*common, "run/epochs=1", "strategy/batch_shared=200")
        summary = self.train(*common, "run/epochs=2", "strategy/batch_shared=30", "-r", "latest")
        of_shared = {(row["epoch"], row["count"]) for row in self.decisions() if row["in_place"]}
        self.assertIn((0, 200), of_shared)
        self.assertEqual(max((count for epoch, count in of_shared if epoch == 1), default=0), 30)
        again = self.folder / "again"
        self.assertDone(run("train", self.folder / "run" / "deck.toml", "--replay", self.folder / "run" / "decisions.csv",
                            "-d", again))
        self.assertEqual(support.summary_of(again)["parameters_hash"], summary["parameters_hash"])

    def test_logs_do_not_tell_how_changes_are_made(self):
        common = ["run/decisions=true", "checkpoint/every=15"]
        self.train(*common, "run/epochs=1")
        for word in ("strategy/merge=average", "strategy/update=atomic"):
            result = run("train", self.deck, *WORKERS, *common, "run/epochs=2", word, "-d", self.folder / "run", "-r",
                         "latest", ranks=3)
            self.assertRefused(result, "the log cannot continue with another strategy/merge or strategy/update")
        for word in ("run/seed=2", "training/label_smoothing=0.1", "data/noise=0.3"):
            result = run("train", self.deck, *WORKERS, *common, "run/epochs=2", word, "-d", self.folder / "run", "-r",
                         "latest", ranks=3)
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn(f"the log cannot continue with another deck ({word.split('=')[0]}: ", complaints(result)[-1])
        self.train(*common, "run/epochs=2", "optimiser/learning_rate=0.02", "-r", "latest")

    def test_other_speeds_after_a_restart(self):
        common = ["strategy/rule=synchronous", "checkpoint/every=15", "training/batch=40"]
        for folder, speeds, kept in (("run", "[1, 3]", [10, 30]), ("run", "[3, 1]", [30, 10])):
            again = ["-r", "latest", "run/epochs=2"] if speeds == "[3, 1]" else ["run/epochs=1"]
            self.train(*common, f"strategy/speeds={speeds}", *again, folder=folder)
            rows = (self.folder / folder / "workers.csv").read_text().splitlines()
            place = rows[0].split(",").index("batch")
            self.assertEqual([int(row.split(",")[place]) for row in rows[-2:]], kept)

    def test_samples_per_second(self):
        """Every sample of an epoch counts, not only those of whole batches."""
        for steps, samples in (("run/epochs=2", 1200), ("run/steps=3", 850)):
            summary = self.train("training/batch=250", steps, "--overwrite")
            self.assertAlmostEqual(summary["samples_per_second"] * summary["train_seconds"], samples, 2)

    def test_logs_need_a_directory(self):
        words = [self.deck, *WORKERS, "run/decisions=true"]
        self.assertRefused(run("train", *words, ranks=2), "run/decisions: decisions.csv needs a run directory (-d)")
        self.assertDone(run("train", *words, "-n", "--ranks", "2"))

    def test_a_log_that_the_system_gives_up_does_not_end_the_run(self):
        """It is the first table that is synchronised."""
        result = run("train", self.deck, *WORKERS, "run/decisions=true", "run/epochs=1", "-d", self.folder / "run",
                     ranks=2, environment=support.with_fault("quota:0:0"))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("decisions.csv: cannot be written: Disk quota exceeded", result.stderr)
        self.assertTrue((self.folder / "run" / "parameters.h5").exists())

    def test_a_log_that_does_not_fit_changes_no_earlier_run(self):
        self.train("run/decisions=true", "run/epochs=1")
        log, again = self.folder / "run" / "decisions.csv", self.folder / "again"
        words = ["train", self.folder / "run" / "deck.toml", "--replay", log, "-d", again]
        self.assertDone(run(*words))
        before = contents(again)
        self.assertRefused(run(*words, "run/epochs=2", "--overwrite"), "repeats what the log has")
        begun = self.write("begun.csv", log.read_text().splitlines()[0] + "\n")
        self.assertRefused(run(*words[:3], begun, "-d", again, "--overwrite"), "has no full step")
        self.assertEqual(contents(again), before)

    def test_stopped_replay(self):
        """The message says that the replay cannot be continued. The replay prints a line for each epoch, more than its
        pipe holds, so it cannot end before these lines are read."""
        self.train("run/decisions=true", "run/epochs=600", "data/samples=120")
        process = start("train", self.folder / "run" / "deck.toml", "--replay", self.folder / "run" / "decisions.csv",
                        "-d", self.folder / "again", before=lambda: fcntl.fcntl(1, F_SETPIPE_SZ, 4096))
        self.addCleanup(process.kill)
        self.assertTrue(any("epoch 1:" in line for line in process.stdout), "no epoch")
        process.send_signal(signal.SIGTERM)
        result = finish(process)
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertEqual(complaints(result), ["partita: stopped (SIGTERM); a replay cannot be continued, only started again "
                                              "with --overwrite"])

    def test_other_workers_continue(self):
        self.train("checkpoint/every=15", "run/epochs=1", ranks=4)
        result = run("train", self.deck, *WORKERS, "run/epochs=2", "strategy/shared_workers=0",
                     "-d", self.folder / "run", "-r", "latest", ranks=2)
        self.assertDone(result)
        summary = support.summary_of(self.folder / "run")
        self.assertEqual(summary["workers"][1]["examples"], 600)

    def test_other_workers_continue_within_an_epoch(self):
        """Each sample is in one batch of the epoch, also if the batch of the deck does not divide those before."""
        fixed = ["strategy/rule=fixed", "strategy/batch_shared=27"]
        self.train(*fixed, "strategy/shared_workers=2", "run/epochs=10", "checkpoint/every=5", "checkpoint/keep=99",
                   "run/decisions=true")
        # Updates go on while the ranks agree on a checkpoint, sometimes to the end of an epoch.
        within = {step: path for step, path in checkpoints(self.folder / "run").items() if step % 15 > 0}
        self.assertTrue(within, "all checkpoints are at ends of epochs")
        step, path = next(iter(within.items()))
        ends = {row["first"] + row["count"] for row in self.decisions() if row["epoch"] == step // 15}
        result = run("train", self.deck, *WORKERS, *fixed, "strategy/shared_workers=0", f"run/epochs={step // 15 + 1}",
                     "-d", self.folder / "again", "-r", path, ranks=2)
        self.assertDone(result)
        done = 600 - support.summary_of(self.folder / "again")["workers"][1]["examples"]
        self.assertIn(done, ends)
        self.assertEqual(done // 40, step % 15)
        self.assertNotEqual(done % 40, 0)

    def test_checkpoints_and_limits(self):
        folder = self.folder / "run"
        self.train("run/epochs=8", "checkpoint/every=7", "checkpoint/keep=100")
        steps = list(checkpoints(folder))
        self.assertEqual(steps[-1], 120)
        self.assertGreaterEqual(len(steps), 3)  # updates go on while the ranks agree on one
        self.assertEqual([step // 7 for step in steps[:-1]], sorted({step // 7 for step in steps[:-1]}))
        result = run("train", self.deck, *WORKERS, "run/epochs=100000", "-t", "4", "-d", self.folder / "limit", ranks=3)
        self.assertEqual(result.returncode, 75, result.stderr)
        self.assertIn("the time limit is near", result.stdout)

    def test_a_checkpoint_is_complete_before_the_next_meeting(self):
        """The next meeting may be far away: a run that was killed before it would lose the checkpoint."""
        folder = self.folder / "run"
        endless = ("run/epochs=10000000", "run/evaluate_every=0")
        with Job("train", self.deck, *WORKERS, *endless, "-d", folder, ranks=3) as job:
            job.until(lambda: "samples/s" in job.said(), "training")
            job.signal(signal.SIGUSR1)
            job.until(lambda: checkpoints(folder), "a checkpoint after SIGUSR1")
            job.until(lambda: "written in" in job.said(), "the report of the checkpoint")
            job.signal(signal.SIGKILL)

    def test_dead_worker(self):
        """A worker that dies ends the job within seconds."""
        for victim in (0, 2):
            with Job("train", self.deck, *WORKERS, "run/epochs=100000", "-d", self.folder / f"run-{victim}",
                     ranks=3) as job:
                job.until(lambda: "step" in job.said(), "training")
                begin = time.time()
                job.signal(signal.SIGKILL, [job.all_ranks()[victim]])
                self.assertNotEqual(job.finish().returncode, 0)
                self.assertLess(time.time() - begin, support.within(10))

    def test_late_worker(self):
        """Its batch goes to others, unless it was changing the model, and it gets work again when it is back."""
        folder = self.folder / "run"
        tolerant = ["strategy/tolerate=true", "strategy/rule=fixed", "run/evaluate_every=0", "run/decisions=true",
                    "strategy/slowdown=[20, 20]"]

        def updates():
            """Counts of the updates of rank 2 so far, one for each of its rows."""
            text = (folder / "workers.csv").read_text()
            return [int(count) for count in re.findall(r"^[^,]*,[^,]*,2,[^,]*,[^,]*,(\d+),.*\n", text, re.MULTILINE)]

        with Job("train", self.deck, *WORKERS, *tolerant, "run/epochs=100000", "-d", folder, ranks=3) as job:
            job.until(lambda: "step" in job.said(), "training")
            victim = [job.all_ranks()[2]]
            job.signal(signal.SIGSTOP, victim)
            job.until(lambda: "(strategy/tolerate)" in job.said(), "warning")
            job.signal(signal.SIGCONT, victim)
            seen = len(updates())
            job.until(lambda: len(updates()) > seen, "a row of the worker")
            before = updates()[seen]
            job.until(lambda: updates()[-1] > before + 1, "updates of the worker")  # one may be that of its late batch
            job.signal(signal.SIGTERM)
            self.assertIn("stopped (SIGTERM)", job.finish().stdout)
        epochs = max(checkpoints(folder)) // 15 + 2
        self.train(*tolerant, f"run/epochs={epochs}", "-r", "latest")
        self.assertEachOnce(self.decisions(), 600, epochs)

    def test_no_shared_memory(self):
        """MPI does not allocate what the model needs, and reports it."""
        if not os.access("/dev/shm", os.W_OK):
            self.skipTest("/dev/shm is not writable")
        environment = {**support.with_fault("window:0:0"), "OMPI_MCA_osc_sm_backing_directory": "/dev/shm"}
        result = run("train", self.deck, *WORKERS, ranks=3, environment=environment)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertEqual(len(complaints(result)), 1, result.stderr)
        self.assertRegex(complaints(result)[0], r"rank 0: this strategy needs [\d.]+ kB of shared memory in "
                         "/dev/shm; MPI_Win_allocate_shared failed: ")

    def test_no_room_for_the_model(self):
        """The program notices that the folder is too small before MPI allocates the memory there."""
        if "Open MPI" not in run("info").stdout:
            self.skipTest("only Open MPI lets its users choose the folder")
        full = self.folder / "checkpoints"
        full.mkdir()
        chosen = {**support.with_fault("space:0:1000"), "OMPI_MCA_osc_sm_backing_directory": str(full)}
        result = run("train", self.deck, *WORKERS, ranks=3, environment=chosen)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertEqual(len(complaints(result)), 1, result.stderr)
        self.assertRegex(complaints(result)[0], r"^partita: this strategy needs [\d.]+ kB of shared memory in "
                         rf"{full}, but only 1(\.00)? kB is free$")

    def test_impossible_roles(self):
        large = "{type='dense',units=50000}"
        norm = 'network/layers=[{type="dense",units=8},{type="batch-norm"},{type="dense"}]'
        for ranks, overrides, words in (
                (1, [], "strategy/kind: 'hogbatch' needs at least 2 ranks: the first coordinates, the others work"),
                (2, ["strategy/shared_workers=2"],
                 "strategy/shared_workers: 2 exceeds the number of workers, 1 (rank 0 coordinates)"),
                (2, ["strategy/slowdown=[1, 2]"],
                 "strategy/slowdown: lists 2 workers, but the run has 1 (rank 0 coordinates)"),
                (2, ["strategy/rule=synchronous", "strategy/speeds=[1, 2]"],
                 "strategy/speeds: lists 2 workers, but the run has 1 (rank 0 coordinates)"),
                (4, ["strategy/rule=synchronous", "training/batch=2"],
                 "training/batch: a batch of 2 samples leaves some of the 3 replicas or workers without work"),
                (2, [f"network/layers=[{large},{large},{{type='dense'}}]"], "fewer than 2^31 parameter values"),
                (2, [norm], "keeps running statistics, which workers of strategy/kind 'hogbatch' cannot share"),
                (1, ["--replay", self.deck], "is not a decisions.csv")):
            with self.subTest(words):
                for dry in ([], ["-n"]):
                    if "--replay" not in overrides or not dry:
                        self.assertRefused(run("train", self.deck, *WORKERS, *overrides, *dry, ranks=ranks), words)
        result = run("train", self.deck, *WORKERS, "strategy/shared_workers=2", ranks=3,
                     environment={"PARTITA_LINKS": "node=2"})
        self.assertEqual(result.returncode, 2)
        self.assertIn("rank 2 is not on the node of rank 0, whose memory shared workers update", result.stderr)

    def test_campaign(self):
        """Random workers, batches and slowdowns: every sample once, no update lost, no hang."""
        for number in range(ROUNDS):
            draw = random.Random(1000 * SEED + number)
            ranks = draw.randint(2, 5)
            samples, batch = draw.randint(300, 700), draw.randint(11, 60)
            rule = draw.choice(["fixed", "adaptive", "proportional", "synchronous"])
            merge = "delta" if rule == "synchronous" else draw.choice(["delta", "overwrite", "average"])
            overrides = [f"strategy/rule={rule}", f"strategy/merge={merge}",
                         f"strategy/shared_workers={draw.randint(0, ranks - 1)}", f"data/samples={samples}",
                         f"training/batch={batch}", f"strategy/lower={draw.randint(1, batch)}",
                         f"strategy/upper={draw.randint(batch, 200)}",
                         f"strategy/update={draw.choice(['relaxed', 'atomic'])}",
                         f"strategy/slowdown={[draw.choice([1, 1, 3, 9]) for _ in range(draw.randint(0, ranks - 1))]}",
                         f"run/seed={draw.randint(0, 99)}", "run/decisions=true"]
            environment = {"PARTITA_LINKS": f"node={draw.choice([1, 2, 9])}"} if "workers=0" in overrides[2] else {}
            with self.subTest(round=number, overrides=overrides, ranks=ranks):
                folder = self.folder / f"round-{number}"
                result = run("train", self.deck, *WORKERS, *overrides, "-d", folder, ranks=ranks,
                             environment=environment)
                self.assertDone(result)
                decisions = self.decisions(folder.name)
                self.assertEachOnce(decisions, samples, 2)
                self.assertEqual(sorted(row["applied"] for row in decisions), list(range(len(decisions))))
                workers = support.summary_of(folder)["workers"][1:]
                self.assertEqual(sum(worker["updates"] for worker in workers), len(decisions))
                self.assertEqual(sum(worker["examples"] for worker in workers), 2 * samples)
                again = run("train", folder / "deck.toml", "--replay", folder / "decisions.csv", "-d",
                            self.folder / f"again-{number}")
                self.assertDone(again)
                self.assertEqual(support.summary_of(self.folder / f"again-{number}")["parameters_hash"],
                                 support.summary_of(folder)["parameters_hash"])


if __name__ == "__main__":
    support.main()
