#!/usr/bin/env python3
"""Measures how fast a checkpoint is written to disk, compared with a plain copy of as many bytes.

Trains a few steps of a network with a large state, writes six checkpoints, and then copies as many zeros to the same
disk with `dd conv=fsync`; repeats this several times. Only the last checkpoint counts, because nothing else runs while
it is written. The earlier files are gone by then, so that the checkpoint can reuse memory pages, as `dd` does, and a
virtual machine does not have to obtain them first. Prints the median of the rates and of their ratios. A second series
writes checkpoints while training goes on, and prints the fraction of the write during which training stood still.
"""
import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import runs

DECK = """
[run]
evaluate_every = 0
log_every = 1000000
[data]
samples = 64
test_samples = 16
[network]
layers = [{{ type = "dense", units = {width}, activation = "relu", repeat = 3 }}, {{ type = "dense" }}]
[training]
batch = 8
"""
LINE = re.compile(r"checkpoint at step \d+: ([\d.]+) (\w?)B written in ([\d.]+) s, training paused for ([\d.]+) s")
UNITS = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9}


def train(app, ranks, deck, folder, *overrides):
    """For each checkpoint: bytes, seconds, and seconds for which training stood still."""
    run = os.path.join(folder, "run")
    command = [os.environ.get("PARTITA_MPIEXEC", "mpirun"), "-n", str(ranks), app, "train", deck, "-d", run,
               "checkpoint/keep=1", *overrides]
    result = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    subprocess.run(["rm", "-rf", run], check=True)
    found = [(float(value) * UNITS[unit], float(seconds), float(still))
             for value, unit, seconds, still in LINE.findall(result.stdout)]
    if result.returncode != 0 or not found:
        sys.exit(f"{' '.join(command)} failed:\n{result.stdout}{result.stderr}")
    return found


def copy(size, folder):
    path = os.path.join(folder, "zeros")
    begin = time.perf_counter()
    subprocess.run(["dd", "if=/dev/zero", f"of={path}", "bs=1M", f"count={round(size / 2**20)}", "conv=fsync"],
                   check=True, capture_output=True)
    seconds = time.perf_counter() - begin
    os.remove(path)
    return seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("app", help="the partita executable")
    parser.add_argument("--folder", default=".", help="where to write (default: here)")
    parser.add_argument("--width", type=int, default=9000, help="units per layer; 9000 gives a state of 2 GB")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", metavar="FILE", help="write the results to FILE")
    arguments = parser.parse_args()

    rates, ratios, still = [], [], []
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        deck = os.path.join(folder, "deck.toml")
        with open(deck, "w") as file:
            file.write(DECK.format(width=arguments.width))
        replicas = f"strategy/replicas={arguments.ranks}"
        for _ in range(arguments.repeats):
            size, seconds, _ = train(arguments.app, arguments.ranks, deck, folder, replicas, "run/steps=12",
                                     "checkpoint/every=2")[-1]
            rates.append(size / seconds)
            ratios.append(copy(size, folder) / seconds)
        during = train(arguments.app, arguments.ranks, deck, folder, replicas, "run/steps=61", "checkpoint/every=15")
        still = [stood / seconds for _, seconds, stood in during[:-1]]
    print(f"  {size / 1e9:.2f} GB on {arguments.ranks} ranks: {statistics.median(rates) / 1e9:.2f} GB/s, "
          f"{statistics.median(ratios):.2f} of dd (single calls {min(ratios):.2f} to {max(ratios):.2f})")
    print(f"  training paused for {100 * statistics.median(still):.1f} % of the write, "
          f"at most {100 * max(still):.1f} %, in {len(still)} writes")
    runs.write_json(arguments.json, [{"name": "checkpoint_rate", "value": statistics.median(rates), "unit": "B/s"},
                                     {"name": "checkpoint_of_dd", "value": statistics.median(ratios), "unit": "1"},
                                     {"name": "checkpoint_still", "value": statistics.median(still), "unit": "1"}])


if __name__ == "__main__":
    main()
