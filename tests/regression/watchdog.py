"""A job in which a rank is lost, stopped or cut off soon ends by itself, and says what happened."""

import re
import signal
import struct
import subprocess
import time

import support
from machine import Job
from support import with_fault

LONG = ["run/epochs=1000000", "run/evaluate_every=0", "run/log_every=100000"]


class Watchdog(support.RunTest):
    def faulty(self, fault, *overrides):
        """The end of a run with a fault, and the seconds from the fault to the end."""
        result = support.run("train", self.deck, *LONG, "run/watchdog=50", *overrides, ranks=2,
                             environment=with_fault(fault))
        moment = re.search(r"faults: ([0-9.]+)", result.stderr)
        self.assertIsNotNone(moment, result.stderr)
        return result, time.time() - float(moment.group(1))

    def with_signal(self, number, rank, *overrides):
        """The end of a run in which one rank gets a signal midway, and the seconds from the signal to the end."""
        job = Job("train", self.deck, *LONG, "run/log_every=1000", *overrides, ranks=2)
        self.addCleanup(job.__exit__)
        job.until(lambda: "step" in job.said(), "training")
        job.signal(number, [job.all_ranks()[rank]])
        begin = time.time()
        return job.finish(), time.time() - begin

    def assertReported(self, result, *parts):
        """Exit code 1, and a report of one rank that contains all of `parts`."""
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertEqual(len([line for line in result.stderr.splitlines() if line.startswith("partita:")]), 1,
                         result.stderr)
        for part in parts:
            self.assertIn(part, result.stderr)

    def test_a_slow_link_loses_nothing(self):
        """Both ranks wait for one another while 5 kB are on their way for six seconds."""
        begin = time.time()
        result = support.run("train", self.deck, "strategy/kind=pipeline", "run/steps=1", "run/evaluate_every=0",
                             "data/test_samples=1", "run/watchdog=50", ranks=2, environment={"PARTITA_LINKS": "bandwidth=850"})
        self.assertEqual((result.returncode, support.complaints(result)), (0, []))
        self.assertGreater(time.time() - begin, 6)

    def test_lost_message(self):
        result, seconds = self.faulty("lose:0:100")
        self.assertReported(result, "partita: rank 0: ranks 0-1: waiting for one another; a message is lost",
                            "rank 1: waiting ", "for message 100 (activations) from rank 0",
                            "rank 0: waiting ", "for rank 1 to receive message 104 (activations)")
        self.assertLess(seconds, support.within(10))

    def test_lost_in_a_pipeline(self):
        result, seconds = self.faulty("lose:1:20", "strategy/kind=pipeline", "strategy/microbatches=4")
        self.assertReported(result, "a message is lost",
                            "for message 20 (gradients of activations) from rank 1 (stage 1, live microbatches: 1)",
                            "rank 1: waiting ", "(activations) from rank 0 (stage 2, live microbatches: 0)")
        self.assertLess(seconds, support.within(10))

    def test_lost_gradient(self):
        result, seconds = self.faulty("lose:1:20", "run/epochs=1", "strategy/recovery_epochs=1000000")
        self.assertReported(result, "for message 20 (gradients of activations) from rank 1")
        self.assertLess(seconds, support.within(10))

    def test_failing_call(self):
        result, seconds = self.faulty("fail:1:20", "run/epochs=1", "strategy/recovery_epochs=1000000")
        self.assertReported(result, "partita: rank 1: ", "message.cpp:", "MPI_Issend")
        self.assertLess(seconds, support.within(10))

    def slow_disk(self):
        """A run that waits 6 s for its first checkpoint, which is requested and takes until `self.over` exists."""
        self.over = self.folder / "over"
        job = Job("train", self.deck, *LONG, "run/log_every=1000", "run/watchdog=6", "-d", self.folder / "run", ranks=2,
                  environment=with_fault(f"sync:1:{support.HANGS}", self.over))
        self.addCleanup(job.__exit__)
        job.until(lambda: "step" in job.said(), "training")
        job.signal(signal.SIGUSR1)
        job.until(lambda: "faults: " in job.said(), "the fault")
        return job

    def test_a_slow_checkpoint_is_reported(self):
        job = self.slow_disk()
        job.until(lambda: re.search("warning: the checkpoint at step [0-9]+ is still being written after 6 s",
                                    job.said()), "the warning")
        self.over.touch()
        job.until(lambda: re.search("checkpoint at step [0-9]+: ", job.said()), "the checkpoint")
        job.signal(signal.SIGTERM)
        result = job.finish()
        self.assertEqual((result.returncode, len(support.complaints(result))), (75, 1), result.stderr)

    def test_a_checkpoint_that_hangs_ends_the_run_at_the_next(self):
        job = self.slow_disk()
        job.signal(signal.SIGTERM)
        begin = time.time()
        result = job.finish()
        self.assertEqual(result.returncode, 1, result.stderr)
        reports = [line for line in result.stderr.splitlines() if line.startswith("partita:")]
        self.assertTrue(reports, result.stderr)
        for line in reports:  # usually of one rank, but both wait
            self.assertIn(" was not written within 6 s (run/watchdog)", line)
        self.assertLess(time.time() - begin, support.within(20))

    def test_a_diverging_run_completes_the_checkpoint_under_way(self):
        """The loss of the last stage is infinite in the second step, while the state after the first is being written."""
        with_fault("")  # skips all of it if faults are not available
        for kind, ranks in (("joint", 1), ("pipeline", 2), ("sil", 2)):
            with self.subTest(kind):
                begin = time.time()
                result = support.run("train", self.deck, f"strategy/kind={kind}", "optimiser/kind=sgd", "checkpoint/every=1",
                                     "optimiser/learning_rate=1e30", "-d", self.folder / kind, ranks=ranks,
                                     environment=with_fault(f"sync:{ranks - 1}:3"))
                self.assertReported(result, ": the loss is not finite at step ")
                self.assertGreater(time.time() - begin, 3)
                self.assertEqual([path.name for path in (self.folder / kind / "checkpoints").iterdir()], ["step-000000001.h5"])

    def test_results_that_hang_end_the_run(self):
        """The first file that rank 1 synchronises is that of the parameters."""
        begin = time.time()
        result = support.run("train", self.deck, "run/watchdog=6", "-d", self.folder / "run", ranks=2,
                             environment=with_fault("sync:1:400"))
        self.assertReported(result, "parameters.h5: was not written within 6 s (run/watchdog)")
        self.assertLess(time.time() - begin, support.within(20))

    def test_a_rank_that_fails_alone_in_a_file_of_all_ends_the_run(self):
        """The others would wait for it inside HDF5, where no watchdog looks."""
        result = support.run("train", self.deck, "checkpoint/every=10", "-d", self.folder / "run", ranks=2,
                             environment=with_fault("create:1:2"))
        self.assertReported(result, "partita: rank 1: ", ": cannot create '/input/shape'")

    def test_stopped_rank(self):
        result, seconds = self.with_signal(signal.SIGSTOP, 1, "run/watchdog=6")
        self.assertReported(result, "partita: rank 0: rank 1: no response for 6 s (run/watchdog) while others wait",
                            "rank 0: waiting ", "for rank 1 to receive message")
        self.assertLess(seconds, support.within(10))

    def test_stopped_in_a_pipeline(self):
        result, seconds = self.with_signal(signal.SIGSTOP, 1, "run/watchdog=6", "strategy/kind=pipeline",
                                           "strategy/microbatches=4")
        self.assertReported(result, "partita: rank 0: rank 1: no response for 6 s (run/watchdog) while others wait",
                            "rank 0: waiting ", "(gradients of activations) from rank 1")
        self.assertLess(seconds, support.within(10))

    def test_stopped_while_it_sets_up(self):
        """Reading data may take long, so the others report a silent rank and keep waiting."""
        barrier = 10  # after the banner and before the training
        job = Job("train", self.deck, "run/steps=3", "run/evaluate_every=0", "run/log_every=1",
                  "run/watchdog=6", ranks=2, environment=with_fault(f"halt:1:{barrier}"))
        self.addCleanup(job.__exit__)
        job.until(lambda: "rank 1: no response for 6 s while others wait" in job.said(), "the warning")
        self.assertIn("devices", job.said())
        self.assertNotIn("loss", job.said())
        job.signal(signal.SIGCONT)
        result = job.finish()
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("loss", result.stdout)

    def test_stopped_after_a_barrier(self):
        """The last duplicate of a communicator, for the parameters, follows a barrier: nobody waits inside MPI for it."""
        arguments = ["train", self.deck, "run/steps=3", "run/evaluate_every=0", "run/watchdog=6", "-d", self.folder / "run"]
        counted = support.run(*arguments, ranks=2, environment=with_fault("count:1:0"))
        last = re.search(r"sums, ([0-9]+) duplicates", counted.stderr)[1]
        result = support.run(*arguments, "--overwrite", ranks=2, environment=with_fault(f"dup:1:{last}"))
        self.assertReported(result, "partita: rank 0: rank 1: no response for 6 s (run/watchdog) while others wait",
                            "rank 0: waiting ", "for all other ranks (communicator)")

    def test_stopped_rank_zero(self):
        result, seconds = self.with_signal(signal.SIGSTOP, 0, "run/watchdog=6")
        self.assertReported(result, "partita: rank 1: rank 0: no response for 6 s (run/watchdog) while this rank waits")
        self.assertLess(seconds, support.within(10))

    def test_killed_rank(self):
        for rank in (0, 1):
            result, seconds = self.with_signal(signal.SIGKILL, rank)
            self.assertNotEqual(result.returncode, 0)
            self.assertLess(seconds, support.within(10))

    def test_semaphore_of_a_killed_process(self):
        """Open MPI names its lock for shared file positions after the file alone, whatever folder the file is in."""
        alone = ["unshare", "--mount", "sh", "-c"]
        taken = struct.pack("=QQQQ", 0, 128, 0, 0)  # as sem_wait leaves it
        (self.folder / "taken").write_bytes(taken)
        hide = "mount --make-rprivate / && mount -t tmpfs tmpfs /dev/shm && cp %s /dev/shm/sem.OMPIO_parameters.h5.partial"
        hide %= self.folder / "taken"
        if subprocess.run([*alone, hide], stderr=subprocess.DEVNULL, check=False).returncode != 0:
            self.skipTest("only root may hide /dev/shm from other processes")
        run = ["train", str(self.deck), "-d", str(self.folder / "run"), "run/watchdog=100"]
        ended = subprocess.run([*alone, hide + ' && exec "$@"', "sh", support._app, *run], stdout=subprocess.DEVNULL,
                               timeout=support.HANGS, check=False)
        self.assertEqual(ended.returncode, 0)
        self.assertTrue((self.folder / "run" / "parameters.h5").exists())


if __name__ == "__main__":
    support.main()
