#!/usr/bin/env python3
"""Plots a run of workers of unequal speed, or several runs in one picture.

Reads history.csv and workers.csv of RUNDIR, which `partita train DECK -d RUNDIR` writes with strategy/kind 'hogbatch',
and draws the loss against time, the batches of the workers, and their shares of the updates. The picture goes to
RUNDIR/workers.png. More runs, of any strategy, only add their loss; --output then says where the picture goes."""

import argparse
import os

from pictures import fail, save, start_pyplot
from run_files import RunError, numbers, table_rows


def rows_of(folder, name):
    try:
        return table_rows(os.path.join(folder, name))
    except RunError as error:
        fail(f"{error}; name the folder given to `partita train -d`")


def of_network(rows):
    """Of rows for each stage, those of the joined network, or else of the last stage."""
    stages = {row.get("stage") or "" for row in rows}
    wanted = "joined" if "joined" in stages else max(stages, key=lambda stage: (len(stage), stage), default="")
    return [row for row in rows if (row.get("stage") or "") == wanted]


def losses(folder):
    """What the losses are of, and points (time, loss): of evaluations, or of the training if there are fewer than two."""
    rows = rows_of(folder, "history.csv")
    evaluated, trained = (numbers(of_network([row for row in rows if row.get("event") == event]), "time_s", "loss")
                          for event in ("evaluation", "step"))
    return ("", evaluated) if len(evaluated) > 1 else (", training", trained)


def by_rank(folder):
    """Points (time, batch, share of the updates) of each worker, by rank and role."""
    workers = {}
    for row in rows_of(folder, "workers.csv"):
        points = numbers([row], "rank", "time_s", "batch", "update_share")
        if points:
            rank, *point = points[0]
            workers.setdefault((int(rank), row.get("role") or ""), []).append(point)
    if not workers:
        fail(f"{folder}/workers.csv: has no rows of workers")
    return workers


def draw(folders):
    workers = sorted(by_rank(folders[0]).items())
    curves = [(os.path.basename(os.path.abspath(folder)), losses(folder)) for folder in folders]
    plt = start_pyplot()
    figure, (loss, batches, shares) = plt.subplots(3, 1, sharex=True, figsize=(7, 8.5), constrained_layout=True,
                                                   gridspec_kw={"height_ratios": (3, 2, 2)})
    for name, (what, points) in curves:
        if points:
            loss.plot(*zip(*points), marker="o", markersize=3, label=name + what)
    for (rank, role), points in workers:
        times, sizes, updates = zip(*points)
        batches.step(times, sizes, where="post", label=f"rank {rank}, {role}")
        shares.plot(times, updates, label=f"rank {rank}, {role}")
    loss.set_ylabel("loss")
    batches.set_ylabel("batch (samples)")
    batches.set_yscale("log", base=2)
    shares.set_ylabel("share of the updates")
    shares.set_ylim(0, 1)
    shares.set_xlabel("time (s)")
    for axes in (loss, shares):
        axes.legend()
    figure.align_ylabels()
    return figure


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", metavar="RUNDIR", nargs="+", help="folder of a run")
    parser.add_argument("-o", "--output", metavar="FILE", help="picture to write; its extension determines the format")
    arguments = parser.parse_args()
    if len(arguments.runs) > 1 and not arguments.output:
        fail("several runs need --output, the picture to write")
    save(draw(arguments.runs), arguments.output or os.path.join(arguments.runs[0], "workers.png"), runs=arguments.runs)


if __name__ == "__main__":
    main()
