#!/usr/bin/env python3
"""Compares what replicas learn if they meet every H steps with what they learn with summed gradients.

Trains the network of a deck with strategy/kind=joint and with strategy/kind=local-sgd, for several H and both outer
steps, always on the same batches. Prints the test accuracy (or perplexity) of each run, the mean over the seeds, and
the bytes that replicas sent, as a share of those of joint.
"""
import argparse
import os
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import runs


def train(arguments, overrides, seed, folder):
    return runs.train(arguments.app, arguments.deck, folder, "run/evaluate_every=0", f"run/seed={seed}", *arguments.overrides,
                      *overrides, ranks=arguments.replicas)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("app", help="the partita executable")
    parser.add_argument("deck", help="e.g. input-decks/emnist-joint.toml or input-decks/gpt-char.toml")
    parser.add_argument("overrides", nargs="*", help="section/key=value, for all runs")
    parser.add_argument("--replicas", type=int, default=2)
    parser.add_argument("--every", type=int, nargs="+", default=[1, 8, 64], metavar="H")
    parser.add_argument("--outer", nargs="+", default=["average", "nesterov"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    arguments = parser.parse_intermixed_args()
    if arguments.replicas < 2:
        parser.error("--replicas must be at least 2")

    variants = {"joint": ["strategy/kind=joint"]}
    for outer in arguments.outer:
        for every in arguments.every:
            variants[f"{outer}, H = {every}"] = ["strategy/kind=local-sgd", f"strategy/outer={outer}", f"strategy/every={every}"]
    joint_bytes = None
    with tempfile.TemporaryDirectory() as folder:
        for name, overrides in variants.items():
            found = [train(arguments, overrides, seed, os.path.join(folder, "run")) for seed in arguments.seeds]
            key = "test_perplexity" if "test_perplexity" in found[0] else "test_accuracy"
            values = [run[key] for run in found]
            joint_bytes = joint_bytes or found[0]["bytes_between_replicas"]
            share = found[0]["bytes_between_replicas"] / joint_bytes
            print(f"{name:18} {key} {' '.join(f'{value:.4f}' for value in values)}  mean {statistics.mean(values):.4f}  "
                  f"traffic {share:.4f}", flush=True)


if __name__ == "__main__":
    main()
