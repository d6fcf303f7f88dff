#!/usr/bin/env python3
"""Compares predicted with measured times of a training step, for several networks and ways to divide them among ranks.

    python3 perf/oracle/accuracy.py build/openmp/bin/partita --ranks 2 --rounds 3 --seconds 10 --json accuracy.json

Calibrates on all ranks, predicts every combination, and only then measures. If the number of ranks is not prime, there
are hybrids too: replicas of parts (`data+grid`), replicas of pipelines, and pipelines whose stages have parts. Each
round measures all combinations in turn, so that a change of the machine's speed affects all of them, and the deck that
`plan deck` chooses with them. The shortest step of all rounds counts. Prints the accuracy 1 - |predicted - measured| /
measured of each, their mean and the worst. For each network, it also prints whether the strategies are in the right
order: by how much the predicted best is slower than the measured best, and Kendall's tau over pairs whose times differ
by 5 % or more; and by how much the chosen deck is slower than the fastest of the given strategies that leave the result
unchanged. Before and after each round a fixed computation is timed on as many cores; if its times differ by more than
--noise percent, the round does not count. The exit code is 77 if no round counts, or if the calibration is noisier than
that.
"""

import argparse
import itertools
import os
import re
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import runs  # noqa: E402

COMMON = """
[run]
evaluate_every = 0
log_every = 1000000
[data]
kind = "glyphs"
samples = {samples}
test_samples = 32
classes = 10
{data}
[network]
layers = [{layers}]
[training]
batch = {batch}
[optimiser]
kind = "sgd"
"""
CONV = '{{ type = "conv2d", channels = {0}, kernel = {1}, padding = "same", activation = "relu" }}, '
CONV3D = '{{ type = "conv3d", channels = {0}, kernel = 3, padding = "same", activation = "relu" }}, '
POOL, DENSE = '{ type = "max-pool", kernel = 2 }, ', '{ type = "dense" }'
# Networks with much computation, with many weights, with large activations, and on volumes.
DECKS = {
    "vgg": {"layers": (2 * CONV.format(32, 3) + POOL + 2 * CONV.format(64, 3) + POOL + 2 * CONV.format(128, 3) + DENSE),
            "data": "image_size = 32", "batch": 32, "samples": 512},
    "weights": {"layers": '{ type = "dense", units = 2048, activation = "relu", repeat = 3 }, ' + DENSE,
                "data": "image_size = 32", "batch": 64, "samples": 512},
    "activations": {"layers": CONV.format(32, 3) + 4 * CONV.format(64, 1) + POOL + DENSE, "data": "image_size = 32",
                    "batch": 32, "samples": 512},
    "volumes": {"layers": CONV3D.format(8) + '{ type = "average-pool", kernel = 2 }, ' + CONV3D.format(16) +
                '{ type = "average-pool", kernel = 2 }, ' + CONV3D.format(32) + DENSE,
                "data": "image_size = 32\ndepth = 32", "batch": 8, "samples": 64, "kind": "noise"},
}
# A small network, to see in seconds that everything runs.
QUICK = {"small": {"layers": CONV.format(8, 3) + CONV.format(8, 3) + POOL + '{ type = "dense", units = 64 }, ' + DENSE,
                   "data": "image_size = 12", "batch": 32, "samples": 256}}

SPLITS = ("filter", "channel", "grid", "spatial")
LOCAL = ("sil", "local-sgd")  # the others give the same parameters as one rank


def strategies(ranks):
    """Overrides by name. If the number of ranks is not prime, hybrids have as many replicas or stages as its smallest
    divisor; the ranks inside each of these are parts or a pipeline."""
    def cut(stages, replicas=1):
        return [f"strategy/stages={stages}", "strategy/cuts=flops", f"strategy/replicas={replicas}"]

    def pipeline(stages, replicas=1):
        return ["strategy/kind=pipeline", f"strategy/microbatches={2 * stages}", "strategy/schedule=1f1b",
                *cut(stages, replicas)]

    def joint(replicas):
        return ["strategy/kind=joint", f"strategy/replicas={replicas}"]

    def parts(count, split):
        return [f"strategy/parts={count}", f"strategy/split={split}"]

    chosen = {
        "data": joint(0),
        "pipeline": pipeline(ranks),
        **{split: joint(1) + parts(ranks, split) for split in SPLITS},
        "sil": ["strategy/kind=sil", "strategy/input=relay", *cut(ranks)],
        "local-sgd": ["strategy/kind=local-sgd", "strategy/every=8", "strategy/replicas=0"],
    }
    groups = next((count for count in range(2, ranks) if ranks % count == 0), 0)
    if groups > 0:
        inside = ranks // groups
        chosen.update({f"data+{split}": joint(groups) + parts(inside, split) for split in SPLITS})
        chosen["data+pipeline"] = pipeline(inside, groups)
        chosen.update({f"pipeline+{split}": pipeline(groups) + parts(inside, split) for split in ("grid", "spatial")})
    return chosen


