"""Rounds of failures drawn by a seeded generator: ranks are killed, even while they write, files are damaged, disks are
full. After each round, the run continues to its end and must give the result of a run without failures.

PARTITA_CAMPAIGN_ROUNDS says how many rounds; PARTITA_CAMPAIGN_ROUND=N repeats round N alone.
"""

import gzip
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import time
import unittest

import support
from bad_data import IDX_DECK, LIBSVM_DECK, NAMES, idx
from machine import Job, fill, mounted, with_own_mounts
from support import checkpoints, complaints, history, run

ROUNDS = int(os.environ.get("PARTITA_CAMPAIGN_ROUNDS", 10))
ONE = os.environ.get("PARTITA_CAMPAIGN_ROUND")
STRATEGIES = {
    "joint": ["strategy/kind=joint"],
    "relay": ["strategy/input=relay", "optimiser/clip_norm=1"],
    "free": ["strategy/input=free"],
    "frozen": ["strategy/input=frozen"],
    "recovery": ["strategy/input=free", "strategy/recovery_epochs=2"],
    "pipeline": ["strategy/kind=pipeline", "strategy/microbatches=2"],
}
COMMON = ["run/epochs=3", "run/log_every=7"]
WIDE = "network/layers=[{type='dense',units=400,activation='relu',repeat=5},{type='dense'}]"
WIDE_BYTES = 8_500_000  # of a checkpoint
LIBSVM = "".join(f"{i % 3} 1:0.5 {2 + i % 4}:1\n" for i in range(60)).encode()
IDX = dict(zip(NAMES, (idx(60, 4, 4), idx(60), idx(20, 4, 4), idx(20))))
DATA = (
    (IDX_DECK, IDX),
    (IDX_DECK, {name: gzip.compress(content, mtime=0) for name, content in IDX.items()}),
    (LIBSVM_DECK, {"train.txt": LIBSVM, "test.txt": LIBSVM}),
)
# What a run may rightly say about the failures here.
EXPECTED = ("warning: skipped: ", "warning: a checkpoint that this run does not continue from was renamed to ",
            "warning: no checkpoint at step ", "warning: the joined network has an accuracy of ")


