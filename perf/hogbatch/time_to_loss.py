#!/usr/bin/env python3
"""Compares the time that asynchronous workers and tuned alternatives need to reach a given test loss.

Trains the deck in each of these ways with the first seed and each learning rate of --rates, and repeats the rate that
reaches the loss first with all seeds. If one of them does not reach it, the next rate follows. Rates are for batches of
--reference examples; other batches scale them.

  single B     one rank alone, batches of B
  replicas     `joint`, a replica for each worker, the best of the same batches
  local-sgd    replicas that meet every 8 steps, the best of the same batches
  synchronous  workers in step, with parts of a batch in proportion to speed, the best of the same batches
  fixed, adaptive, published, proportional, ringmaster
               asynchronous workers; published: adaptive with growth = "free"; ringmaster: fixed sizes, updates
               older than twice the number of workers are dropped

The loss to reach is --loss or, without it, --margin times the smallest test loss of any `single B` in the first --after
epochs. Asynchronous ways and `synchronous` use one more rank, which computes nothing. Only they use strategy/slowdown:
`single` is a rank at full speed, and the other ways have no slow rank.

--data makes the deck read w8a, a9a or mnist from a folder. `covtype` is generated: examples of its shape (54 features,
2 classes), labelled by a random network. Without --data, the data of the deck are used.

--json FILE keeps the results and the curves of all seeds, from which draw_losses.py makes a picture.
"""
import argparse
import math
import random
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import runs

ASYNCHRONOUS = {
    "fixed": ["strategy/rule=fixed"],
    "adaptive": ["strategy/rule=adaptive"],
    "published": ["strategy/rule=adaptive", "strategy/growth=free"],
    "proportional": ["strategy/rule=proportional"],
    "ringmaster": ["strategy/rule=fixed", "strategy/staleness=ringmaster"],
}


def write_covtype(path, rows, seed=1):
    """LIBSVM rows of 54 features, labelled by a random network of one hidden layer; 5 % of the labels are wrong."""
    draw = random.Random(seed)
    features, hidden = 54, 16
    first = [[draw.gauss(0, 1) for _ in range(features)] for _ in range(hidden)]
    last = [draw.gauss(0, 1) for _ in range(hidden)]
    with open(path, "w", encoding="utf-8") as file:
        for _ in range(rows):
            row = [draw.gauss(0, 1) for _ in range(features)]
            score = sum(weight * max(0.0, sum(a * x for a, x in zip(unit, row))) for weight, unit in zip(last, first))
            label = int(score > 0) ^ int(draw.random() < 0.05)
            file.write(f"{label} " + " ".join(f"{i + 1}:{x:.4f}" for i, x in enumerate(row)) + "\n")


def data_overrides(arguments, folder):
    if arguments.data == "covtype":
        write_covtype(Path(folder) / "covtype", arguments.rows)
        return ["data/kind=libsvm", f"data/path={folder}", "data/train_file=covtype", "data/test_fraction=0.2"]
    if arguments.data == "mnist":
        names = {"train_images": "train-images-idx3-ubyte.gz", "train_labels": "train-labels-idx1-ubyte.gz",
                 "test_images": "t10k-images-idx3-ubyte.gz", "test_labels": "t10k-labels-idx1-ubyte.gz"}
        return ["data/kind=idx", f"data/path={arguments.folder}", *(f"data/{key}={name}" for key, name in names.items())]
    if arguments.data == "a9a":
        return ["data/kind=libsvm", f"data/path={arguments.folder}", "data/train_file=a9a.gz", "data/test_file=a9a.t.gz"]
    if arguments.data == "w8a":
        return ["data/kind=libsvm", f"data/path={arguments.folder}", "data/train_file=w8a.gz", "data/test_fraction=0.2"]
    return []


