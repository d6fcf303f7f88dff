#!/usr/bin/env python3
"""Compares the time that asynchronous workers and tuned alternatives need to reach a given test loss.

Trains the deck in each of these ways. Runs with a separate seed, --tuning-seed, choose for each way the learning rate
of --rates and the batch of --batches that reach the loss first. With them, all ways then take turns, one seed of --seeds
after another. Prints the seconds of every seed, their median, and the median over the seeds of how much faster the way
was than `single` in the same turn. A seed that does not reach the loss counts as slower than all others. Rates are for
batches of --reference examples; other batches scale them.

  single B       one rank alone, batches of B
  replicas B     `joint`, a replica for each worker
  local-sgd B    replicas that meet every 8 steps
  synchronous B  workers in step, with parts of a batch in proportion to speed
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
        """Name -> rate, the best of each kind of way; kinds that do not reach the loss are left out."""
        curves = {}
        for name, way in self.ways().items():
            for rate in self.arguments.rates:
                curves[name, rate] = way(rate, self.arguments.tuning_seed)
                print(f"# {name:16} rate {rate:<8g} least loss {min((loss for _, loss in curves[name, rate]), default=math.inf):.4f}", flush=True)
        if self.loss is None:
            reached = [loss for (name, _), curve in curves.items() if name.startswith("single")
                       for _, loss in curve[:self.arguments.after]]
            if not reached:
                sys.exit("time_to_loss.py: no run of one worker has a loss; name the loss to reach with --loss")
            self.loss = self.arguments.margin * min(reached)
        fastest = {}
        for (name, rate), curve in curves.items():
            seconds = runs.seconds_to(curve, self.loss)
            if seconds is not None:
                fastest.setdefault(kind(name), []).append((seconds, name, rate))
        return {name: rate for _, name, rate in map(min, fastest.values())}

    def measure(self, rates):
        """Each way's curves of all seeds, in the order of the seeds."""
        ways = self.ways()
        curves = {name: [] for name in rates}
        for seed in self.arguments.seeds:
            for name, rate in rates.items():
                curves[name].append(ways[name](rate, seed))
        return curves


def kind(name):
    return name.split()[0]


def median_ratio(times, others):
    """Of the pairs in which the loss is reached at all."""
    ratios = [a / b for a, b in zip(times, others) if min(a, b) < math.inf]
    return statistics.median(ratios) if ratios else math.nan


def report(race, rates, seconds):
    """Prints the table; None stands for a loss that is not reached."""
    times = {name: [math.inf if value is None else value for value in values] for name, values in seconds.items()}
    single = next((values for name, values in times.items() if kind(name) == "single"), None)
    print(f"seconds to a test loss of {race.loss:.4f}; medians of the seeds {' '.join(map(str, race.arguments.seeds))}")
    print(f"{'way':18} {'rate':>8} {'median':>8} {'x single':>9}  each seed")
    for name, values in times.items():
        factor = f"{median_ratio(single, values):.2f}" if single else "-"
        each = " ".join(f"{value:.3f}" for value in values)
        print(f"{name:18} {rates[name]:8g} {statistics.median(values):8.3f} {factor:>9}  {each}")
    for name in dict.fromkeys(map(kind, race.ways())):
        if name not in map(kind, rates):
            print(f"{name:18} {'-':>8} {'-':>8} {'-':>9}")


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
    parser.add_argument("--tuning-seed", type=int, default=0, help="none of --seeds")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--loss", type=float, help="test loss to reach")
    parser.add_argument("--after", type=int, metavar="EPOCHS", help="without --loss: epochs to consider (default: all)")
    parser.add_argument("--margin", type=float, default=1.02)
    parser.add_argument("--json", metavar="FILE", help="also writes results and curves to FILE")
    parser.add_argument("--skip", nargs="+", default=[], metavar="WAY", help="e.g. proportional local-sgd")
    arguments = parser.parse_intermixed_args()
    if arguments.data not in (None, "covtype") and not arguments.folder:
        parser.error(f"--data {arguments.data} needs --folder")
    if arguments.tuning_seed in arguments.seeds:
        parser.error("--tuning-seed must not be one of --seeds")
    if "single" in arguments.skip and arguments.loss is None:
        parser.error("--skip single needs --loss")

    with tempfile.TemporaryDirectory() as folder:
        race = Race(arguments, folder)
        rates = race.tune()
        curves = race.measure(rates)
    seconds = {name: [runs.seconds_to(curve, race.loss) for curve in of_way] for name, of_way in curves.items()}
    report(race, rates, seconds)
    runs.write_json(arguments.json, {
        "data": arguments.data or arguments.deck, "loss": race.loss, "seeds": arguments.seeds,
        "ways": [{"name": name, "rate": rate, "seconds": seconds[name], "curves": curves[name]}
                 for name, rate in rates.items()]})


if __name__ == "__main__":
    main()