class Case:
    """A deck under a strategy."""

    def __init__(self, deck, path, strategy, overrides):
        self.deck, self.path, self.strategy, self.overrides = deck, path, strategy, overrides
        self.predicted, self.measured, self.reason = None, [], ""

    def predict(self, app, ranks):
        """Sets the seconds per step, or the reason why the network cannot be divided in this way."""
        result = runs.partita(app, "train", self.path, *self.overrides, "-n", "--ranks", ranks, may_fail=True)
        found = re.search(r"predicted ([0-9.e+-]+) ms per step", result.stdout)
        if found:
            self.predicted = 1e-3 * float(found[1])
        else:
            self.reason = (result.stderr or result.stdout).strip().splitlines()[-1]

    def measure(self, app, ranks, seconds, folder):
        steps = min(2000, max(5, round(seconds / self.predicted)))
        summary = runs.train(app, self.path, os.path.join(folder, "run"), *self.overrides, f"run/steps={steps}",
                             ranks=ranks)
        return summary["measured"]["step_s"]

    @property
    def best(self):
        return min(self.measured)

    @property
    def accuracy(self):
        return 1 - abs(self.predicted - self.best) / self.best


def chosen_case(arguments, deck, path, cluster, folder):
    """The deck that the planner chooses."""
    best = os.path.join(folder, f"{deck}-best.toml")
    runs.partita(arguments.app, "plan", "deck", path, *arguments.set, "--cluster", cluster, "--ranks", arguments.ranks, "-o", best)
    return Case(deck, best, "plan deck", [f"run/cluster={cluster}"])


def ordering(cases):
    """By how much the predicted best is slower than the measured best, and Kendall's tau."""
    measured_best = min(case.best for case in cases)
    chosen = min(cases, key=lambda case: case.predicted)
    signs = [1 if (a.best - b.best) * (a.predicted - b.predicted) > 0 else -1
             for a, b in itertools.combinations(cases, 2) if abs(a.best - b.best) >= 0.05 * min(a.best, b.best)]
    return chosen.best / measured_best - 1, statistics.mean(signs) if signs else None


def write_decks(folder, chosen):
    paths = {}
    for name, values in chosen.items():
        text = COMMON.format(**{key: value for key, value in values.items() if key != "kind"})
        if "kind" in values:
            text = text.replace('kind = "glyphs"', f'kind = "{values["kind"]}"')
        paths[name] = os.path.join(folder, f"{name}.toml")
        with open(paths[name], "w", encoding="utf-8") as file:
            file.write(text)
    return paths


def measure_rounds(arguments, cases, folder):
    """Measures all rounds; returns how many count."""
    counted = 0
    for number in range(arguments.rounds):
        before = runs.noise(arguments.ranks)
        times = [case.measure(arguments.app, arguments.ranks, arguments.seconds, folder) for case in cases]
        worst = max(before, runs.noise(arguments.ranks))
        print(f"  round {number + 1}: times of the same work differ by {worst:.1f} %", flush=True)
        if worst > arguments.noise:
            continue
        counted += 1
        for case, seconds in zip(cases, times):
            case.measured.append(seconds)
    return counted