class Race:
    """Runs of all ways; each keeps its curve of (seconds, loss)."""

    def __init__(self, arguments, folder):
        self.arguments = arguments
        self.run = Path(folder) / "run"
        self.data = data_overrides(arguments, folder)
        self.loss = arguments.loss
        self.kept = {}  # the curves of all seeds at the best rate, by way

    def curve(self, ranks, overrides, rate, seed):
        """Empty if the loss is no longer finite, because the rate is too large."""
        result = runs.train(self.arguments.app, self.arguments.deck, self.run, "run/evaluate_every=1", "run/log_every=1000000",
                            f"run/epochs={self.arguments.epochs}", f"run/seed={seed}", f"optimiser/learning_rate={rate}", *self.data,
                            *self.arguments.overrides, *overrides, ranks=ranks, may_diverge=True)
        return runs.evaluations(self.run) if result else []

    def joint(self, batch, rate, seed, ranks=1, kind=("strategy/kind=joint",)):
        return self.curve(ranks, [*kind, f"training/batch={batch}"], rate * batch / self.arguments.reference, seed)

    def workers(self, keys, batch, rate, seed):
        workers = self.arguments.workers
        slowdown = [f"strategy/slowdown={self.arguments.slowdown}"] if self.arguments.slowdown else []
        bound = [f"strategy/staleness_bound={2 * workers}"] if "strategy/staleness=ringmaster" in keys else []
        return self.curve(workers + 1, ["strategy/kind=hogbatch", *keys, *slowdown, *bound, f"training/batch={batch}"],
                          rate * batch / self.arguments.reference, seed)

    def ways(self):
        """Name: function of rate and seed."""
        count = self.arguments.workers
        found = {}
        for batch in self.arguments.batches:
            found[f"single {batch}"] = lambda rate, seed, b=batch: self.joint(b, rate, seed)
        for batch in self.arguments.batches:
            found[f"replicas {batch}"] = lambda rate, seed, b=batch: self.joint(b, rate, seed, count)
            found[f"local-sgd {batch}"] = lambda rate, seed, b=batch: self.joint(b, rate, seed, count, ("strategy/kind=local-sgd",))
            found[f"synchronous {batch}"] = lambda rate, seed, b=batch: self.workers(["strategy/rule=synchronous"], b, rate, seed)
        for name, keys in ASYNCHRONOUS.items():
            found[name] = lambda rate, seed, k=keys: self.workers(k, self.arguments.reference, rate, seed)
        return {name: way for name, way in found.items() if name.split()[0] not in self.arguments.skip}

    def tune(self):
        """The curves of all rates with the first seed, by name and rate."""
        curves = {}
        for name, way in self.ways().items():
            for rate in self.arguments.rates:
                curves[name, rate] = way(rate, self.arguments.seeds[0])
                print(f"# {name:16} rate {rate:<8g} least loss {min((loss for _, loss in curves[name, rate]), default=math.inf):.4f}", flush=True)
        if self.loss is None:
            reached = [loss for (name, _), curve in curves.items() if name.startswith("single")
                       for _, loss in curve[:self.arguments.after]]
            if not reached:
                sys.exit("time_to_loss.py: no run of one worker has a loss; name the loss to reach with --loss")
            self.loss = self.arguments.margin * min(reached)
        return curves

    def rates_by_time(self, curves, name):
        """Those that reach the loss with the first seed, the fastest first."""
        times = {rate: runs.seconds_to(curves[name, rate], self.loss) for rate in self.arguments.rates}
        reached = {rate: seconds for rate, seconds in times.items() if seconds is not None}
        return sorted(reached, key=reached.get)

    def result(self, curves, name, way):
        """Rate, mean of the seconds over the seeds, least and greatest; None if no rate reaches the loss with all seeds."""
        for rate in self.rates_by_time(curves, name):
            self.kept[name] = [curves[name, rate], *(way(rate, seed) for seed in self.arguments.seeds[1:])]
            times = [runs.seconds_to(curve, self.loss) for curve in self.kept[name]]
            if None not in times:
                return rate, statistics.mean(times), min(times), max(times)
        return None


def keep(path, race, results):
    """Of each kind of way, the best batch: (rate, mean, least, greatest) seconds, and curves of (seconds, loss)."""
    best = {best_of(results, name.split()[0]) for name in results} - {None}
    runs.write_json(path, {"data": race.arguments.data or race.arguments.deck, "loss": race.loss,
                           "ways": [{"name": name, "result": results[name], "curves": race.kept[name]}
                                    for name in results if name in best]})


def best_of(results, kind):
    """The name of the fastest way of a kind."""
    reached = {name: found[1] for name, found in results.items() if found and name.split()[0] == kind}
    return min(reached, key=reached.get) if reached else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("app", help="the partita executable")
    parser.add_argument("deck", help="with optimiser/kind sgd and without momentum, e.g. input-decks/hogbatch-w8a.toml")
    parser.add_argument("overrides", nargs="*", metavar="section/key=value", help="values for all runs")
    parser.add_argument("--data", choices=["w8a", "a9a", "covtype", "mnist"])
    parser.add_argument("--folder", help="folder of the data files")
    parser.add_argument("--rows", type=int, default=40000, help="covtype: number of examples")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--slowdown", metavar="[1, 4]", help="strategy/slowdown of the workers")
    parser.add_argument("--batches", type=int, nargs="+", default=[16, 32, 64, 128, 256, 512])
    parser.add_argument("--reference", type=int, default=64, help="examples of an update at the learning rate")
    parser.add_argument("--rates", type=float, nargs="+", default=[0.01, 0.03, 0.1, 0.3])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--loss", type=float, help="test loss to reach")
    parser.add_argument("--after", type=int, metavar="EPOCHS", help="without --loss: epochs to consider (default: all)")
    parser.add_argument("--margin", type=float, default=1.02)
    parser.add_argument("--json", metavar="FILE", help="also writes results and curves to FILE")
    parser.add_argument("--skip", nargs="+", default=[], metavar="WAY", help="e.g. proportional local-sgd")
    arguments = parser.parse_intermixed_args()
    if arguments.data not in (None, "covtype") and not arguments.folder:
        parser.error(f"--data {arguments.data} needs --folder")
    if "single" in arguments.skip and arguments.loss is None:
        parser.error("--skip single needs --loss")

    with tempfile.TemporaryDirectory() as folder:
        race = Race(arguments, folder)
        curves = race.tune()
        results = {name: race.result(curves, name, way) for name, way in race.ways().items()}
    print(f"seconds to a test loss of {race.loss:.4f}; {len(arguments.seeds)} seeds")
    print(f"{'way':18} {'rate':>8} {'mean':>8} {'least':>8} {'greatest':>9} {'x single':>9}")
    reference = best_of(results, "single")
    for name, found in results.items():
        if not found:
            print(f"{name:18} {'-':>8} {'-':>8} {'-':>8} {'-':>9} {'-':>9}")
            continue
        rate, mean, least, most = found
        factor = f"{results[reference][1] / mean:9.2f}" if reference else f"{'-':>9}"
        mark = " *" if name == best_of(results, name.split()[0]) and " " in name else ""
        print(f"{name:18} {rate:8g} {mean:8.3f} {least:8.3f} {most:9.3f} {factor}{mark}")
    keep(arguments.json, race, results)


if __name__ == "__main__":
    main()
