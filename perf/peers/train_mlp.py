#!/usr/bin/env python3
"""Measures a training step of fully connected networks in PyTorch, to compare with `partita bench`."""

import argparse
import os
import statistics
import sys
import time

os.environ["OMP_NUM_THREADS"] = "1"
os.environ["MKL_NUM_THREADS"] = "1"

try:
    import torch
except ImportError:
    sys.exit("train_mlp.py: PyTorch is not installed; ./bootstrap bench makes an environment that has it")

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from runs import write_json

FEATURES, CLASSES = 784, 47
MODELS = (  # name, width of the five hidden layers, batch
    ("mlp256_b128", 256, 128),
    ("mlp256_b1024", 256, 1024),
    ("mlp2048_b512", 2048, 512),
)
ADAM_FORMS = {"single tensor": {"foreach": False}, "foreach": {"foreach": True}, "fused": {"fused": True}}


def halves():
    """The values of `half` to measure. PyTorch's bf16 is ten times as slow as float where processors do not have it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            has_bf16 = not {"avx512_bf16", "amx_bf16", "bf16"}.isdisjoint(file.read().split())
    except OSError:
        has_bf16 = True
    if not has_bf16:
        print("this processor does not multiply bf16 numbers, so no model is measured with them")
    return (False, True) if has_bf16 else (False,)


def make_network(width):
    sizes = [FEATURES] + [width] * 5 + [CLASSES]
    layers = []
    for fan_in, fan_out in zip(sizes, sizes[1:]):
        dense = torch.nn.Linear(fan_in, fan_out)
        torch.nn.init.kaiming_normal_(dense.weight, nonlinearity="relu")
        torch.nn.init.zeros_(dense.bias)
        layers += [dense, torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


class Trainer:
    """A network, its optimiser, and data that stay in memory. A batch is selected by index."""

    def __init__(self, width, batch, adam_form, half):
        torch.manual_seed(1)
        samples = max(8 * batch, 4096)
        self.features = torch.randn(samples, FEATURES)
        self.labels = torch.randint(CLASSES, (samples,))
        self.order = torch.randperm(samples)
        self.batch = batch
        self.position = 0
        self.network = make_network(width)
        self.half = half
        self.loss = torch.nn.CrossEntropyLoss()
        self.optimiser = torch.optim.Adam(self.network.parameters(), lr=1e-3, **adam_form)

    def step(self):
        rows = self.order[self.position : self.position + self.batch]
        self.position = (self.position + self.batch) % len(self.order)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=self.half):
            loss = self.loss(self.network(self.features[rows]), self.labels[rows])
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()

    def seconds(self, steps):
        begin = time.perf_counter()
        for _ in range(steps):
            self.step()
        return (time.perf_counter() - begin) / steps


def median_step(width, batch, adam_form, half, seconds):
    """Median seconds per step, over repetitions that take about `seconds` in total, after a warm-up."""
    trainer = Trainer(width, batch, adam_form, half)
    once = trainer.seconds(3)
    once = trainer.seconds(max(1, int(0.2 * seconds / once)))
    repetitions = 15
    steps = max(1, int(0.8 * seconds / repetitions / once))
    return statistics.median(trainer.seconds(steps) for _ in range(repetitions))


def measure(name, width, batch, half, seconds):
    """With `half`, products take bf16 numbers by autocast."""
    name += "_bf16" if half else ""
    times = {}
    for form, options in ADAM_FORMS.items():
        try:
            times[form] = median_step(width, batch, options, half, seconds)
        except RuntimeError as error:  # older versions have no fused Adam on the CPU
            print(f"{name}: Adam '{form}' is not available: {error}", file=sys.stderr)
    best = min(times, key=times.get)
    others = ", ".join(f"{form} {1e3 * value:.3f}" for form, value in times.items() if form != best)
    print(f"{name:18} {1e3 * times[best]:9.3f} ms per step, Adam '{best}' (others: {others})", flush=True)
    return {"name": name, "value": 1e3 * times[best], "unit": "ms"}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", metavar="FILE", help="write the list of {name, value, unit} to FILE")
    parser.add_argument("--seconds", type=float, default=5.0, help="seconds per model and form of Adam (default 5)")
    parser.add_argument("--only", metavar="NAME", default="", help="only models whose names begin with NAME")
    parser.add_argument("--threads", type=int, default=1, help="threads (default 1)")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    print(f"PyTorch {torch.__version__}, {arguments.threads} thread(s), {torch.backends.cpu.get_cpu_capability()}")
    results = [measure(*model, half, arguments.seconds) for half in halves() for model in MODELS
               if model[0].startswith(arguments.only)]
    write_json(arguments.json, results)


if __name__ == "__main__":
    main()
