"""A run that goes on from a checkpoint is the run that was never interrupted: the same bits in the parameters, the same
rows in the history."""

import csv
import os
import re
import shutil
import subprocess
import sys

import support
from support import GROUP_NORM, IMAGES, checkpoints, history, run, train

EPOCH = 15
WORKERS = ["strategy/kind=hogbatch", "optimiser/kind=sgd", "optimiser/momentum=0"]
VARIANTS = {
    "joint": (1, ["strategy/kind=joint", "optimiser/clip_norm=0.5"]),
    "relay": (1, ["strategy/input=relay"]),
    "relay on two ranks": (2, ["strategy/input=relay", "optimiser/kind=sgd"]),
    "joint steps": (2, ["strategy/joint_every=4", "optimiser/clip_norm=0.5"]),
    "copies in heads": (4, ["strategy/stages=4", "strategy/cuts=[1,3,4]", "strategy/lookahead=4", "strategy/refresh=5"]),
    "everything on replicas": (4, ["strategy/lookahead=4", "strategy/refresh=5", "strategy/reconstruct=0.1",
                                   "strategy/replicas=2", "strategy/bucket_kib=1", "run/epochs=1",
                                   "strategy/recovery_epochs=1"]),
    "reconstruction in 16 bits": (2, ["strategy/reconstruct=0.1", "run/precision=bf16"]),
    "copies and joint steps": (2, ["strategy/stages=3", "strategy/cuts=[1,3]", "strategy/lookahead=4",
                                   "strategy/joint_every=5", "strategy/replicas=2", "optimiser/offload=host"]),
    "free": (2, ["strategy/input=free", "optimiser/kind=adamw", "optimiser/weight_decay=0.01"]),
    "frozen": (1, ["strategy/input=frozen", "strategy/stages=3", "strategy/cuts=flops"]),
    "frozen on two ranks": (2, ["strategy/input=frozen"]),
    "recovery": (2, ["strategy/input=free", "run/epochs=1", "strategy/recovery_epochs=2", "optimiser/clip_norm=1"]),
    "pipeline": (2, ["strategy/kind=pipeline", "strategy/microbatches=3", "optimiser/clip_norm=0.5"]),
    "pipeline of four": (4, ["strategy/kind=pipeline", "strategy/stages=4", "strategy/cuts=flops",
                             "strategy/microbatches=5", "strategy/schedule=1f1b", "optimiser/kind=adamw"]),
    "pipeline with replicas": (4, ["strategy/kind=pipeline", "strategy/replicas=2", "strategy/microbatches=3"]),
    "accumulation": (1, ["strategy/kind=joint", "strategy/microbatches=3"]),
    "replicas": (2, ["strategy/kind=joint", "strategy/replicas=2"]),
    "grid": (4, ["strategy/input=relay", "strategy/replicas=2"]),
    "frozen grid with recovery": (4, ["strategy/input=frozen", "strategy/replicas=2", "run/epochs=1",
                                      "strategy/recovery_epochs=1"]),
    "meetings": (2, ["strategy/kind=local-sgd", "strategy/replicas=2", "strategy/every=4"]),
    "outer steps": (4, ["strategy/kind=local-sgd", "strategy/replicas=4", "strategy/every=5", "strategy/outer=nesterov",
                        "strategy/warmup_steps=3", "optimiser/kind=sgd"]),
    "outer steps of images in 16 bits": (2, ["strategy/kind=local-sgd", "strategy/replicas=2", "strategy/every=4",
                                             "strategy/outer=nesterov", "run/precision=bf16", IMAGES]),
    "shared worker": (2, [*WORKERS, "strategy/rule=fixed"]),
    "replica worker": (2, [*WORKERS, "strategy/rule=adaptive", "strategy/shared_workers=0"]),
    "workers in step": (4, [*WORKERS, "strategy/rule=synchronous", "strategy/speeds=[3, 1, 4]"]),
    "images": (1, ["strategy/kind=joint", IMAGES]),
    "images on replicas": (2, ["strategy/kind=joint", "strategy/replicas=2", IMAGES]),
    "group norm": (2, ["strategy/cuts=[3]", GROUP_NORM]),
    "augmented images": (1, ["strategy/kind=joint", "strategy/microbatches=3", "data/crop=3", "data/flip=true", IMAGES]),
    "augmented relay on replicas": (4, ["strategy/input=relay", "strategy/replicas=2", "data/crop=2", "data/flip=true"]),
    "augmented, frozen, with recovery": (2, ["strategy/input=frozen", "run/epochs=1", "strategy/recovery_epochs=1",
                                             "data/crop=2", "data/flip=true"]),
    "frozen images": (2, ["strategy/input=frozen", "strategy/cuts=[3]", "strategy/recovery_epochs=1", IMAGES]),
    "copies in heads of parts": (4, ["strategy/parts=2", "strategy/split=filter", "strategy/lookahead=4",
                                     "strategy/refresh=5"]),
}


