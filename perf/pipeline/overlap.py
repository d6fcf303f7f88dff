"""Measures how much of the sum of gradients over replicas is hidden behind computing, on emulated slow links.

    python3 perf/pipeline/overlap.py build/openmp/bin/partita [--ranks 2] [--repeats 3]

For several speeds of the links, prints the step of the replicas on links that take no time (compute), the time that the
slow links need for the gradients (communication), and the step on these links. The bound is the larger of the two times
plus 15 %. Since machines change their speed, compute is measured again for each step, and each ratio is that of such a
pair.
"""

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import runs  # noqa: E402

DECK = """
[run]
steps = {steps}
evaluate_every = 0
[data]
image_size = 32
samples = 2048
test_samples = 64
classes = 10
prefetch = 0
[network]
layers = [{{ type = "dense", units = {width}, activation = "relu", repeat = 8 }}, {{ type = "dense" }}]
[training]
batch = {batch}
[strategy]
kind = "joint"
replicas = {ranks}
bucket_kib = 1024
"""


def seconds_a_step(app, folder, ranks, values, links):
    """Seconds per step of a run, from its summary, and the bytes that a rank sums in each step."""
    deck = Path(folder) / "deck.toml"
    deck.write_text(DECK.format(ranks=ranks, **values))
    environment = {"PARTITA_LINKS": links} if links else {}
    summary = runs.train(app, deck, Path(folder) / "run", ranks=ranks, environment=environment)
    return summary["train_seconds"] / values["steps"], summary["bytes_between_replicas"] / values["steps"] / ranks


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("app")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--ratios", type=float, nargs="+", default=[0.25, 0.5, 1.0, 2.0, 4.0],
                        help="communication / compute")
    parser.add_argument("--batch", type=int, default=256, help="samples per replica")
    arguments = parser.parse_args()
    values = {"steps": arguments.steps, "width": arguments.width, "batch": arguments.batch * arguments.ranks}
    share = 2 * (arguments.ranks - 1) / arguments.ranks
    with tempfile.TemporaryDirectory() as folder:
        def pair(ratio):
            """Compute, communication, step, and the step over the larger of the two."""
            compute, size = seconds_a_step(arguments.app, folder, arguments.ranks, values, "")
            communication = ratio * compute
            links = f"bandwidth={share * size / communication}"
            step, _ = seconds_a_step(arguments.app, folder, arguments.ranks, values, links)
            return compute, communication, step, step / max(compute, communication)

        print(f"{arguments.ranks} replicas; medians of {arguments.repeats}")
        print(f"{'comm./compute':>14} {'compute':>10} {'communication':>14} {'step':>10} {'ratio':>7}")
        for ratio in arguments.ratios:
            columns = zip(*(pair(ratio) for _ in range(arguments.repeats)))
            compute, communication, step, over = (statistics.median(column) for column in columns)
            print(f"{ratio:14.2f} {1e3 * compute:7.1f} ms {1e3 * communication:11.1f} ms {1e3 * step:7.1f} ms "
                  f"{over:7.3f}", flush=True)


if __name__ == "__main__":
    main()