def report(cases, names):
    print(f"{'network':12} {'strategy':16} {'predicted':>12} {'measured':>12} {'accuracy':>9}")
    for case in cases:
        print(f"{case.deck:12} {case.strategy:16} {1e3 * case.predicted:9.3f} ms {1e3 * case.best:9.3f} ms "
              f"{100 * case.accuracy:7.1f} %")
    accuracies = [case.accuracy for case in cases]
    worst = min(cases, key=lambda case: case.accuracy)
    print(f"mean accuracy {100 * statistics.mean(accuracies):.1f} %, worst {100 * worst.accuracy:.1f} % "
          f"({worst.deck}, {worst.strategy})")
    orders = {}
    for name in names:
        own = [case for case in cases if case.deck == name]
        given = [case for case in own if case.strategy != "plan deck"]
        chosen = next((case.best for case in own if case.strategy == "plan deck"), None)
        exact = [case.best for case in given if case.strategy not in LOCAL]
        if given:
            slower, tau = ordering(given)
            orders[name] = {"predicted_best_is_slower_by": slower, "kendall_tau": tau}
            print(f"{name}: the predicted best is {100 * slower:.1f} % slower than the measured best"
                  + (f"; tau {tau:.2f}" if tau is not None else ""))
        if exact and chosen is not None:
            late = orders[name]["chosen_deck_is_slower_by"] = chosen / min(exact) - 1  # negative: it is faster
            print(f"{name}: a step of the deck that the planner chooses takes {100 * abs(late):.1f} % "
                  f"{'more' if late > 0 else 'less'} time than that of the fastest exact strategy")
    return {"mean_accuracy": statistics.mean(accuracies), "worst_accuracy": worst.accuracy, "order": orders}


def skip():
    print("SKIP: other programs use these cores")
    sys.exit(77)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("app", help="the partita executable")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=10, help="seconds of training per combination and round")
    parser.add_argument("--decks", nargs="+", choices=[*DECKS, *QUICK], help=f"networks (default: {' '.join(DECKS)})")
    parser.add_argument("--files", nargs="+", default=[], help="decks to measure; without --decks, only these")
    parser.add_argument("--set", nargs="+", default=[], metavar="KEY=VALUE", help="changes to all decks, but not for the calibration")
    parser.add_argument("--strategies", nargs="+", choices=list(strategies(4)),
                        help="default: all that the number of ranks permits; those with + need one that is not prime")
    parser.add_argument("--noise", type=float, default=15, help="percent by which times of the same work may differ")
    parser.add_argument("--quick", action="store_true", help="calibrate too briefly for reliable numbers")
    parser.add_argument("--cluster", help="a cluster file that has been calibrated already, with the same decks")
    parser.add_argument("--json", metavar="FILE", help="write the results to FILE")
    arguments = parser.parse_args()

    known = {**DECKS, **QUICK}
    chosen = {name: known[name] for name in arguments.decks or ([] if arguments.files else DECKS)}
    possible = strategies(arguments.ranks)
    wanted = {name: words for name, words in possible.items() if name in (arguments.strategies or possible)}
    for name in arguments.strategies or []:
        if name not in possible:
            print(f"{name}: not possible with {arguments.ranks} ranks")
    with tempfile.TemporaryDirectory() as folder:
        paths = write_decks(folder, chosen)
        paths.update({Path(file).stem: file for file in arguments.files})
        cluster = arguments.cluster or os.path.join(folder, "cluster.toml")
        if not arguments.cluster and not runs.calibrated(arguments.app, paths.values(), cluster, arguments.noise,
                                                         arguments.quick, arguments.ranks):
            skip()
        cases = [Case(deck, path, strategy, [*words, *arguments.set, f"run/cluster={cluster}"])
                 for deck, path in paths.items() for strategy, words in wanted.items()]
        cases += [chosen_case(arguments, deck, path, cluster, folder) for deck, path in paths.items()]
        for case in cases:
            case.predict(arguments.app, arguments.ranks)
            if case.reason:
                print(f"{case.deck}, {case.strategy}: {case.reason}")
        cases = [case for case in cases if case.predicted]
        if not cases:
            sys.exit("nothing to measure")
        if measure_rounds(arguments, cases, folder) == 0:
            skip()
        result = report(cases, paths)
    runs.write_json(arguments.json, {**result, "ranks": arguments.ranks, "cases": [
        {"deck": case.deck, "strategy": case.strategy, "predicted_s": case.predicted, "measured_s": case.measured,
         "accuracy": case.accuracy} for case in cases]})


if __name__ == "__main__":
    main()
