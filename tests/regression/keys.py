"""Each key of a deck has an effect: a small run with another value shows it.

SECTIONS and LAYERS have one line for each key that `partita info --deck` lists. The test fails if a key has no line, or
if a line has no key. To add a line for a new key:

    "data/crop": Key(2),

The base run is the small deck of support.py. The second run has data/crop=2 as well and must end with other parameters.
Further arguments of `Key` say what else a line needs: other overrides of both runs, ranks, what must differ instead
of the parameters, what must be the same, and what the value means. PARTITA_KEY=REGEX runs only the lines that match.
"""

import concurrent.futures
import csv
import dataclasses
import itertools
import json
import math
import os
import re
import signal
import struct
import unittest

import support
from bad_data import idx
from machine import Job
from support import run

# One thread leaves a core for `data/prefetch`. Small delays let messages arrive while a rank still has something to do.
# The library of faults counts the sums over replicas.
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "LD_PRELOAD": os.environ.get("PARTITA_FAULTS", ""), "PARTITA_FAULT": "count:0:0",
               **support.ANY_ORDER}
DELAYED = {**ENVIRONMENT, "PARTITA_LINKS": "delay=1e-3"}
UNDEFINED = 2**64 - 1  # an address in an HDF5 file
NOWHERE = "/dev/null/nowhere"


# ---- decks and data

def toml(value):
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{key} = {toml(item)}' for key, item in value.items())} }}"
    return json.dumps(value)


def hdf5(**tables):
    """An HDF5 file whose root group has these tables of bytes: name=(extents, bytes)."""
    def header(*messages):
        messages = [(kind, data + bytes(-len(data) % 8)) for kind, data in messages]
        body = b"".join(struct.pack("<HHBxxx", kind, len(data), 0) + data for kind, data in messages)
        return struct.pack("<BxHIIxxxx", 1, len(messages), 1, len(body)) + body

    content, links = b"", []
    for name, (extents, values) in tables.items():
        at = 96 + len(content)
        content += values + bytes(-len(values) % 8)
        links.append((6, struct.pack("<BBB", 1, 0, len(name)) + name.encode() + struct.pack("<Q", 96 + len(content))))
        content += header((1, struct.pack(f"<BBBxxxxx{len(extents)}Q", 1, len(extents), 0, *extents)),
                          (3, struct.pack("<BxxxIHH", 0x10, 1, 0, 8)), (5, bytes([2, 2, 0, 0])),
                          (8, struct.pack("<BBQQ", 3, 1, at, len(values))))
    root = header((2, struct.pack("<BBQQ", 0, 0, UNDEFINED, UNDEFINED)), (10, bytes(2)), *links)
    superblock = struct.pack("<8s5xBBxHHIQQQQQQIxxxx16x", b"\x89HDF\r\n\x1a\n", 8, 8, 4, 16, 0, 0, UNDEFINED,
                             96 + len(content) + len(root), UNDEFINED, 0, 96 + len(content), 0)
    return superblock + content + root


def write_data(folder):
    """Files of each format in the folders `data` and `other`, where they have other values."""
    for name, step in (("data", 1), ("other", 2)):
        place = folder / name
        place.mkdir()
        labels = bytes(i * step % 3 for i in range(60))
        for part in ("train", "test"):
            pixels = bytes(i * step * (5 if part == "test" else 1) % 251 for i in range(60 * 64))
            (place / f"{part}-images").write_bytes(idx(60, 8, 8, values=pixels))
            (place / f"{part}-labels").write_bytes(idx(60, values=labels))
            (place / f"{part}.h5").write_bytes(hdf5(
                features=((60, 1, 4, 4, 4), pixels), others=((60, 1, 4, 4, 4), pixels[::-1]),
                labels=((60,), labels), turned=((60,), labels[::-1])))
            (place / f"{part}.svm").write_text("".join(
                f"{label} 1:{i / 60 * step:.3f} {2 + i * step % 4}:1\n" for i, label in enumerate(labels)))
            (place / f"{part}.txt").write_text("the quick brown fox jumps over the lazy dog\n" * (9 + step))
        (place / "pairs.txt").write_text("116 104\n256 101\n257 32\n")


DENSE = {"type": "dense"}
FILES = {"data/path": "data", "data/classes": 0, "training/batch": 10}
JOINT = {"strategy/kind": "joint"}
IDX = {**JOINT, **FILES, "data/kind": "idx", "data/train_images": "train-images", "data/train_labels": "train-labels",
       "data/test_images": "test-images", "data/test_labels": "test-labels"}
SVM = {**JOINT, **FILES, "data/kind": "libsvm", "data/train_file": "train.svm", "data/test_file": "test.svm"}
HDF5 = {**JOINT, **FILES, "data/kind": "hdf5", "data/train_file": "train.h5", "data/test_file": "test.h5"}
TOKENS = {"network/layers": [{"type": "embedding", "width": 8}, DENSE], "training/batch": 10}
GRAMMAR = {**JOINT, **TOKENS, "data/kind": "grammar", "data/classes": 0, "data/sequence": 8, "data/samples": 60,
           "data/test_samples": 20}
TEXT = {**JOINT, **TOKENS, **FILES, "data/kind": "text", "data/train_file": "train.txt", "data/test_file": "test.txt",
        "data/sequence": 8}
NOISE = {**JOINT, "data/kind": "noise"}
IMAGES = {"network/layers": [{"type": "conv2d", "channels": 4, "kernel": 3}, DENSE], "strategy/cuts": [1]}
RESIDUAL = {"network/layers": [DENSE | {"units": 8}, {"type": "residual", "layers": [DENSE | {"units": 8}]}, DENSE],
            "strategy/cuts": [2]}