class Campaign(support.RunTest):
    whole = {}  # results of runs without failures

    def draw(self, number):
        """What happens in a round; it depends on the number alone."""
        self.random = random.Random(f"campaign {number}")
        self.kept = self.folder / f"round{number}" / "run"
        self.kept.parent.mkdir()
        self.ranks = self.random.choice((1, 2, 4))
        name = self.random.choice(list(STRATEGIES))
        replicas = self.ranks if name == "joint" else max(1, self.ranks // 2)
        self.overrides = [*COMMON, *STRATEGIES[name], f"strategy/replicas={replicas}"]
        self.key = (name, self.ranks)
        self.keeping = [f"checkpoint/every={self.random.choice((1, 2, 5, 11))}",
                        f"checkpoint/keep={self.random.choice((1, 2, 3))}",
                        f"checkpoint/compression={self.random.choice((0, 0, 0, 1))}"]

    def widen(self):
        """A network whose checkpoints are larger than what MPI keeps in files of its own."""
        self.overrides += [WIDE, "run/epochs=1"]
        self.key = (*self.key, "wide")

    def wanted(self):
        """Hash, history and seconds of the run without failures."""
        if self.key not in self.whole:
            folder = self.folder / "-".join(map(str, self.key))
            seconds = []
            for _ in range(2):  # kills in the time of one that was halted would come after the end
                begin = time.time()
                summary = support.train(folder, self.deck, *self.overrides, ranks=self.ranks)
                seconds.append(time.time() - begin)
            self.whole[self.key] = (summary["parameters_hash"], history(folder), min(seconds))
        return self.whole[self.key]

    def job(self, before=None):
        return Job("train", self.deck, *self.overrides, *self.keeping, "-d", self.kept, "-r", "latest",
                   ranks=self.ranks, before=before)

    def assertEnded(self, result, codes):
        """One of the exit codes, no unexpected warnings, and one line if there is an error."""
        self.assertIn(result.returncode, codes, result.stdout + result.stderr)
        lines = [line for line in complaints(result) if not line.startswith(EXPECTED)
                 and not ("history.csv: cannot be written" in line and "rows are kept" in line)]
        self.assertEqual(len(lines), 0 if result.returncode == 0 else 1, result.stderr)

    def assertShown(self, path, codes=(0,)):
        result = run("info", path)
        self.assertIn(result.returncode, codes, result.stderr)
        self.assertEqual(len(complaints(result)), result.returncode // 2, result.stderr)

    def assertSameRun(self):
        parameters_hash, rows, _ = self.wanted()
        self.assertEqual(json.loads((self.kept / "summary.json").read_text())["parameters_hash"], parameters_hash)
        self.assertEqual(history(self.kept), rows)

    def finish(self):
        """Continues to the end, gives the result of an uninterrupted run, and leaves only complete files behind."""
        with self.job() as job:
            self.assertEnded(job.finish(), (0,))
        self.assertSameRun()
        for path in checkpoints(self.kept).values():
            self.assertShown(path)
        names = {re.sub(r"\.superseded(-\d+)?$", "", path.name) for path in self.kept.rglob("*")}
        names = {name for name in names if not name.endswith(".h5")}
        self.assertEqual(names - {"deck.toml", "history.csv", "summary.json", "checkpoints"}, set())

    def kill(self, job, who):
        number = self.random.randrange(self.ranks) if who == "one" else None
        ranks = job.ranks()
        job.signal(signal.SIGKILL, ranks.values() if number is None else list(ranks.values())[number:number + 1])
        result = job.finish()  # a killed process may wait for the disk
        hit = result.returncode != 0
        self.hits += 1 if hit else 0
        for path in checkpoints(self.kept).values():
            self.assertShown(path)
        return hit

    def killed_at_random(self, who):
        seconds = self.wanted()[2]
        for _ in range(self.random.randint(1, 3)):
            with self.job() as job:
                if self.ranks > 1:
                    job.wait_for(job.started)
                job.wait(self.random.uniform(0.0, seconds))
                self.kill(job, who)

    def kill_all(self):
        self.killed_at_random("all")

    def kill_one(self):
        self.killed_at_random("one")

    def kill_in_write(self):
        for _ in range(self.random.randint(1, 3)):
            with self.job() as job:
                for _ in range(self.random.randint(1, 3)):
                    job.wait_for(lambda: list(self.kept.glob("checkpoints/*.partial")))
                    job.wait(self.random.uniform(0.0, 0.01))
                self.kill(job, self.random.choice(("all", "one")))

    def kill_with_checkpoints(self):
        """Returns whether the run had not ended before."""
        with self.job() as job:
            count = self.random.randint(1, 2)
            job.wait_for(lambda: len(checkpoints(self.kept)) >= count)
            return self.kill(job, "all")

    def damage(self, path):
        content = bytearray(path.read_bytes())
        if self.random.random() < 0.3:
            content = content[:self.random.randrange(len(content))]
        else:
            for _ in range(self.random.choice((1, 1, 2, 8))):
                content[self.random.randrange(len(content))] ^= 1 << self.random.randrange(8)
        path.write_bytes(content)

    def damage_newest(self):
        if not self.kill_with_checkpoints():
            return
        for path in list(checkpoints(self.kept).values())[-1:]:
            self.damage(path)
            self.assertShown(path, (0, 2))

    def damage_all(self):
        if not self.kill_with_checkpoints():
            return
        for path in checkpoints(self.kept).values():
            self.damage(path)
            self.assertShown(path, (0, 2))

    def damage_data(self):
        """A run may learn only from files that are still valid data of their kind."""
        text, files = self.random.choice(DATA)
        deck, data = self.write("data.toml", text), self.kept.parent
        for name, content in files.items():
            (data / name).write_bytes(content)
        damaged = data / self.random.choice(list(files))
        self.damage(damaged)
        result = run("train", deck, f"data/path={data}", "run/epochs=1", ranks=self.random.choice((1, 2)))
        self.assertIn(result.returncode, (0, 2), result.stderr)
        errors = [line for line in complaints(result) if line.startswith("partita:")]
        self.assertEqual(len(errors), result.returncode // 2, result.stderr)

    def limit_files(self):
        """A write fails in the middle, as where a quota ends."""
        self.widen()
        limit = self.random.randint(WIDE_BYTES * 7 // 10, WIDE_BYTES)
        with self.job(before=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))) as job:
            result = job.finish()
        self.assertEnded(result, (0, 1))
        self.hits += 1 if complaints(result) else 0
        if result.returncode == 0:
            self.assertSameRun()

    def own_disk(self):
        self.kept.mkdir()
        if not mounted(self.kept, "4m"):
            self.skipTest("a file system of its own cannot be mounted here")

    def fill_disk(self):
        self.own_disk()
        early = self.random.random() < 0.5
        left = self.random.choice((0, 10_000, 200_000, 1_100_000, 1_300_000))
        if early:
            fill(self.kept, left)
        with self.job() as job:
            if not early:
                job.wait_for(lambda: checkpoints(self.kept))
                fill(self.kept, left)
            if self.random.random() < 0.5:
                job.wait(self.random.uniform(0.0, self.wanted()[2]))
                (self.kept / "filler").unlink(missing_ok=True)
            result = job.finish()
        (self.kept / "filler").unlink(missing_ok=True)
        self.assertEnded(result, (0, 1, 2) if early else (0, 1))
        self.hits += 1 if complaints(result) else 0
        if result.returncode == 0:
            self.assertSameRun()

    def read_only(self):
        self.own_disk()
        if not self.kill_with_checkpoints():
            return
        subprocess.run(["mount", "-o", "remount,bind,ro", self.kept], check=True)
        with self.job() as job:
            self.assertRefused(job.finish(), self.kept, "Read-only")
        subprocess.run(["mount", "-o", "remount,bind,rw", self.kept], check=True)

    def play(self, number):
        failures = [self.kill_all, self.damage_newest, self.kill_in_write, self.fill_disk, self.limit_files,
                    self.damage_all, self.kill_one, self.damage_data, self.read_only, self.kill_in_write]
        self.draw(number)
        failure = failures[number % len(failures)]
        begin = time.time()
        failure()
        if failure != self.damage_data:
            self.finish()
        print(f"round {number}: {failure.__name__}, {' '.join(map(str, self.key))}, {' '.join(self.keeping)}, "
              f"{time.time() - begin:.1f} s", flush=True)

    def test_rounds(self):
        self.hits = 0
        numbers = range(ROUNDS) if ONE is None else [int(ONE)]
        for number in numbers:
            with self.subTest(repeat=f"PARTITA_CAMPAIGN_ROUND={number}"):
                try:
                    self.play(number)
                except unittest.SkipTest as reason:
                    print(f"round {number} skipped: {reason}", flush=True)
                finally:
                    if self.kept.is_mount():
                        subprocess.run(["umount", "-l", self.kept], check=True)
                    shutil.rmtree(self.kept.parent, ignore_errors=True)
        print(f"{len(numbers)} rounds, {self.hits} failures brought about", flush=True)
        if ONE is None:
            self.assertGreaterEqual(self.hits, len(numbers) // 2, "most rounds came to no failure at all")


if __name__ == "__main__":
    with_own_mounts()
    support.main()
