"""Workers that die, stop or come back: with strategy/tolerate the others train every sample once, and the job ends."""

import os
import random
import re
import shutil
import signal
import time
import unittest

import hogbatch
import support
from hogbatch import SEED, WORKERS
from machine import EndedEarly, Job
from support import checkpoints, train, with_fault

# Makes the launcher let the other ranks live if one dies.
RECOVERS = {"OMPI_MCA_orte_enable_recovery": "1"}
ROUNDS = int(os.environ.get("PARTITA_LOSS_ROUNDS", "4"))
FIRST_ROUND = int(os.environ.get("PARTITA_LOSS_FIRST", "0"))
TOLERATES = [*WORKERS, "strategy/tolerate=true", "run/decisions=true", "run/log_every=20"]


def launcher_recovers():
    launcher = shutil.which(os.environ.get("PARTITA_MPIEXEC", "mpiexec")) or ""
    return "orterun" in os.path.realpath(launcher)


@unittest.skipUnless(launcher_recovers(), "needs the launcher of Open MPI 4")
class Losses(hogbatch.RunOfWorkers):
    def job(self, *overrides, ranks=4, folder="run", environment=None):
        return Job("train", self.deck, *TOLERATES, *overrides, "-d", self.folder / folder, ranks=ranks,
                   environment={**RECOVERS, **(environment or {})})

    def workers(self, folder="run"):
        return {worker["rank"]: worker for worker in support.summary_of(self.folder / folder)["workers"][1:]}

    def disturbed(self, number, victim, reached, *overrides, comes_back=False, folder="run", environment=None):
        """The result of a run in which a worker gets a signal as soon as something is reached and, if it comes back,
        SIGCONT after its loss. This process may be halted until the run has ended: then another run is disturbed."""
        result = None
        for _ in range(3):
            shutil.rmtree(self.folder / folder, ignore_errors=True)
            with self.job(*overrides, folder=folder, environment=environment) as job:
                try:
                    process = [job.all_ranks()[victim]]
                except EndedEarly:
                    continue
                job.wait_for(lambda: reached(job))
                job.signal(number, process)
                job.wait_for(lambda: "the worker is lost" in job.said() or "parameters_hash" in job.said())
                lost = "the worker is lost" in job.said()
                if comes_back or not lost:  # a launcher waits for a process that is stopped while it exits
                    job.signal(signal.SIGCONT, process)
                result = job.finish()
            if lost or " died" in result.stderr:
                break
        self.assertIsNotNone(result, "each run ended too early")
        return result

    def assertEnded(self, result):
        """The run has trained and written everything; the exit code is not enough, as mpirun returns 0 here."""
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertIn("parameters_hash", result.stdout, result.stdout + result.stderr)

    def assertWhole(self, samples, epochs, folder="run"):
        """Every sample of every epoch was trained once, as the log and the counts say."""
        self.assertEachOnce(self.decisions(folder), samples, epochs)
        self.assertEqual(sum(worker["examples"] for worker in self.workers(folder).values()), samples * epochs)

    def test_killed_worker(self):
        """The run continues without it, whichever worker it is and whenever it dies."""
        moments = {"set-up": lambda job: job.started(), "start": lambda job: "epoch 1:" in job.said(),
                   "middle": lambda job: "epoch 30:" in job.said(), "end": lambda job: "epoch 55:" in job.said()}
        late = 0
        for victim, role in ((1, "shared"), (3, "replica")):
            for moment, reached in moments.items():
                if (moment, role) == ("set-up", "replica"):
                    continue  # the same as with the other one, and the ranks that are left wait long in MPI
                with self.subTest(victim=role, moment=moment):
                    folder = f"{role}-{moment}"
                    result = self.disturbed(signal.SIGKILL, victim, reached, "run/epochs=60", "data/samples=607",
                                            "run/watchdog=24", "strategy/slowdown=[30, 30, 30]", folder=folder)
                    if moment == "set-up" and " died" in result.stderr:
                        continue  # the other ranks were in work that needs all ranks
                    if moment != "set-up" and "died while all ranks wrote a file together" in result.stderr:
                        late += moment != "end"
                        self.assertLess(late, 2, "runs end although they could continue")
                        continue  # this process was late
                    self.assertEnded(result)
                    self.assertWhole(607, 60, folder)
                    lost = self.workers(folder)[victim]
                    self.assertEqual(lost["role"], role)
                    if moment == "end" and "lost_step" not in lost:  # it had ended
                        self.assertNotIn(f"rank {victim}: the worker is lost", result.stderr)
                        continue
                    self.assertGreaterEqual(lost["lost_step"], 0)
                    self.assertIn(f"rank {victim}: the worker is lost after step", result.stderr)
                    self.assertEqual(sum("lost_step" in worker for worker in self.workers(folder).values()), 1)
                    table = hogbatch.rows(self.folder / folder / "workers.csv")
                    self.assertEqual({row["rank"] for row in table if row["lost_step"]}, {str(victim)})
                    if moment in ("start", "middle"):
                        self.assertRegex(result.stdout, rf"shares .* lost {victim}\n")

    def test_one_after_the_other(self):
        """Workers die until one is left; when it dies as well, the job ends."""
        with self.job("run/epochs=100000", "run/evaluate_every=0") as job:
            ranks = job.all_ranks()
            for number, victim in enumerate((1, 3)):
                job.until(lambda: "step" in job.said(), "training")
                job.signal(signal.SIGKILL, [ranks[victim]])
                start = f"continuing with {2 - number} worker"
                job.until(lambda start=start: "samples/s" in job.said().partition(start)[2], "steps after a new start")
            said = len(job.said())
            job.until(lambda: len(job.said()) > said + 500, "more of the run")
            begin = time.time()
            job.signal(signal.SIGKILL, [ranks[2]])
            result = job.finish()
        self.assertLess(time.time() - begin, support.within(10))
        self.assertIn("all workers are lost", result.stderr)
        for victim in (1, 3):  # by its number in the job, which has fewer ranks after the first loss
            self.assertIn(f"rank {victim}: the worker is lost after step", result.stderr)

    def test_a_death_after_the_directory_was_moved(self):
        """Another run may use its path by then: nothing there is changed."""
        moved, folder = self.folder / "moved", self.folder / "run"
        with self.job("run/epochs=100000", "run/evaluate_every=0") as job:
            ranks = job.all_ranks()
            job.until(lambda: "step" in job.said(), "training")
            folder.rename(moved)
            folder.mkdir()
            tables = ("history.csv", "workers.csv", "decisions.csv")
            for name in tables:
                shutil.copy(moved / name, folder / name)
            before = {name: (folder / name).read_bytes() for name in tables}
            job.signal(signal.SIGKILL, [ranks[1]])
            result = job.finish()
        self.assertIn("was moved or removed during the run", result.stderr)
        self.assertEqual({path.name: path.read_bytes() for path in folder.iterdir()}, before)

    def test_request_before_a_death(self):
        """A checkpoint that was asked for is written, although a worker is lost before all ranks meet."""
        with self.job("run/epochs=100000", "run/evaluate_every=0") as job:
            ranks = job.all_ranks()
            job.until(lambda: "step" in job.said(), "training")
            job.signal(signal.SIGSTOP, [ranks[3]])
            job.signal(signal.SIGUSR1, [ranks[0]])
            time.sleep(0.5)
            job.signal(signal.SIGKILL, [ranks[3]])
            job.until(lambda: "checkpoint at step" in job.said(), "a checkpoint")
            job.signal(signal.SIGTERM, [ranks[rank] for rank in range(3)])
            self.assertIn("stopped (SIGTERM)", job.finish().stdout)

    def test_death_on_the_node_of_rank_0(self):
        """Other workers are on another node, and get the model by messages."""
        with self.job("run/epochs=100000", "run/evaluate_every=0", environment={"PARTITA_LINKS": "node=2"}) as job:
            ranks = job.all_ranks()
            job.until(lambda: "step" in job.said(), "training")
            job.signal(signal.SIGKILL, [ranks[1]])
            job.until(lambda: "samples/s" in job.said().partition("continuing with 2 workers")[2], "steps of the others")
            job.signal(signal.SIGTERM, [ranks[rank] for rank in (0, 2, 3)])
            self.assertIn("stopped (SIGTERM)", job.finish().stdout)

    def test_death_during_a_new_start(self):
        """The run goes on with the last worker, or ends within seconds, whatever run/watchdog says."""
        for delay in (0.0, 0.02, 0.08):
            with self.subTest(delay=delay):
                with self.job("run/epochs=100000", "run/evaluate_every=0", "run/watchdog=6000",
                              folder=f"after-{delay}") as job:
                    ranks = job.all_ranks()
                    job.until(lambda: "step" in job.said(), "training")
                    job.signal(signal.SIGKILL, [ranks[1]])
                    job.until(lambda: "continuing with 2 workers" in job.said(), "a new start")
                    time.sleep(delay)
                    job.signal(signal.SIGKILL, [ranks[2]])
                    begin = time.time()
                    job.wait_for(lambda: "samples/s" in job.said().partition("continuing with 1 worker ")[2]
                                 or time.time() > begin + support.within(12))
                    self.assertLess(time.time() - begin, support.within(12))
                    if not job.running():
                        # Its number in the job: among those that are left it is rank 1.
                        self.assertRegex(job.finish().stderr, "rank 2: died")

    def test_continued_run(self):
        """Checkpoints after a loss are like any other: they continue with any number of workers."""
        elsewhere = self.folder / "run" / "checkpoints" / "step-000000001.h5"  # somebody puts it there during the run
        with self.job("run/epochs=100000", "data/samples=601", "checkpoint/keep=1") as job:
            ranks = job.all_ranks()
            job.until(lambda: "step" in job.said(), "training")
            elsewhere.parent.mkdir(exist_ok=True)
            elsewhere.write_text("of somebody")
            job.signal(signal.SIGKILL, [ranks[2]])
            job.until(lambda: "samples/s" in job.said().partition("continuing with 2 workers")[2], "steps of the others")
            left = [ranks[0], ranks[1], ranks[3]]
            job.signal(signal.SIGTERM, left)
            self.assertIn("stopped (SIGTERM)", job.finish().stdout)
        self.assertEqual(elsewhere.read_text(), "of somebody")
        elsewhere.unlink()
        epochs = max(checkpoints(self.folder / "run")) // 15 + 2
        train(self.folder / "run", self.deck, *TOLERATES, f"run/epochs={epochs}", "data/samples=601", "-r", "latest",
              ranks=3)
        self.assertEachOnce(self.decisions(), 601, epochs)

    def test_without_recovery(self):
        """Unless launcher and deck allow recovery, the job ends at once; so it does if the coordinator dies."""
        tolerates, silent = ["strategy/tolerate=true"], {"OMPI_MCA_orte_enable_recovery": "0"}
        for victim, overrides, environment, words in (
                (2, tolerates, silent, "signal 9"), (2, [], RECOVERS, "partita: rank 0: rank 2: died"),
                (0, tolerates, RECOVERS, "rank 0, which coordinates, has died")):
            with self.subTest(victim=victim, words=words):
                with Job("train", self.deck, *WORKERS, *overrides, "run/epochs=100000", "-d", self.folder / "run",
                         "--overwrite", ranks=3, environment=environment) as job:
                    job.until(lambda: "step" in job.said(), "training")
                    begin = time.time()
                    job.signal(signal.SIGKILL, [job.all_ranks()[victim]])
                    result = job.finish()
                self.assertNotIn("parameters_hash", result.stdout)
                self.assertLess(time.time() - begin, support.within(10))
                self.assertIn(words, result.stderr)

    def test_stopped_worker(self):
        """A stopped worker is given up when all ranks meet, and ended with the job."""
        result = self.disturbed(signal.SIGSTOP, 3, lambda job: "epoch 3:" in job.said(), "run/epochs=60", "run/watchdog=24",
                                "strategy/slowdown=[30, 30, 30]")
        self.assertEnded(result)
        self.assertWhole(600, 60)
        self.assertIn("lost_step", self.workers()[3])
        self.assertLess(result.seconds, support.within(60))

    def test_stopped_idle_worker_of_another_node(self):
        """It waits for slower ones at the end of an epoch, so it has no batch that would be missed."""
        result = self.disturbed(signal.SIGSTOP, 1, lambda job: "epoch 2:" in job.said(), "run/epochs=40", "run/watchdog=10",
                                "strategy/rule=fixed", "training/batch=200", "strategy/shared_workers=0",
                                "strategy/slowdown=[1, 60, 60]", environment={"PARTITA_LINKS": "node=1"})
        self.assertEnded(result)
        self.assertWhole(600, 40)
        self.assertIn("lost_step", self.workers()[1])

    def test_worker_that_comes_back_after_it_was_given_up(self):
        """It comes back while others still compute; what it sends is ignored, because others have its batch."""
        result = self.disturbed(signal.SIGSTOP, 3, lambda job: "epoch 1:" in job.said(), "run/epochs=6", "run/watchdog=6",
                                "strategy/rule=fixed", "training/batch=150", "strategy/slowdown=[400, 400, 400]",
                                comes_back=True)
        self.assertEnded(result)
        self.assertIn("rank 3: the worker is lost", result.stderr)
        self.assertWhole(600, 6)

    def test_stopped_worker_after_the_results(self):
        """It stops before the last barrier, at which all ranks end; the others need nothing from it any more."""
        job = {"ranks": 4, "folder": "counted", "environment": with_fault("count:3:0")}
        with self.job("run/epochs=2", "run/watchdog=6", **job) as counted:
            last = re.search(r"([0-9]+) barriers", counted.finish().stderr)[1]
        job = {"ranks": 4, "environment": with_fault(f"halt:3:{last}")}
        with self.job("run/epochs=2", "run/watchdog=6", **job) as stopped:
            result = stopped.finish()
        self.assertRegex(result.stderr, r"faults: [0-9.]+\n")  # it has stopped
        self.assertEnded(result)
        self.assertNotIn("partita:", result.stderr)
        self.assertNotIn("lost_step", self.workers()[3])

    def test_campaign(self):
        """Random workers, batches and slowdowns; some die, some stop, some of these come back."""
        for number in range(FIRST_ROUND, FIRST_ROUND + ROUNDS):
            draw = random.Random(7000 * SEED + number)
            ranks = draw.randint(3, 5)
            samples, epochs = draw.randint(300, 700), draw.choice([3, 40, 150])
            batch = draw.randint(11, 60)
            merge, update = draw.choice(["delta", "overwrite", "average"]), draw.choice(["relaxed", "atomic"])
            overrides = [f"strategy/rule={draw.choice(['fixed', 'adaptive', 'proportional'])}",
                         f"strategy/merge={merge}", f"strategy/shared_workers={draw.randint(0, ranks - 1)}",
                         f"data/samples={samples}", f"training/batch={batch}",
                         f"strategy/lower={draw.randint(1, batch)}", f"strategy/upper={draw.randint(batch, 200)}",
                         f"strategy/update={update}", f"run/epochs={epochs}", f"run/seed={draw.randint(0, 99)}",
                         f"strategy/slowdown={[draw.choice([1, 1, 3, 9]) for _ in range(draw.randint(0, ranks - 1))]}",
                         f"run/evaluate_every={draw.choice([0, 15, 40])}",
                         f"checkpoint/every={draw.choice([0, 0, 50])}",
                         f"strategy/tolerate={draw.choice(['true', 'true', 'true', 'false'])}", "run/watchdog=24"]
            emulated = "workers=0" in overrides[2] and draw.random() < 0.3
            environment = {"PARTITA_LINKS": "node=1"} if emulated else {}
            deeds = [(draw.randint(1, ranks - 1), draw.choice(["kill", "kill", "kill", "pause", "stop"]),
                      draw.choice([0.0, 0.02, 0.1, 0.3, 1.0])) for _ in range(draw.choice([1, 1, 2]))]
            with self.subTest(round=number, overrides=overrides, ranks=ranks, deeds=deeds, **environment):
                self.take_part(number, ranks, overrides, environment, deeds, samples, epochs)

    def take_part(self, number, ranks, overrides, environment, deeds, samples, epochs):
        folder = f"round-{number}"
        with self.job(*overrides, ranks=ranks, folder=folder, environment=environment) as job:
            processes = job.all_ranks()
            job.wait_for(lambda: "hogbatch" in job.said())
            for victim, deed, seconds in deeds:
                if deed != "kill":  # a rank that is stopped before it trains only causes warnings
                    job.wait_for(lambda: "step" in job.said() or "epoch" in job.said().partition("devices")[2])
                job.wait(seconds)
                if "parameters_hash" in job.said():
                    break  # the run has ended; the launcher would wait for a process that is stopped in its exit
                job.signal(signal.SIGKILL if deed == "kill" else signal.SIGSTOP, [processes[victim]])
                if deed == "pause":
                    job.wait(1.0)
                    job.signal(signal.SIGCONT, [processes[victim]])
            # Results that were on their way may come after a stop: then the launcher would wait for the process.
            job.wait_for(lambda: "parameters_hash" in job.said())
            job.signal(signal.SIGCONT, list(processes.values()))
            result = job.finish()
        said = result.stdout + result.stderr
        tolerates = "strategy/tolerate=true" in overrides
        ended = [line for line in result.stderr.splitlines() if line.startswith("partita:")]
        if "parameters_hash" in result.stdout:
            self.assertWhole(samples, epochs, folder)
            self.assertNoUpdateLost(folder)
            return
        # Otherwise one rank says why.
        self.assertEqual(len(ended), 1, said)
        reasons = ["all workers are lost", "no response for", "was not written within",
                   "died while all ranks wrote a file together",
                   "died during work that needs all ranks", ": died"]  # the last: before training
        if not tolerates:
            reasons = [": died", "no response for", "was not written within"]
        self.assertTrue(any(reason in ended[0] for reason in reasons), said)

    def assertNoUpdateLost(self, folder):
        applied = [row["applied"] for row in self.decisions(folder) if row["applied"] >= 0]
        self.assertEqual(sorted(applied), list(range(len(applied))))
        self.assertEqual(sum(worker["updates"] for worker in self.workers(folder).values()), len(applied))


if __name__ == "__main__":
    support.main()