REPLICAS = {**JOINT, "strategy/replicas": 2}
SGD = {**JOINT, "optimiser/kind": "sgd"}
OFFLOAD = {**REPLICAS, "optimiser/offload": "host", "optimiser/offload_bucket": 1000}
FIXED = {"strategy/labels": "gaussian"}
MSE = {"strategy/labels": "orthogonal", "strategy/loss": "mse"}
FREE = {"strategy/input": "free"}
FROZEN = {"strategy/input": "frozen"}
RECOVERY = {"strategy/recovery_epochs": 1}
PIPELINE = {"strategy/kind": "pipeline", "strategy/microbatches": 10, "run/steps": 10, "run/trace": 10}
LOCAL_SGD = {"strategy/kind": "local-sgd", "strategy/replicas": 2, "strategy/every": 5}
HOGBATCH = {"strategy/kind": "hogbatch", "strategy/rule": "fixed", "optimiser/kind": "sgd", "optimiser/momentum": 0}
ADAPTIVE = {**HOGBATCH, "strategy/rule": "adaptive", "strategy/lower": 10, "strategy/upper": 160,
            "strategy/growth": "free", "strategy/slowdown": [1, 8]}
# Batches that take longer than the time slices of a busy machine.
SLOW = {**HOGBATCH, "strategy/slowdown": [300, 300, 300], "run/epochs": 1}
RINGMASTER = {**SLOW, "strategy/staleness": "ringmaster", "strategy/staleness_bound": 10**6}
NESTEROV = {**LOCAL_SGD, "strategy/outer": "nesterov"}


# ---- what is seen of a run

class Finished:
    """A run that has ended."""

    def __init__(self, result, overrides, folder):
        self.code, self.stdout, self.stderr = result.returncode, result.stdout, result.stderr
        self.complaints, self.overrides, self.folder = support.complaints(result), overrides, folder
        if self.code == 0:
            self.summary = support.summary_of(folder)

    def rows(self, event="step"):
        with (self.folder / "history.csv").open(newline="") as file:
            rows = [row for row in csv.DictReader(file) if row["event"] == event]
        return sorted(rows, key=lambda row: (row["stage"], int(row["run_step"])))

    def column(self, name, stage=None, event="step"):
        return [float(row[name]) for row in self.rows(event) if stage is None or row["stage"] == str(stage)]

    def rates(self, stage=None):
        return self.column("learning_rate", stage)

    def stages(self, key):
        return [stage[key] for stage in self.summary["partition"]]

    def workers(self, key):
        """Of all ranks but the coordinator."""
        return [worker[key] for worker in self.summary["workers"][1:]]

    def operations(self, rank=0):
        """Forward and backward operations of the pipeline in their order: F0, F1, B0, ..."""
        events = json.loads((self.folder / "trace.json").read_text())["traceEvents"]
        mine = [event for event in events if event["tid"] == rank and event["cat"] in ("F", "B")]
        return [event["name"] for event in sorted(mine, key=lambda event: event["ts"])]

    def live(self, of=max):
        """The most microbatches between their forward and their backward operation on rank 0: in the step with the most
        or, with `of=min`, in that with the fewest."""
        counts = list(itertools.accumulate(1 if name[0] == "F" else -1 for name in self.operations()))
        steps = self.summary["steps"]
        each = len(counts) // steps
        return of(max(counts[step * each:(step + 1) * each]) for step in range(steps))


def sums_of(run):
    if not ENVIRONMENT["LD_PRELOAD"]:
        raise unittest.SkipTest("PARTITA_FAULTS does not name the library of faults")
    return int(re.search("faults: ([0-9]+) sums", run.stderr)[1])


SEEN = {
    "hash": lambda run: run.summary["parameters_hash"],
    "loss": lambda run: run.summary["test_loss"],
    "steps": lambda run: [(row["event"], row["stage"], row["step"]) for event in ("step", "evaluation")
                          for row in run.rows(event)],
    "rates": lambda run: run.rates(),
    "cuts": lambda run: run.stages("layers"),
    "memory": lambda run: [run.stages(key) for key in ("parameter_bytes", "gradient_bytes", "optimiser_bytes",
                                                       "activation_bytes", "buffer_bytes", "offloaded_bytes")],
    "peak": lambda run: run.summary["peak_device_bytes"],
    "sent": lambda run: [run.summary["bytes_between_stages"], run.summary["bytes_between_replicas"]],
    "shared": lambda run: [run.summary["bytes_between_parts"], run.summary["messages_between_parts"]],
    "sums": sums_of,
    "grid": lambda run: run.summary["grid"],
    "names": lambda run: sorted(str(path.relative_to(run.folder)) for path in run.folder.rglob("*.*")),
    "sizes": lambda run: [path.stat().st_size for path in support.checkpoints(run.folder).values()],
    "parameters": lambda run: run.summary["parameters"],
    "order": lambda run: [run.operations(rank) for rank in range(run.summary["grid"]["ranks"])],
    "refusal": lambda run: (run.code, run.complaints),
    "forecast": lambda run: sorted(run.summary.keys() & {"predicted", "measured", "prediction_error"}),
    "workers": lambda run: [run.workers(key) for key in ("role", "examples", "batch_first", "dropped")],
    "updates": lambda run: re.findall("# rank 1: .*updates ([a-z]+)", run.stdout),
    "phases": lambda run: phases_of(run),
}