def steps_of(name, places):
    """A quarter of the places, others for the next variant; all of them with PARTITA_ALL_PLACES."""
    first = list(VARIANTS).index(name) % 4
    return places if os.environ.get("PARTITA_ALL_PLACES") else places[first::4]


class Restart(support.RunTest):
    """For each variant, a run that keeps checkpoints of all its steps, and runs that continue from some of them."""

    def whole_run(self, ranks, overrides):
        folder = self.folder / "whole"
        summary = train(folder, self.deck, *overrides, "run/log_every=7", "checkpoint/every=1", "checkpoint/keep=1000",
                        ranks=ranks)
        return folder, summary

    def go_on(self, whole, step, ranks, overrides):
        """A directory as a killed run leaves it: checkpoints up to the step, and a history that is ahead of them."""
        folder = self.folder / f"from-{step}"
        folder.mkdir()
        (folder / "checkpoints").mkdir()
        shutil.copy(checkpoints(whole)[step], folder / "checkpoints")
        shutil.copy(whole / "history.csv", folder)
        with (folder / "history.csv").open("a") as file:
            file.write("9.9,step,1,")  # a row cut short
        summary = train(folder, self.deck, *overrides, "run/log_every=7", "-r", "latest", ranks=ranks)
        rows = history(folder)
        shutil.rmtree(folder)
        return summary, rows

    def check(self, name, steps=None):
        ranks, overrides = VARIANTS[name]
        whole, wanted = self.whole_run(ranks, overrides)
        kept = checkpoints(whole)
        self.assertEqual(list(kept), list(range(1, max(kept) + 1)))
        rows = history(whole)
        last = max(kept)
        places = sorted({1, 6, EPOCH - 1, EPOCH, EPOCH + 1, last // 2, last - 1, last} & set(kept))
        for step in steps or steps_of(name, places):
            with self.subTest(variant=name, step=step):
                found, found_rows = self.go_on(whole, step, ranks, overrides)
                self.assertEqual(found["parameters_hash"], wanted["parameters_hash"])
                self.assertEqual(found["stage_accuracy"], wanted["stage_accuracy"])
                self.assertEqual(found_rows, rows)
                for key in ("bytes_between_replicas", "bytes_between_stages"):
                    self.assertEqual(found[key], wanted[key], key)


class OuterStep(support.RunTest):
    def test_other_outer_step(self):
        """Between two meetings the replicas differ, but start from the same point. With these numbers both steps give
        the same bits."""
        common = ["strategy/kind=local-sgd", "strategy/replicas=2", "strategy/every=4", "checkpoint/every=6"]
        wanted = train(self.folder / "run", self.deck, *common, "checkpoint/keep=99", ranks=2)
        found = train(self.folder / "other", self.deck, *common, "strategy/outer=nesterov", "strategy/outer_rate=1",
                      "strategy/outer_momentum=0", "-r", checkpoints(self.folder / "run")[6], ranks=2)
        self.assertEqual(found["parameters_hash"], wanted["parameters_hash"])


class LongerEpochs(support.RunTest):
    def test_history(self):
        """Rows after the checkpoint are of steps that the new run does not have, even if it begins at a later one."""
        whole, killed = self.folder / "whole", self.folder / "killed"
        train(whole, self.deck, "checkpoint/every=10", "checkpoint/keep=9", "run/log_every=1")
        (killed / "checkpoints").mkdir(parents=True)
        shutil.copy(checkpoints(whole)[10], killed / "checkpoints")
        shutil.copy(whole / "history.csv", killed)
        train(killed, self.deck, "training/batch=20", "run/log_every=1", "-r", "latest")
        with (killed / "history.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        steps = {int(row["step"]) for row in rows if row["event"] == "step"}
        self.assertEqual(steps, {*range(1, 11), *range(21, 61)})
        times = [float(row["time_s"]) for row in rows]
        self.assertEqual(times, sorted(times))


class DamagedTable(support.RunTest):
    def test_history(self):
        """A table with a damaged row is set aside; the new one has the rows that could be read."""
        run = self.folder / "run"
        train(run, self.deck, "checkpoint/every=10", "run/log_every=5", "run/epochs=1")
        whole = (run / "history.csv").read_bytes().splitlines(keepends=True)
        cells = whole[2].split(b",")
        for damaged in ([*cells[:-1], b"\x00\xff\n"], [*cells[:5], b"x5", *cells[6:]], [*cells[:5], b"", *cells[6:]], cells[1:]):
            with self.subTest(row=damaged):
                for name in ("summary.json", "parameters.h5", "history.csv.superseded"):
                    (run / name).unlink(missing_ok=True)
                (run / "history.csv").write_bytes(b"".join([*whole[:2], b",".join(damaged), *whole[3:]]))
                result = support.run("train", self.deck, "checkpoint/every=10", "run/log_every=5", "run/epochs=1", "-d", run,
                                     "-r", "latest", ranks=2)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertIn("history.csv: has rows that this program does not write, or not in this order, and was renamed "
                              "to", result.stderr)
                kept = (run / "history.csv").read_bytes().splitlines(keepends=True)
                self.assertEqual(kept[:3], [*whole[:2], whole[3]])


class Crafted(support.RunTest):
    # By a Python with h5py, which this one need not be.
    PYTHON = os.environ.get("PARTITA_EXPORT_PYTHON") or sys.executable
    EDIT = """import sys, h5py
with h5py.File(sys.argv[1], "r+") as file:
    file["state"].attrs.modify(sys.argv[2], int(sys.argv[3]))
"""

    def setUp(self):
        if subprocess.run([self.PYTHON, "-c", "import h5py"], capture_output=True).returncode != 0:
            self.skipTest("there is no h5py")
        super().setUp()

    def test_steps_that_no_run_has(self):
        """Sums and products of such numbers could overflow."""
        train(self.folder / "run", self.deck, "checkpoint/every=15")
        crafted = self.folder / "crafted.h5"
        for name, values in (("step", (-1, 10**11 + 1, 2**62)), ("run_step", (-1, 10**11 + 1, 2**62)),
                             ("stage", (-1, 2**62)), ("bytes_between_stages", (-1,))):
            for value in values:
                with self.subTest(f"{name} {value}"):
                    shutil.copy(checkpoints(self.folder / "run")[15], crafted)
                    subprocess.run([self.PYTHON, "-c", self.EDIT, crafted, name, str(value)], check=True)
                    self.assertRefused(run("train", self.deck, "training/batch=80", "-r", crafted), crafted,
                                       "'/state' is inconsistent")

    SET_FIRST = """import sys, h5py, zlib
with h5py.File(sys.argv[1], "r+") as file:
    values = file[sys.argv[2]]
    values[0, 0] = float(sys.argv[3])
    values.attrs.modify("crc32", zlib.crc32(values[...].tobytes()))
"""

    def set_first(self, path, tensor, value):
        """Changes the first value of a tensor, and its checksum."""
        subprocess.run([self.PYTHON, "-c", self.SET_FIRST, path, tensor, value], check=True)

    def test_parameter_that_is_not_a_number(self):
        """A unit whose sum is NaN must not look like one that is never active, whoever computes its ReLU."""
        for ranks, overrides in ((1, ["strategy/kind=joint"]), (2, ["strategy/kind=joint", "strategy/replicas=2"]),
                                 (1, ["strategy/input=relay"]), (2, ["strategy/input=relay"]),
                                 (2, ["strategy/kind=pipeline"])):
            with self.subTest(ranks=ranks, overrides=overrides):
                kept = self.folder / f"{ranks} {overrides[0].rpartition('=')[2]}"
                train(kept, self.deck, *overrides, "checkpoint/every=15", ranks=ranks)
                first = checkpoints(kept)[15]
                self.set_first(first, "parameters/layer0.dense/weight", "nan")
                for place in ([], ["-d", kept.with_name(kept.name + " again")]):
                    result = run("train", self.deck, *overrides, "-r", first, *place, ranks=ranks)
                    self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
                    self.assertRegex(result.stderr,
                                     "stage [12]: ('/parameters/layer0.dense/weight'|the loss) is not finite a")

    def test_infinite_moment(self):
        """Adam never changes such a parameter again, which no loss shows. No file could be written from then on."""
        for ranks, overrides in ((1, ["strategy/kind=joint"]), (2, ["strategy/kind=joint", "strategy/replicas=2"]),
                                 (2, ["strategy/input=relay"])):
            with self.subTest(ranks=ranks, overrides=overrides):
                kept = self.folder / f"{ranks} {overrides[0].rpartition('=')[2]}"
                train(kept, self.deck, *overrides, "optimiser/kind=adam", "checkpoint/every=15", ranks=ranks)
                first = checkpoints(kept)[15]
                self.set_first(first, "second_moment/layer0.dense/weight", "inf")
                result = run("train", self.deck, *overrides, "optimiser/kind=adam", "checkpoint/every=5", "-r", first,
                             "-d", kept.with_name(kept.name + " again"), ranks=ranks)
                self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
                self.assertRegex(result.stderr,
                                 r"stage 1: '/second_moment/layer0.dense/weight' is not finite after \d+ steps")


def add_variant(name):
    setattr(Restart, "test_" + re.sub(r"\W+", "_", name), lambda self: self.check(name))


for variant in VARIANTS:
    add_variant(variant)

if __name__ == "__main__":
    support.main()
