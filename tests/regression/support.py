"""Runs the program as a person would and looks at what it says and leaves behind.

Each test script is called with the path of the executable. PARTITA_DATA names the folder of real data sets; tests that
need it are skipped if it is absent, and a script whose tests are all skipped ends with code 77.
"""

import concurrent.futures
import csv
import json
import math
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

DECKS = Path(__file__).resolve().parents[2] / "input-decks"
CLUSTER = DECKS.parent / "clusters" / "abci.toml"
NOBODY = 65534
# Lets a program with sanitizers start although another library is loaded before theirs.
ANY_ORDER = {"ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"}
# Seconds after which a run counts as hanging. Slow machines, and those that halt a run for a while, need much less. A
# script has time for several, and run/watchdog is longer.
HANGS = 300
_app = ""

# A run of a fraction of a second: 15 steps per epoch.
SMALL_DECK = """
[run]
seed = 3
epochs = 2
log_every = 10
[data]
image_size = 12
classes = 10
samples = 600
test_samples = 200
[network]
layers = [{ type = "dense", units = 32, activation = "relu", repeat = 5 }, { type = "dense" }]
[training]
batch = 40
[strategy]
kind = "sil"
stages = 2
cuts = [3]
replicas = 1
"""

# Another network for it, with all kinds of layers for images; cuts are possible between its four layers.
IMAGES = """network/layers=[
  { type = "conv2d", channels = 4, kernel = 3, padding = "same", bias = false },
  { type = "block", layers = [{ type = "batch-norm", activation = "relu" }, { type = "max-pool", kernel = 2 }] },
  { type = "residual", activation = "relu", layers = [
    { type = "conv2d", channels = 12, kernel = 3, padding = 1, stride = 2, groups = 2, activation = "silu" },
    { type = "batch-norm" } ], shortcut = [
    { type = "average-pool", kernel = 2 }, { type = "conv2d", channels = 12, kernel = 1 } ] },
  { type = "block", layers = [{ type = "global-average-pool" }, { type = "dense" }] },
]""".replace("\n", "")

# And one whose norms do not depend on the batch.
GROUP_NORM = """network/layers=[
  { type = "conv2d", channels = 6, kernel = 3, padding = "same", stride = 2 }, { type = "group-norm", groups = 3 },
  { type = "conv2d", channels = 12, kernel = 3, activation = "relu" }, { type = "group-norm", groups = 1 },
  { type = "flatten" }, { type = "dense", units = 20 }, { type = "group-norm", groups = 4, epsilon = 0.001 },
  { type = "dense" },
]""".replace("\n", "")


def start(*arguments, ranks=1, environment=None, outputs=(subprocess.PIPE, subprocess.PIPE), before=None):
    """The process, just started; texts come from stdout and stderr."""
    command = [_app, *map(str, arguments)]
    if ranks > 1:
        command = [os.environ.get("PARTITA_MPIEXEC", "mpiexec"), "-n", str(ranks), *command]
    # Open MPI waits two seconds before it ends what a failed job has left.
    environment = {**os.environ, "OMPI_MCA_odls_base_sigkill_timeout": "0", **(environment or {})}
    return subprocess.Popen(command, stdout=outputs[0], stderr=outputs[1], text=True, env=environment,
                            preexec_fn=before, restore_signals=before is None)


def finish(process, timeout=HANGS):
    """The finished process, as `run` returns it."""
    try:
        stdout, stderr = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.terminate()  # a launcher that is killed leaves its ranks behind
        try:
            process.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
        raise
    return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)


def run(*arguments, ranks=1, timeout=HANGS, environment=None):
    """The finished process; texts in stdout and stderr."""
    return finish(start(*arguments, ranks=ranks, environment=environment), timeout)


def rank_processes(launcher):
    """Process ids of the ranks that a launcher has started, by rank."""
    ranks = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            pairs = [item.partition("=") for item in (folder / "environ").read_text(errors="replace").split("\0")]
            variables = {name: value for name, _, value in pairs}
            if variables.get("PARTITA_TEST_JOB") == launcher and os.readlink(folder / "exe") == _app:
                ranks[int(variables.get("OMPI_COMM_WORLD_RANK", variables.get("PMI_RANK", -1)))] = int(folder.name)
        except OSError:
            continue  # it has ended, or is not ours to look at
    return ranks


