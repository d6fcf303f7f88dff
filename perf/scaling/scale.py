#!/usr/bin/env python3
"""Runs, or submits, trainings for each number of ranks; plot_scaling.py reads their summaries.

Strong scaling keeps the problem the same: the deck as it is. Weak scaling keeps the work per rank the same: with --over
replicas, batch and samples grow with the ranks; with --over stages, the network grows by the `repeat` of the layer that
is repeated most.

  stages    ranks are stages of one network, as --kind says; one rank trains the whole network (joint)
  replicas  ranks are replicas of the deck's stages, which divide each batch

Run directories are FOLDER/ranksP-N. Runs that have a summary.json are not repeated."""

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "apps" / "plot"))
from output_files import store

HERE = os.path.dirname(os.path.abspath(__file__))
SUBMIT = {"slurm": ["sbatch"], "flux": ["flux", "batch"], "pbs": ["qsub"]}
QUIET = ["run/evaluate_every=0", "run/log_every=1000000"]


def fail(message):
    sys.exit(f"scale.py: {message}")


def read_deck(path):
    try:
        import tomllib
    except ImportError:
        fail("weak scaling reads the deck, which needs Python 3.11 or newer")
    with open(path, "rb") as file:
        return tomllib.load(file)


def toml(value):
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {toml(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    return f'"{value}"' if isinstance(value, str) else repr(value)


def deeper(deck, ranks):
    """The layers of the deck, with `ranks` times as many of the layer that is repeated most."""
    layers = [dict(layer) for layer in deck["network"]["layers"]]
    longest = max(layers, key=lambda layer: layer.get("repeat", 1))
    longest["repeat"] = longest.get("repeat", 1) * ranks
    return f"network/layers={toml(layers)}"


def more_data(deck, ranks):
    data, training = deck.get("data", {}), deck.get("training", {})
    if not data.get("samples"):
        fail("weak scaling over replicas needs data/samples in the deck: the samples of one rank")
    return [f"data/samples={data['samples'] * ranks}", f"training/batch={training.get('batch', 128) * ranks}"]


def overrides(arguments, ranks):
    words = list(QUIET)
    if arguments.over == "stages":
        words += [f"strategy/kind={arguments.kind}", f"strategy/stages={ranks}"] if ranks > 1 else ["strategy/kind=joint"]
    if arguments.scaling == "weak":
        deck = read_deck(arguments.deck)
        words += [deeper(deck, ranks)] if arguments.over == "stages" else more_data(deck, ranks)
    return words + arguments.overrides


def runs(arguments, ranks):
    """Directories of the runs that have not finished yet."""
    folders = [os.path.join(arguments.folder, f"ranks{ranks}-{number}") for number in range(1, arguments.repeats + 1)]
    return [folder for folder in folders if not os.path.exists(os.path.join(folder, "summary.json"))]


def train_command(arguments, ranks, folder):
    app = os.path.abspath(shutil.which(arguments.app) or arguments.app)
    return [app, "train", os.path.abspath(arguments.deck), *overrides(arguments, ranks), "-d", os.path.abspath(folder),
            "--overwrite"]  # an earlier run may have been killed before its end


def run_here(arguments, ranks):
    launcher = [word.replace("@RANKS@", str(ranks)) for word in shlex.split(arguments.launcher)]
    for folder in runs(arguments, ranks):
        print(folder, flush=True)
        result = subprocess.run([*launcher, *train_command(arguments, ranks, folder)], capture_output=True, text=True,
                                env={"OMP_NUM_THREADS": "1", **os.environ})
        if result.returncode != 0:
            fail(f"{folder}: failed with exit code {result.returncode}\n{result.stderr}")


def submit(arguments, ranks):
    """Submits one job for all repeats with this number of ranks, written from the template of the scheduler."""
    folders = runs(arguments, ranks)
    if not folders:
        return
    template = arguments.template or os.path.join(HERE, "jobs", f"{arguments.submit}.sh")
    with open(template, encoding="utf-8") as file:
        text = file.read()
    line = re.search(r"^.*@TRAIN@.*$", text, re.MULTILINE)
    if not line:
        fail(f"{template}: no line contains @TRAIN@")
    commands = []
    for folder in folders:  # a job that is requeued begins again with its first run
        done = shlex.quote(os.path.join(os.path.abspath(folder), "summary.json"))
        command = line[0].replace("@TRAIN@", shlex.join(train_command(arguments, ranks, folder)))
        commands.append(f"if [ ! -e {done} ]; then\n{command}\nfi")
    text = text.replace(line[0], "\n".join(commands)).replace("@RANKS@", str(ranks))
    job = os.path.join(arguments.folder, f"ranks{ranks}.sh")
    if os.path.exists(job) and os.path.samefile(job, template):
        fail(f"{template}: the job would be written to this file; give the template another name")
    try:
        store(text.encode(), job)
        subprocess.run([*SUBMIT[arguments.submit], job], check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        fail(f"{job}: cannot be written or submitted: {error}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("app", help="the partita executable")
    parser.add_argument("deck")
    parser.add_argument("scaling", choices=("strong", "weak"))
    parser.add_argument("folder", help="folder for the run directories")
    parser.add_argument("overrides", nargs="*", metavar="section/key=value", help="changes to the deck for every run")
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 4], metavar="P")
    parser.add_argument("--over", choices=("stages", "replicas"), default="stages",
                        help="what the additional ranks become (default: stages)")
    parser.add_argument("--kind", choices=("sil", "pipeline"), default="sil",
                        help="how ranks that are stages train, whatever strategy the deck has (default: sil)")
    parser.add_argument("--repeats", type=int, default=3, help="runs per number of ranks (default: 3)")
    parser.add_argument("--launcher", default="mpirun -n @RANKS@",
                        help="launcher for runs on this machine (default: mpirun -n @RANKS@)")
    parser.add_argument("--submit", choices=sorted(SUBMIT), help="submit jobs instead, from jobs/slurm.sh and so on")
    parser.add_argument("--template", help="with --submit: your own job script, with @RANKS@ and a line with @TRAIN@")
    arguments = parser.parse_intermixed_args()

    os.makedirs(arguments.folder, exist_ok=True)
    for ranks in arguments.ranks:
        (submit if arguments.submit else run_here)(arguments, ranks)


if __name__ == "__main__":
    main()