def phases_of(run):
    """Whether times were printed for all phases, and no time was counted twice."""
    times = support.phases(run)
    measured = run.summary["train_seconds"] + run.summary["evaluation_seconds"]
    return len(times) == 8 and times["matrix products"] > 0 and sum(times.values()) <= 1.05 * measured + 0.1


@dataclasses.dataclass
class Key:
    """A line of the tables. A check returns what it finds in the base run and the changed run, and what it wants."""
    value: object
    base: dict = dataclasses.field(default_factory=dict)  # overrides of both runs
    differs: tuple = ("hash",)  # of SEEN
    same: tuple = ()  # of SEEN
    ranks: int = 1
    like: dict = None  # other overrides of the base that lead to the same parameters as the value
    check: object = None
    environment: dict = dataclasses.field(default_factory=lambda: ENVIRONMENT)
    on: str = ""  # "host": not on devices, "spare core": on hosts with a core for another thread
    how: object = support.run  # starts the program and waits for its end


def stopped(*arguments, ranks, environment):
    """The end of a run in which rank 1 stops responding at some step."""
    with Job(*arguments, "run/epochs=1000000", "run/evaluate_every=0", ranks=ranks, environment=environment) as job:
        job.until(lambda: "step" in job.said(), "training")
        job.signal(signal.SIGSTOP, [job.all_ranks()[1]])
        return job.finish()


def ended(*arguments, **how):
    """The end of a run, whatever it is."""
    return support.run(*arguments, **how)


def same(value, base=None, differs=(), **others):
    """A line for a key that changes no parameter."""
    return Key(value, base or {}, differs if isinstance(differs, tuple) else (differs,), ("hash",), **others)


def sized(value):
    """A line for a key on which the number of parameters depends."""
    return Key(value, differs=("hash", "parameters"))


def refused(value, base=None, words="", **others):
    """A line for a key whose value is refused where it is used."""
    def check(_, run):
        return [run.code, len(run.complaints), words in " ".join(run.complaints)], [2, 1, True]
    return Key(value, base or {}, ("refusal",), check=check, **others)


def rate(formula, stage=None):
    """The check that the learning rates are those of a formula of the step, from 1, and the steps of a stage."""
    def check(_, run):
        return run.rates(stage), [formula(step - 1, run.summary["steps"]) for step in run.column("step", stage)]
    return check


def grows(count):
    """The check that the last rank needed at least this many more bytes."""
    return lambda base, run: (SEEN["peak"](run)[-1] - SEEN["peak"](base)[-1] >= count, True)


def batches(run):
    """The batches of all workers in workers.csv."""
    with (run.folder / "workers.csv").open(newline="") as file:
        return [int(row["batch"]) for row in csv.DictReader(file)]


def reachable(factor, size=40, lower=10, upper=160):
    """All batches that a worker can get when each change multiplies or divides its size by the factor."""
    sizes, new = set(), {size}
    while new:
        sizes |= new
        changed = {int(old * factor) for old in new} | {int(old / factor) for old in new}
        new = {min(max(next_size, lower), upper) for next_size in changed} - sizes
    return sizes


def near(found, wanted):
    """Equality but for the digits that the history leaves out."""
    if isinstance(found, list) and isinstance(wanted, list):
        return len(found) == len(wanted) and all(map(near, found, wanted))
    if isinstance(found, float):
        return math.isclose(found, wanted, rel_tol=1e-5)
    return found == wanted


def cosine(step, steps):
    return 0.5 * (1 + math.cos(math.pi * step / steps))


# ---- the lines