def processor_time():
    """Cores that control groups of Linux (version 1 or 2) grant the tests; infinite without a limit."""
    least = math.inf
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, names, group = line.split(":", 2)
        folder = Path("/sys/fs/cgroup", names, group.strip("/"))
        for place in (folder, *folder.parents):
            files = [place / "cpu.max"] if names == "" else [place / f"cpu.cfs_{name}_us" for name in ("quota", "period")]
            if all(file.exists() for file in files):
                quota, period = " ".join(file.read_text() for file in files).split()
                if quota not in ("max", "-1"):
                    least = min(least, int(quota) / int(period))
    return least


def with_fault(fault, over=""):
    """The environment of a run with a fault; `sync` ends as soon as a file `over` exists. The test is skipped if there is
    no library of faults."""
    library = os.environ.get("PARTITA_FAULTS", "")
    if not library:
        raise unittest.SkipTest("PARTITA_FAULTS does not name the library of faults")
    return {**ANY_ORDER, "LD_PRELOAD": library, "PARTITA_FAULT": fault, "PARTITA_FAULT_OVER": str(over)}


def slowed(seconds):
    """A limit for the time of the processor: sanitizers make programs several times slower."""
    return 5 * seconds if _app.endswith("_sanitized") else seconds


def within(seconds):
    """A limit for the time that passes: the machine may be slow, and other programs may use the processor meanwhile."""
    return min(10 * slowed(seconds), HANGS / 2)


def cpu_seconds():
    """Of all programs that have ended; unlike the time that passes, it hardly depends on what else runs."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def history(folder):
    """Rows without what is measured in seconds, in the order of the steps."""
    with (folder / "history.csv").open(newline="") as file:
        rows = [tuple(value for name, value in row.items() if name not in ("time_s", "samples_per_second"))
                for row in csv.DictReader(file)]
    return sorted(rows)


def contents(folder):
    """Path -> bytes, the target of a link, or the kind of what is neither file nor link."""
    found = {}
    for path in sorted(Path(folder).rglob("*")):
        if path.is_symlink():
            found[str(path)] = os.readlink(path)
        else:
            found[str(path)] = path.read_bytes() if path.is_file() else oct(path.stat().st_mode)
    return found


def give_to_nobody(folder):
    """For `RunTest.as_nobody`: the folder and all in it then belong to the user who runs the program."""
    if os.geteuid() == 0:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, NOBODY, NOBODY)


def checkpoints(folder):
    """Step of the run -> file."""
    return {int(path.stem.split("-")[1]): path for path in sorted((folder / "checkpoints").glob("step-*.h5"))}


ADVICE = ("OPENBLAS_CORETYPE", "was compiled without AVX2", "multiplies matrices with its own loops",
          "converts them to float")


def complaints(result):
    """What the program itself wrote to standard error, but for advice about the machine, which is no test's concern."""
    lines = [line for line in result.stderr.splitlines() if line.startswith(("partita:", "warning:"))]
    return [line for line in lines if not any(word in line for word in ADVICE)]


def checked_log(rows):
    """The text of a decisions.csv with these rows of words, each with the check word that it needs."""
    lines = [",".join(rows[0])]
    for row in rows[1:]:
        numbers, word = ",".join(row[:-1]), 0xCBF29CE484222325
        for byte in (lines[-1] + numbers).encode():
            word = (word ^ byte) * 0x100000001B3 % 2**64
        lines.append(f"{numbers},{word:016x}")
    return "\n".join(lines) + "\n"


def train(folder, deck, *overrides, ranks=1, timeout=HANGS):
    """Trains into `folder`, whatever is there, and returns summary.json, with the warnings under the key `warnings`."""
    anew = [] if "-r" in overrides else ["--overwrite"]
    result = run("train", deck, *overrides, "-d", folder, *anew, ranks=ranks, timeout=timeout)
    if result.returncode != 0:
        raise AssertionError(f"train {deck} ended with {result.returncode}:\n{result.stdout}\n{result.stderr}")
    return {**summary_of(folder), "warnings": complaints(result)}


