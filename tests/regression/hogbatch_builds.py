"""One job of two executables (MPMD), as with a host and a device build: the second one computes as a replica worker.

PARTITA_SECOND_APP names the second executable. Without it, this is the executable without sanitizers if the first one has
them, and otherwise a copy of the first.
"""

import array
import math
import os
import shutil
import struct
import subprocess
import zipfile
from pathlib import Path

import support
from support import run, summary_of

SGD = ["optimiser/kind=sgd", "optimiser/momentum=0", "optimiser/schedule=constant", "run/log_every=1000"]
WORKERS = [*SGD, "strategy/kind=hogbatch"]
# Batches take longer than the time slices of a busy machine; the second worker is four times as fast. A busy machine
# halts workers for longer than that now and then, so a test tries again with batches that take longer.
SLOW, FAST = 80, 20
LONGER = 1, 4, 16
UNEQUAL = ["strategy/lower=10", "strategy/upper=160", "run/epochs=10",
           "data/samples=3000", "optimiser/learning_rate=0.01", "run/evaluate_every=0"]


def values_of(path):
    """All numbers of an .npz file of floats, array after array."""
    values = []
    with zipfile.ZipFile(path) as file:
        for name in sorted(file.namelist()):
            data = file.read(name)
            start = 10 + struct.unpack("<H", data[8:10])[0]
            if "'descr': '<f4'" in data[:start].decode("latin-1"):
                values += array.array("f", data[start:])
            elif "'descr': '<f8'" in data[:start].decode("latin-1"):
                values += array.array("d", data[start:])
    return values


def norm(values):
    return math.sqrt(sum(value * value for value in values))


class TwoBuilds(support.RunTest):
    def setUp(self):
        super().setUp()
        self.first = Path(support._app)
        second = os.environ.get("PARTITA_SECOND_APP", "")
        if not second and self.first.name.endswith("_sanitized"):
            second = self.first.with_name(self.first.name[:-len("_sanitized")])
        if not second:
            second = shutil.copy2(self.first, self.folder / "second-build")
        self.second = Path(second)
        if not self.second.exists():
            self.skipTest(f"there is no {self.second}")

    def train(self, name, hosts, seconds, *overrides):
        """Trains on these numbers of ranks of the first executable, including rank 0, and of the second."""
        arguments = ["train", self.deck, "-d", self.folder / name, *overrides]
        parts = [part for part in ((hosts, self.first), (seconds, self.second)) if part[0] > 0]
        command = [os.environ.get("PARTITA_MPIEXEC", "mpiexec")]
        for ranks, program in parts:
            command += [*([":"] if len(command) > 1 else []), "-n", ranks, program, *arguments]
        result = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=600)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return summary_of(self.folder / name)

    def parameters(self, name):
        exported = self.folder / f"{name}.npz"
        self.assertDone(run("export", self.folder / name, "-o", exported))
        return values_of(exported)

    def change(self, name, hosts, seconds, *overrides):
        """What a step of all samples does to the parameters at a rate of 1: minus the gradient."""
        one_step = [*overrides, "training/batch=600", "run/epochs=1", "data/samples=600", "data/standardise=none"]
        for rate in ("1", "1e-12"):
            self.train(f"{name}-{rate}", hosts, seconds, *one_step, f"optimiser/learning_rate={rate}")
        after, before = self.parameters(f"{name}-1"), self.parameters(f"{name}-1e-12")
        return [a - b for a, b in zip(after, before)]

    def test_gradients(self):
        """Both builds compute that of one rank; so does a replica of the second build that coordinates with the first."""
        fixed = [*WORKERS, "strategy/rule=fixed"]
        wanted = self.change("joint", 1, 0, *SGD, "strategy/kind=joint", "strategy/stages=1")
        self.assertGreater(norm(wanted), 0.01)
        for name, hosts, seconds, shared in (("shared", 2, 0, 1), ("replica", 1, 1, 0)):
            found = self.change(name, hosts, seconds, *fixed, f"strategy/shared_workers={shared}")
            self.assertEqual(len(found), len(wanted))
            difference = norm([a - b for a, b in zip(found, wanted)])
            self.assertLess(difference, 1e-4 * norm(wanted), name)

    def test_shares_and_speed(self):
        """A shared worker of the first build, and a replica of the second that is four times as fast."""
        wrong = []
        for longer in LONGER:
            overrides = [*UNEQUAL, f"strategy/slowdown=[{SLOW * longer}, {FAST * longer}]", "strategy/shared_workers=1"]
            summaries = {rule: self.train(f"{rule}-{longer}", 2, 1, *WORKERS, *overrides, f"strategy/rule={rule}")
                         for rule in ("fixed", "adaptive")}
            roles = [worker["role"] for worker in summaries["fixed"]["workers"]]
            self.assertEqual(roles, ["coordinator", "shared", "replica"])
            for summary in summaries.values():
                self.assertEqual(sum(worker["examples"] for worker in summary["workers"][1:]), 10 * 3000)
            if self.differs():
                return  # what follows takes both builds for equally fast
            wrong.append(self.oddities(summaries))
            if not wrong[-1]:
                return
        self.fail("\n".join(map(str, wrong)))

    def oddities(self, summaries):
        """What does not fit a slow worker and a fast one. A machine that halts one for a while has the same effect."""
        fixed, adaptive = (summaries[rule]["update_share"][0] for rule in ("fixed", "adaptive"))
        slow, fast = (worker["batch_last"] for worker in summaries["adaptive"]["workers"][1:])
        busy = [summaries["fixed"]["workers"][1]["busy"], *(each["workers"][2]["busy"] for each in summaries.values())]
        expected = {f"busy for {busy} of the time": min(busy) > 0.5,  # about 0.9 if nothing else runs
                    f"share of the slow worker: {fixed}": abs(fixed - FAST / (SLOW + FAST)) <= 0.1,
                    # All batches begin with one size, so it makes less than half of the updates even if batches adapt.
                    f"its share with adapted batches: {adaptive}": fixed + 0.05 < adaptive < 0.6,
                    f"last batches: {slow}, {fast}": fast > 1.5 * slow}
        return [text for text, holds in expected.items() if not holds]

    def test_both_builds_help(self):
        """Both work most of the time, rather than in turns. Speeds of separate runs vary too much to compare."""
        if self.differs():
            self.skipTest("the builds are not equally fast")
        equal = [*WORKERS, "strategy/rule=fixed", "run/epochs=10", "run/evaluate_every=0", "optimiser/learning_rate=0.01",
                 "strategy/shared_workers=1"]
        for longer in LONGER:
            both = self.train(f"both-{longer}", 2, 1, *equal, f"strategy/slowdown=[{SLOW * longer}, {SLOW * longer}]")
            workers = both["workers"][1:]
            self.assertGreater(min(worker["examples"] for worker in workers), 0)
            busy = [worker["busy"] for worker in workers]
            if sum(busy) > 1.2:
                return  # about 1.9 if nothing else runs
        self.fail(f"the workers are busy for {busy} of the time")

    def differs(self):
        return self.first.name.endswith("_sanitized") or "PARTITA_SECOND_APP" in os.environ


if __name__ == "__main__":
    support.main()