RUN = {
    "run/seed": Key(4, check=lambda _, run: (run.summary["seed"], 4)),
    "run/epochs": Key(3, differs=("hash", "steps"), like={"run/steps": 45}),
    "run/steps": Key(45, differs=("hash", "steps"), like={"run/epochs": 3}),
    "run/log_every": same(5, {}, "steps", check=lambda _, run: (run.column("step", 1), [5, 10, 15, 20, 25, 30])),
    "run/evaluate_every": same(2, {}, "steps", check=lambda _, run: (run.column("epoch", 1, "evaluation"), [2])),
    "run/trace": same(2, JOINT, "names", check=lambda _, run: (run.operations(), 2 * ["F0", "B0"])),
    "run/decisions": same(True, HOGBATCH, "names", ranks=2),
    "run/timing": same(True, {}, "phases"),
    # 6 s: longer than a machine ever halts all ranks at once.
    "run/watchdog": Key(6, {"run/watchdog": 7}, ("refusal",), ranks=2, how=stopped,
                        check=lambda _, run: ("no response for 6 s (run/watchdog)" in run.complaints[0], True)),
    "run/cluster": same(str(support.DECKS.parent / "clusters" / "abci.toml"), {}, "forecast"),
    "run/device_aware_mpi": same("off", {}, ("memory", "peak"), ranks=2, on="host"),
    "run/precision": Key("bf16", differs=("hash", "memory")),
}
DATA = {
    "data/kind": Key("noise"),
    "data/path": Key("other", IDX),
    "data/train_images": Key("../other/train-images", IDX),
    "data/train_labels": Key("../other/train-labels", IDX),
    "data/test_images": same("../other/test-images", IDX, "loss"),
    "data/test_labels": same("../other/test-labels", IDX, "loss"),
    "data/train_file": Key("../other/train.svm", SVM),
    "data/test_file": same("../other/test.svm", SVM, "loss"),
    "data/features": Key("others", HDF5),
    "data/labels": Key("turned", HDF5),
    "data/vocabulary": Key("pairs.txt", TEXT, check=lambda base, run: (
        run.summary["parameters"] - base.summary["parameters"], 3 * (8 + 8 + 1))),
    "data/sequence": Key(9, GRAMMAR),
    "data/samples": Key(300, check=lambda _, run: (run.summary["steps"], 2 * (300 // 40))),
    "data/test_samples": same(100, {}, "loss"),
    "data/classes": Key(5, check=lambda base, run: (base.summary["parameters"] - run.summary["parameters"], 5 * 33)),
    "data/image_size": Key(10, check=lambda base, run: (
        base.summary["parameters"] - run.summary["parameters"], 32 * (144 - 100))),
    "data/channels": Key(2, NOISE, check=lambda base, run: (
        run.summary["parameters"] - base.summary["parameters"], 32 * 144)),
    "data/depth": Key(2, NOISE, check=lambda base, run: (
        run.summary["parameters"] - base.summary["parameters"], 32 * 144)),
    "data/distortion": Key(0.5),
    "data/noise": Key(0.3),
    "data/validation": Key(0.25, check=lambda _, run: (run.summary["steps"], 2 * (450 // 40))),
    "data/test_fraction": Key(0.3, {**SVM, "data/test_file": "", "data/validation": 0.2},
                              check=lambda _, run: (run.summary["steps"], 2 * (30 // 10))),
    "data/standardise": Key("feature"),
    "data/crop": Key(2),
    "data/flip": Key(True),
    "data/prefetch": same(512, {"data/prefetch": 256}, ("memory", "peak"), on="spare core",
                          check=grows(2 * 256 * 40 * (144 + 1) * 4)),  # in training and in evaluation
}
TRAINING = {
    "network/layers": Key([{"type": "dense", "units": 16, "repeat": 5}, DENSE]),
    "network/initialisation": Key("xavier"),
    "training/batch": Key(20, check=lambda _, run: (run.summary["steps"], 60)),
    "training/loss": Key("mse"),
    "training/label_smoothing": Key(0.2),
    "optimiser/kind": Key("adamw", {**JOINT, "optimiser/weight_decay": 0.1}),
    "optimiser/learning_rate": Key(0.01, check=rate(lambda step, steps: 0.01 * cosine(step, steps), 1)),
    "optimiser/momentum": Key(0.5, SGD),
    "optimiser/nesterov": Key(True, SGD),
    "optimiser/beta1": Key(0.5),
    "optimiser/beta2": Key(0.9),
    "optimiser/epsilon": Key(1e-3),
    "optimiser/weight_decay": Key(0.1),
    "optimiser/clip_norm": Key(0.01),
    "optimiser/schedule": Key("constant", JOINT, ("hash", "rates"), check=rate(lambda step, steps: 0.001)),
    "optimiser/warmup_steps": Key(16, {"optimiser/schedule": "constant"}, ("hash", "rates"),
                                  check=rate(lambda step, steps: 0.001 * min(1, (step + 1) / 16))),
    "optimiser/step_epochs": Key(1, {**JOINT, "optimiser/schedule": "step"}, ("hash", "rates"),
                                 check=rate(lambda step, steps: 0.001 * (0.1 if step >= 15 else 1))),
    "optimiser/step_factor": Key(0.5, {**JOINT, "optimiser/schedule": "step", "optimiser/step_epochs": 1},
                                 ("hash", "rates"), check=rate(lambda step, steps: 0.001 * (0.5 if step >= 15 else 1))),
    "optimiser/final_fraction": Key(0.2, differs=("hash", "rates"), check=lambda _, run: (
        [run.rates(1), run.rates(2)],
        [[0.001 * (0.2 + 0.8 * fall((step - 1) / run.summary["steps"])) for step in run.column("step", stage)]
         for stage, fall in ((1, lambda p: cosine(p, 1)), (2, lambda p: 1 - p**4))])),
    "optimiser/offload": same("none", OFFLOAD, ("memory", "peak"), ranks=2,
                              check=lambda base, run: (run.stages("optimiser_bytes"), base.stages("offloaded_bytes"))),
    "optimiser/offload_bucket": same(2000, OFFLOAD, ("memory", "peak"), ranks=2),
    "optimiser/offload_directory": refused(NOWHERE, {**JOINT, "optimiser/offload": "file"},
                                           "optimiser/offload_directory: cannot"),
}
STRATEGY = {
    "strategy/kind": Key("joint"),
    "strategy/stages": Key(3, {"strategy/cuts": "flops"}, ("hash", "cuts"),
                           check=lambda _, run: (len(run.stages("layers")), 3)),
    "strategy/replicas": Key(2, {"strategy/stages": 2}, ("grid", "sent"), ranks=2,
                             check=lambda _, run: (run.summary["grid"]["replicas"], 2)),
    "strategy/parts": Key(2, {"strategy/kind": "pipeline", "strategy/schedule": "1f1b"}, ("grid", "memory", "shared"),
                          ranks=2, check=lambda _, run: (
                              run.summary["grid"], {"stages": 2, "replicas": 1, "parts": 2, "ranks": 2})),
    "strategy/split": Key("filter", {**JOINT, "strategy/parts": 2}, ("memory", "shared"), ranks=2),
    "strategy/parts_grid": Key([2, 1], {**JOINT, "strategy/parts": 2, "strategy/split": "spatial", "network/layers": [
        {"type": "conv2d", "channels": 4, "kernel": [3, 1]}, DENSE]}, ("shared",), ranks=2),
    "strategy/cuts": Key([2], differs=("hash", "cuts"), check=lambda _, run: (run.stages("layers"), [[0, 1], [2, 5]])),
    "strategy/input": Key("frozen"),
    "strategy/labels": Key("gaussian"),
    "strategy/label_init": Key("gaussian"),
    "strategy/label_pool": Key(2, IMAGES, check=lambda base, run: (
        4 * run.stages("head_parameters")[0], base.stages("head_parameters")[0])),
    "strategy/head": Key([{"type": "dense", "units": 16}], check=lambda _, run: (
        run.stages("head_parameters"), [16 * 33 + 10 * 16, 0])),
    "strategy/kappa": Key(2, MSE),
    "strategy/loss": Key("mse", FIXED),
    "strategy/temperature": Key(2, FIXED),
    "strategy/match": Key("after", FIXED),
    "strategy/initialisation": Key("he", FIXED),
    "strategy/cut_gain": Key(0.5),
    "strategy/noise": Key(2, {**FREE, **MSE}),
    "strategy/mixture": Key("off", FREE),
    "strategy/reencode": Key("on", FIXED),
    "strategy/label_start": Key("off", {"strategy/cuts": [5]}),
    "strategy/exits": same("sum", {}, "loss"),
    "strategy/head_depth": Key(1, check=lambda _, run: (run.stages("head_parameters"), [33 * 32 + 10 * 32, 0])),
    "strategy/joint_every": Key(3, differs=("hash", "sent"), ranks=2),
    "strategy/lookahead": Key(3, differs=("hash", "sent"), ranks=2, check=lambda _, run: (
        run.stages("head_parameters"), [33 * 32 + 10 * 32, 0])),
    "strategy/refresh": Key(3, differs=("hash", "sent"), ranks=2),
    "strategy/reconstruct": Key(0.5, check=lambda _, run: (
        run.stages("head_parameters"), [33 * 144 + 10 * 32, 0])),
    "strategy/transport": Key(0.5, RESIDUAL),
    "strategy/later_rate": Key(0.5, differs=("hash", "rates"), check=lambda base, run: (
        [run.rates(1), run.rates(2)], [base.rates(1), [rate / 2 for rate in base.rates(2)]])),
    "strategy/later_hold": Key("off", differs=("hash", "rates"), check=lambda _, run: (run.rates(2), run.rates(1))),
    "strategy/queue": same(8, {}, ("memory", "peak"), ranks=2, check=grows(4 * 40 * 32 * 4)),
    "strategy/cache_directory": refused(NOWHERE, FROZEN, "strategy/cache_directory: cannot"),
    "strategy/bucket_kib": same(1, REPLICAS, "sums", ranks=2),
    "strategy/wire": Key("bf16", differs=("hash", "sent"), ranks=2,
                         check=lambda base, run: (2 * SEEN["sent"](run)[0], SEEN["sent"](base)[0])),
    "strategy/recovery_epochs": Key(1, differs=("hash", "steps"),
                                    check=lambda _, run: (run.summary["recovery_epochs"], 1)),
    "strategy/recovery_rate": Key(0.25, RECOVERY, ("hash", "rates"), check=lambda base, run: (
        [2 * rate for rate in run.rates("joined")], base.rates("joined"))),
    "strategy/microbatches": Key(2, JOINT, ("hash", "memory")),
    "strategy/schedule": same("gpipe", PIPELINE, "order", ranks=2, check=lambda _, run: (run.live(), 10)),
    "strategy/limit": same(3, PIPELINE, ("order", "memory"), ranks=2, check=lambda _, run: (run.live(), 3)),
    "strategy/tie": same("backward-first", {**PIPELINE, "strategy/limit": 10}, "order", ranks=2, environment=DELAYED,
                         check=lambda base, run: ([base.live(min), run.live(min) < 10], [10, True])),
    "strategy/caps": same(True, PIPELINE, ("order", "memory"), ranks=2, check=lambda _, run: (run.live(), 3)),
    "strategy/every": Key(10, LOCAL_SGD, ("hash", "sent"), ranks=2,
                          check=lambda base, run: (2 * SEEN["sent"](run)[1], SEEN["sent"](base)[1])),
    "strategy/outer": Key("nesterov", LOCAL_SGD, ranks=2),
    "strategy/outer_rate": Key(0.5, NESTEROV, ranks=2),
    "strategy/outer_momentum": Key(0.5, NESTEROV, ranks=2),
    "strategy/warmup_steps": Key(10, LOCAL_SGD, ("hash", "sent"), ranks=2),
    # One worker has the same parameters in every run, several do not.
    "strategy/shared_workers": Key(0, HOGBATCH, ("workers",), ranks=2,
                                   check=lambda _, run: (run.workers("role"), ["replica"])),
    "strategy/merge": Key("average", {**HOGBATCH, "strategy/shared_workers": 0}, ranks=2),
    "strategy/rule": Key("adaptive", {**ADAPTIVE, "strategy/rule": "fixed"}, ("memory",), ranks=3,
                         check=lambda base, run: (
                             [max(base.workers("batch_last")), max(run.workers("batch_last")) > 40], [40, True])),
    "strategy/lower": refused(50, ADAPTIVE, "is not between strategy/lower and strategy/upper", ranks=3),
    "strategy/upper": Key(320, ADAPTIVE, ("memory",), ranks=3),
    "strategy/lower_shared": refused(50, ADAPTIVE, "is not between strategy/lower_shared", ranks=3),
    "strategy/upper_shared": Key(320, ADAPTIVE, ("memory",), ranks=3),
    "strategy/batch_shared": Key(20, HOGBATCH, ("hash", "workers"), ranks=2),
    "strategy/factor": Key(3, ADAPTIVE, (), ranks=3, check=lambda base, run: (
        [set(batches(base)) <= reachable(2), set(batches(run)) <= reachable(3), len(set(batches(run))) > 1],
        [True, True, True])),
    # The slow worker ends its first batch after all others, and could have shrunk its next one.
    "strategy/growth": Key("bounded", {**ADAPTIVE, "strategy/slowdown": [1, 5000], "run/epochs": 1}, (), ranks=3,
                           check=lambda base, run: (
        [max(base.workers("batch_last")), max(run.workers("batch_last"))], [160, 40])),
    "strategy/beta": Key(1e-6, {**ADAPTIVE, "strategy/slowdown": [], "run/epochs": 20}, (), ranks=3,
                         check=lambda _, run: (run.workers("batch_last")[0], 10)),
    "strategy/rate_cap": Key(0.5, HOGBATCH, ("hash", "rates"), ranks=2,
                             check=lambda base, run: ([2 * rate for rate in run.rates()], base.rates())),
    "strategy/staleness": Key("ringmaster", {**SLOW, "strategy/staleness_bound": 0}, (), ranks=4,
                              check=lambda base, run: (
        [sum(base.workers("dropped")), sum(run.workers("dropped")) > 0], [0, True])),
    "strategy/staleness_bound": Key(0, RINGMASTER, (), ranks=4, check=lambda base, run: (
        [sum(base.workers("dropped")), sum(run.workers("dropped")) > 0], [0, True])),
    "strategy/update": Key("atomic", HOGBATCH, ("updates",), ranks=2),
    "strategy/slowdown": Key([1, 300], HOGBATCH, (), ranks=3,
                             check=lambda _, run: (run.workers("examples")[0] > run.workers("examples")[1], True)),
    "strategy/tolerate": Key(True, {**HOGBATCH, "optimiser/learning_rate": 1e30}, ("refusal",), ranks=2, how=ended,
                             check=lambda base, run: (
        [words in " ".join(seen.complaints) for seen, words in (
            (base, "the loss is not finite at batch"), (run, "all workers have failed"))], [True, True])),
    "strategy/speeds": Key([1, 3], {**HOGBATCH, "strategy/rule": "synchronous"}, ("hash", "workers"), ranks=3,
                           check=lambda _, run: (run.workers("batch_first"), [10, 30])),
}
CHECKPOINT = {
    "checkpoint/every": same(12, {}, "names", check=lambda _, run: (list(support.checkpoints(run.folder)), [24, 30])),
    "checkpoint/keep": same(3, {"checkpoint/every": 12}, "names",
                            check=lambda _, run: (list(support.checkpoints(run.folder)), [12, 24, 30])),
    "checkpoint/compression": same(1, {"checkpoint/every": 30}, "sizes", check=lambda base, run: (
        sum(SEEN["sizes"](run)) < sum(SEEN["sizes"](base)), True)),
}

# What a layer of a type, or for one key, is tested in: overrides, layers before it, its own keys, layers after it.
HIDDEN = {"type": "dense", "units": 16}
SLOPED = {"activation": "leaky-relu"}
WIDTH = {"type": "embedding", "width": 8}
MANY = {**JOINT, "training/batch": 600}
DEEP = [{"type": "dense", "units": 64, "activation": "gelu", "repeat": 8}]
NETWORKS = {
    "dense": (JOINT, [], {"units": 16, **SLOPED}, [DENSE]),
    "activation": (JOINT, [HIDDEN], SLOPED, [DENSE]),
    "dense/tied": (GRAMMAR, [WIDTH], {}, []),
    "block": (JOINT, [], {"layers": [{**HIDDEN, "activation": "gelu"}]}, [DENSE]),
    "block/recompute": (MANY, [], {"layers": DEEP, "repeat": 4}, [DENSE]),
    "residual": (JOINT, [HIDDEN], {"layers": [{**HIDDEN, "activation": "gelu"}], **SLOPED}, [DENSE]),
    "residual/recompute": (MANY, [{**HIDDEN, "units": 64}], {"layers": DEEP, "repeat": 4}, [DENSE]),
    "conv2d": (JOINT, [{"type": "conv2d", "channels": 2, "kernel": 1}], {"channels": 2, "kernel": 3, **SLOPED},
               [DENSE]),
    "conv3d": (HDF5, [{"type": "conv3d", "channels": 2, "kernel": 1}], {"channels": 2, "kernel": 2, **SLOPED},
               [DENSE]),
    "max-pool": (JOINT, [], {"kernel": 2}, [DENSE]),
    "average-pool": (JOINT, [], {"kernel": 2}, [DENSE]),
    "global-average-pool": (JOINT, [{"type": "conv2d", "channels": 2}], {}, [DENSE]),
    "flatten": (JOINT, [], {}, [DENSE]),
    "batch-norm": (JOINT, [HIDDEN], SLOPED, [DENSE]),
    "batch-norm/replicas": (REPLICAS, [HIDDEN], {}, [DENSE]),
    "group-norm": (JOINT, [HIDDEN], {"groups": 2}, [DENSE]),
    "embedding": (GRAMMAR, [], {"width": 8}, [DENSE]),
    "attention": (GRAMMAR, [WIDTH], {}, [DENSE]),
    "layer-norm": (GRAMMAR, [WIDTH], {}, [DENSE]),
    "rms-norm": (GRAMMAR, [WIDTH], {}, [DENSE]),
    "dropout": (JOINT, [HIDDEN], {}, [DENSE]),
}
TWICE = Key(2, differs=("hash", "cuts"), check=lambda _, run: (
    run.stages("layers")[0][1], len(run.overrides["network/layers"])))
ACTIVATION = {"activation": Key("tanh"), "slope": Key(0.5), "repeat": TWICE}
CONVOLUTION = {"channels": sized(4), "kernel": sized(1), "stride": sized(2), "padding": sized(1), "dilation": sized(2),
               "groups": sized(2), "bias": sized(False), **ACTIVATION}
POOL = {"kernel": sized(3), "stride": sized(1), "padding": sized(1), "repeat": TWICE}
NORM = {"epsilon": Key(0.1), "repeat": TWICE}
RECOMPUTE = same(True, {}, ("memory", "peak"))

# Here the base of a key consists of the other keys of its layer.
LAYERS = {
    "dense": {"units": sized(8), "bias": sized(False), "tied": sized(True), **ACTIVATION},
    "activation": ACTIVATION,
    "block": {"layers": Key([HIDDEN]), "recompute": RECOMPUTE, "repeat": TWICE},
    "residual": {"layers": Key([HIDDEN]), "shortcut": sized([HIDDEN]), "recompute": RECOMPUTE, **ACTIVATION},
    "conv2d": CONVOLUTION,
    "conv3d": CONVOLUTION,
    "max-pool": POOL,
    "average-pool": POOL,
    "global-average-pool": {"repeat": refused(2, {}, "needs an image or a volume")},
    "flatten": {"repeat": TWICE},
    "batch-norm": {"momentum": Key(0.5), "replicas": Key(True, ranks=2), **NORM, **ACTIVATION},
    "group-norm": {"groups": Key(4), **NORM},
    "embedding": {"width": sized(4), "positions": sized(True), "repeat": refused(2, {}, "embedding")},
    "attention": {"heads": Key(2), "bias": sized(False), "repeat": TWICE},
    "layer-norm": NORM,
    "rms-norm": NORM,
    "dropout": {"rate": Key(0.5), "repeat": TWICE},
}
SECTIONS = {**RUN, **DATA, **TRAINING, **STRATEGY, **CHECKPOINT}
LINES = {**SECTIONS, **{f"{kind}/{name}": key for kind, keys in LAYERS.items() for name, key in keys.items()}}


# ---- the test

def pair(name, key):
    """Overrides of the base run and of the run with the value."""
    if name in SECTIONS:
        return key.base, {**key.base, name: key.value}
    kind, own = name.split("/")
    overrides, before, keys, after = NETWORKS.get(name) or NETWORKS[kind]
    base = {"type": kind, **keys, **key.base}
    return ({**overrides, "network/layers": [*before, base, *after]},
            {**overrides, "network/layers": [*before, {**base, own: key.value}, *after]})


def listed(reference):
    """The keys of the deck reference, as they are called in the tables."""
    names, section = [], None
    for line in reference.splitlines():
        title = re.match(r'## \[([a-z-]+)\]$|### type = "([a-z0-9-]+)"$', line)
        row = re.match(r"\| `(\w+)` \|", line)
        if title:
            section = title[1] or title[2]
        elif row:
            names.append(f"{section}/{row[1]}")
    return names


class Keys(support.RunTest):
    def setUp(self):
        super().setUp()
        write_data(self.folder)
        self.runs = {}  # under way, or ended

    def arguments(self, overrides):
        return [f"{name}={toml(str(self.folder / value) if name == 'data/path' else value)}"
                for name, value in overrides.items()]

    def finished(self, key, overrides, folder):
        result = key.how("train", self.deck, *self.arguments(overrides), "-d", folder, ranks=key.ranks,
                         environment=key.environment)
        return Finished(result, overrides, folder)

    def start(self, pool, key, overrides):
        """The run with these overrides; runs that several lines share are made once."""
        wanted = (key.ranks, key.how, key.environment is DELAYED, *sorted(self.arguments(overrides)))
        if wanted not in self.runs:
            self.runs[wanted] = pool.submit(self.finished, key, overrides, self.folder / f"run-{len(self.runs)}")
        return self.runs[wanted]

    def compare(self, name, key, base, changed, like):
        text = f"{name} = {toml(key.value)}"
        for run in (base, changed):
            refused = "refusal" in key.differs and (run is changed or key.how is not support.run)
            self.assertTrue(run.code == 0 or refused, f"{text}: {run.overrides}\n{run.stderr}")
        for what in key.differs:
            self.assertNotEqual(SEEN[what](changed), SEEN[what](base), f"{text} has no effect on: {what}")
        for what in key.same:
            self.assertEqual(SEEN[what](changed), SEEN[what](base), f"{text} has an effect on: {what}")
        if key.check is not None:
            found, wanted = key.check(base, changed)
            self.assertTrue(near(found, wanted), f"{text} means something else: {found}, not {wanted}")
        if like is not None:
            self.assertEqual(SEEN["hash"](changed), SEEN["hash"](like), f"{text} is not like {key.like}")

    def test_each_key_has_a_line(self):
        result = run("info", "--deck")
        self.assertDone(result)
        known = listed(result.stdout)
        self.assertGreater(len(known), 100)
        missing = [f"no line in keys.py for {name}" for name in known if name not in LINES]
        extra = [f"keys.py has a line for {name}, which is no key" for name in LINES if name not in known]
        self.assertFalse(missing + extra, ", ".join(missing + extra))

    def test_each_key_has_an_effect(self):
        lines = {name: key for name, key in LINES.items() if re.search(os.environ.get("PARTITA_KEY", ""), name)}
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            runs = {}
            for name, key in lines.items():
                base, changed = pair(name, key)
                wanted = [base, changed] + ([{**base, **key.like}] if key.like else [])
                runs[name] = [self.start(pool, key, overrides) for overrides in wanted]
        for name, key in lines.items():
            with self.subTest(name):
                base, changed, *like = [future.result() for future in runs[name]]
                if key.on and " x host" not in base.summary["provenance"]["devices"]:
                    self.skipTest("this shows on hosts only")
                if key.on == "spare core" and min(len(os.sched_getaffinity(0)), support.processor_time()) < 2:
                    self.skipTest("this takes two cores")
                attempts = 4 if key.environment is DELAYED else 1  # a busy machine delays messages as well
                while True:
                    try:
                        self.compare(name, key, base, changed, like[0] if like else None)
                        break
                    except AssertionError:
                        attempts -= 1
                        if attempts == 0:
                            raise
                    folder = self.folder / f"{name.replace('/', '-')}-{attempts}"
                    changed = self.finished(key, changed.overrides, folder)


class Numbers(support.RunTest):
    """The largest numbers that keys and options take, and larger ones."""

    def test_seconds_that_no_clock_can_count(self):
        for seconds in (10**9 + 1, 9223372037, 2**63 - 1):
            result = run("train", self.deck, f"run/watchdog={seconds}")
            self.assertRefused(result, f"run/watchdog: the integer {seconds} is out of range (allowed [0, 1000000000], seconds)")
        folder = self.folder / "run"
        self.assertDone(run("train", self.deck, "run/watchdog=1000000000", "checkpoint/every=5", "-d", folder, ranks=2))
        for text in ("1000000001", "277777:46:41", "999999999:00:00"):
            for command in (["train", self.deck, "-n"], ["plan", "schedule", self.deck]):
                self.assertRefused(run(*command, "--time-limit", text), f"--time-limit: '{text}' is not a time")
        self.assertDone(run("train", self.deck, "run/steps=1", "-t", "1000000000", "-d", folder, "--overwrite"))

    def test_steps_whose_sum_would_overflow(self):
        recovery, frozen = "strategy/recovery_epochs=1", "strategy/input=frozen"
        for steps, more, words in ((2**63 - 1, recovery, "is out of range"), (2**63 - 1, frozen, "is out of range"),
                                   (10**11, recovery, "the run would have more than 100000000000 steps"),
                                   (10**11, frozen, "the run would have more than 100000000000 steps")):
            for ranks in (1, 2):
                self.assertRefused(run("train", self.deck, f"run/steps={steps}", more, ranks=ranks), "run/steps: ", words)
        self.assertRefused(run("train", self.deck, f"run/steps={10**11}", frozen, "-n"), "the run would have more than")

    def test_a_run_of_the_most_steps_is_stopped_like_any_other(self):
        for steps, more in ((9 * 10**10, "strategy/recovery_epochs=1000"), (5 * 10**10, "strategy/input=frozen")):
            for ranks in (1, 2):
                with self.subTest(more, ranks=ranks):
                    with Job("train", self.deck, f"run/steps={steps}", more, "run/evaluate_every=0", "-d",
                             self.folder / f"run-{steps}-{ranks}", ranks=ranks, environment=ENVIRONMENT) as job:
                        job.until(lambda: "step" in job.said(), "training")
                        job.signal(signal.SIGTERM)
                        result = job.finish()
                    self.assertEqual(result.returncode, 75, result.stdout + result.stderr)


    def test_steps_below_the_normal_range_change_nothing(self):
        """Hosts take subnormal numbers for zero: many processors need over a hundred cycles for each."""
        def hash_of(norm):  # of gradients; biases begin at zero
            return support.train(self.folder / "run", self.deck, "optimiser/kind=sgd", "optimiser/momentum=0",
                                 "optimiser/learning_rate=1e-12", f"optimiser/clip_norm={norm}")["parameters_hash"]

        self.assertEqual(hash_of(1e-27), hash_of(3e-27))
        self.assertNotEqual(hash_of(1e-27), hash_of(3e-22))


class Threads(support.RunTest):
    """If no variable sets the number of threads, the cores of the rank do."""

    def setUp(self):
        super().setUp()
        value = os.environ.pop("OMP_NUM_THREADS", None)
        if value is not None:
            self.addCleanup(os.environ.__setitem__, "OMP_NUM_THREADS", value)

    def threads(self, value, ranks):
        result = run("info", ranks=ranks, environment={} if value is None else {"OMP_NUM_THREADS": value})
        self.assertDone(result)
        return int(re.search(r"threads +([0-9]+)", result.stdout)[1])

    def test_values_that_say_nothing(self):
        for ranks in (1, 2):
            share = self.threads(None, ranks)
            for value in ("", " ", "abc", "0", "-1", "2x", "2,", "99999999999999999999"):
                with self.subTest(value, ranks=ranks):
                    self.assertEqual(self.threads(value, ranks), share)

    def test_values_that_say_something(self):
        for value, threads in (("1", 1), ("3", 3), ("3,2", 3)):
            for ranks in (1, 2):
                with self.subTest(value, ranks=ranks):
                    self.assertEqual(self.threads(value, ranks), threads)


if __name__ == "__main__":
    support.main()