def phases(result):
    """Seconds of rank 0 by phase, as `run/timing` prints them."""
    return {name: float(seconds) for name, seconds in re.findall(r"^  (\D+?) +([\d.]+) s ", result.stdout, re.M)}


def summary_of(folder):
    return json.loads((Path(folder) / "summary.json").read_text())


def mean_accuracy(deck, *overrides, ranks=1, seeds=(1, 2), cores=2, timeout=1800):
    """Mean test accuracy in percent over the seeds, and all warnings; seeds run at once where there are cores."""
    def one(seed):
        with tempfile.TemporaryDirectory() as folder:
            return train(folder, deck, f"run/seed={seed}", *overrides, ranks=ranks, timeout=timeout)

    with concurrent.futures.ThreadPoolExecutor(max(1, cores // ranks)) as pool:
        summaries = list(pool.map(one, seeds))
    accuracies = [100 * summary["test_accuracy"] for summary in summaries]
    seconds = sum(summary["train_seconds"] for summary in summaries)
    print(f"{Path(deck).stem} {' '.join(overrides[1:])}: {' '.join(f'{a:.2f}' for a in accuracies)} %, "
          f"mean {sum(accuracies) / len(accuracies):.2f} %, {seconds:.0f} s of training", flush=True)
    return sum(accuracies) / len(accuracies), [line for summary in summaries for line in summary["warnings"]]


class RunTest(unittest.TestCase):
    """A test with a folder of its own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="partita-test-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.deck = self.write("small.toml", SMALL_DECK)

    def write(self, name, content):
        path = self.folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def libsvm(self):
        """Two small files, just written, and the overrides with which the small deck reads them."""
        rows = "".join(f"{i % 2} 1:{i}\n" for i in range(40))
        return [self.write(name, rows) for name in ("train.txt", "test.txt")], [
            "data/kind=libsvm", f"data/path={self.folder}", "data/train_file=train.txt", "data/test_file=test.txt",
            "data/classes=0", "data/samples=0"]

    def data(self, name):
        """The folder of a real data set."""
        folder = Path(os.environ.get("PARTITA_DATA", "")) / name
        if "PARTITA_DATA" not in os.environ or not folder.is_dir():
            self.skipTest(f"there is no data set {name}: PARTITA_DATA does not name a folder that has it")
        return folder

    def assertRefused(self, result, *parts):
        """Exit code 2 and one line, said once, that contains all of `parts`."""
        self.assertEqual(result.returncode, 2, result.stdout + result.stderr)
        lines = complaints(result)
        self.assertEqual(len(lines), 1, result.stderr)
        for part in parts:
            self.assertIn(str(part), lines[0])

    def as_nobody(self, *arguments):
        """Like `run`, but also root, who may read everything, becomes a user who may not."""
        if os.geteuid() != 0:
            return run(*arguments)
        self.folder.chmod(0o755)

        def drop():
            os.setgid(NOBODY)
            os.setuid(NOBODY)

        return finish(start(*arguments, environment={"HOME": str(self.folder)}, before=drop))

    def assertUntouched(self, result, before, *parts):
        """Refused in one line, and everything is as it was."""
        self.assertRefused(result, *parts)
        self.assertEqual(contents(self.folder), before)

    def assertWorked(self, result):
        """Warnings are allowed."""
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def assertDone(self, result):
        self.assertWorked(result)
        self.assertEqual(complaints(result), [])


def main():
    """Ends the process: 0 all passed, 1 some failed, 77 nothing could be tested."""
    global _app
    _app = os.path.abspath(sys.argv[1])
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored if a script runs the tests in the background
    program = unittest.main(module="__main__", argv=[sys.argv[0], "-v", *sys.argv[2:]], exit=False)
    result = program.result
    if not result.wasSuccessful() or result.testsRun == 0:
        sys.exit(1)
    sys.exit(77 if len(result.skipped) == result.testsRun else 0)
