"""Starts the program for measurements; shared by the scripts in the folders here, which find it through sys.path."""

import concurrent.futures
import csv
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "apps" / "plot"))
from output_files import store

QUIET = ("run/evaluate_every=0", "run/log_every=1000000")
KERNEL = """
import time
for i in range({repeats}):
    start = time.perf_counter()
    sum(j * j for j in range(300000))
    print(time.perf_counter() - start)
"""


def launcher(ranks):
    return [os.environ.get("PARTITA_MPIEXEC", "mpirun"), "-n", str(ranks)]


def run(command, environment=None, may_fail=False):
    """The finished process, with one thread per rank. If it fails, the script ends, unless `may_fail`."""
    command = list(map(str, command))
    result = subprocess.run(command, capture_output=True, text=True,
                            env={**os.environ, "OMP_NUM_THREADS": "1", **(environment or {})})
    if result.returncode != 0 and not may_fail:
        sys.exit(f"{' '.join(command)} failed:\n{result.stdout}{result.stderr}")
    return result


def partita(app, *arguments, ranks=1, environment=None, may_fail=False):
    return run([*(launcher(ranks) if ranks > 1 else []), app, *arguments], environment, may_fail)


def train(app, deck, folder, *overrides, ranks=1, environment=None, may_diverge=False):
    """Trains into `folder`, replacing what is there. Returns the summary, or None if it diverged and `may_diverge`."""
    shutil.rmtree(folder, ignore_errors=True)
    result = partita(app, "train", deck, "-d", folder, *overrides, ranks=ranks, environment=environment, may_fail=may_diverge)
    if result.returncode != 0:
        if "is not finite" not in result.stderr:
            sys.exit(f"{deck} failed:\n{result.stdout}{result.stderr}")
        return None
    return json.loads((Path(folder) / "summary.json").read_text(encoding="utf-8"))


def calibrated(app, decks, cluster, noise, quick, ranks):
    """Writes the cluster file, unless the times of the same work differ by more than `noise` percent; says whether."""
    result = partita(app, "plan", "calibrate", *decks, "-o", cluster, "--noise", noise, *(["--quick"] if quick else []),
                     ranks=ranks, may_fail=True)
    if result.returncode != 0 and "other programs use these cores" not in result.stderr:
        sys.exit(f"partita plan calibrate failed:\n{result.stdout}{result.stderr}")
    return result.returncode == 0


def noise(processes, repeats=12):
    """Percent by which the 90th percentile of the times of a fixed computation exceeds the minimum, for the noisiest of
    several processes that compute at once."""
    def one(_):
        result = subprocess.run([sys.executable, "-c", KERNEL.format(repeats=repeats)], capture_output=True, text=True,
                                check=True)
        seconds = sorted(map(float, result.stdout.split()))
        return 100 * (seconds[len(seconds) * 9 // 10] / seconds[0] - 1)

    with concurrent.futures.ThreadPoolExecutor(processes) as pool:
        return max(pool.map(one, range(processes)))


def write_json(path, value):
    """Writes the whole file, or nothing if there is an error or no path."""
    if path:
        store(json.dumps(value, indent=1).encode(), path)


def evaluations(folder):
    """(seconds of training, loss) at each evaluation of the whole network. Evaluations themselves take no time here."""
    with open(Path(folder) / "history.csv", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["event"] == "evaluation" and row["stage"] in ("joined", "1")]
    pause = json.loads((Path(folder) / "summary.json").read_text())["evaluation_seconds"] / max(1, len(rows))
    return [(float(row["time_s"]) - pause * (index + 1), float(row["loss"])) for index, row in enumerate(rows)]


def seconds_to(points, loss):
    """When the loss is reached, interpolated linearly between evaluations; None if it never is."""
    before = None
    for seconds, value in points:
        if value <= loss:
            if before is None or before[1] == value:
                return seconds
            return before[0] + (seconds - before[0]) * (before[1] - loss) / (before[1] - value)
        before = (seconds, value)
    return None
