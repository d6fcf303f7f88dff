#!/usr/bin/env python3
"""Measures PyTorch on one thread, to compare with `partita bench`: a training step of LeNet and of a small ResNet, in
float and with autocast to bf16, and single convolutions. The faster of the two memory formats counts."""

import argparse
import functools
import os
import statistics
import sys
import time

os.environ["OMP_NUM_THREADS"] = "1"
os.environ["MKL_NUM_THREADS"] = "1"

try:
    import torch
    from torch import nn
except ImportError:
    sys.exit("train_conv.py: PyTorch is not installed; ./bootstrap bench makes an environment that has it")

from train_mlp import ADAM_FORMS, halves, write_json

CONVOLUTIONS = (  # name, input, channels, kernel, stride, padding, batch, groups, as in apps/partita/bench_layers.cpp
    ("conv5x5_1_20_28", (1, 28, 28), 20, 5, 1, 0, 128, 1),
    ("conv5x5_20_50_12", (20, 12, 12), 50, 5, 1, 0, 128, 1),
    ("conv3x3_32_32_14", (32, 14, 14), 32, 3, 1, 1, 128, 1),
    ("conv3x3_64_64_56", (64, 56, 56), 64, 3, 1, 1, 8, 1),
    ("conv3x3_256_256_14", (256, 14, 14), 256, 3, 1, 1, 8, 1),
    ("conv1x1_256_64_56", (256, 56, 56), 64, 1, 1, 0, 8, 1),
    ("conv7x7_3_64_224", (3, 224, 224), 64, 7, 2, 3, 4, 1),
    ("conv3x3x3_16_32_32", (16, 32, 32, 32), 32, 3, 1, 1, 4, 1),
    ("conv3x3dw_256_56", (256, 56, 56), 256, 3, 1, 1, 8, 256),
)
FORMATS = {"channels first": torch.contiguous_format, "channels last": torch.channels_last}
VOLUME_FORMATS = {"channels first": torch.contiguous_format, "channels last": torch.channels_last_3d}


def seconds_of(work, seconds):
    """Median time of one call, over repetitions that take about `seconds` in total, after a warm-up."""
    begin = time.perf_counter()
    for _ in range(3):
        work()
    once = (time.perf_counter() - begin) / 3
    steps = max(1, int(seconds / 15 / once))
    times = []
    for _ in range(15):
        begin = time.perf_counter()
        for _ in range(steps):
            work()
        times.append((time.perf_counter() - begin) / steps)
    return statistics.median(times)


def lenet():
    return nn.Sequential(nn.Conv2d(1, 20, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(20, 50, 5), nn.ReLU(),
                         nn.MaxPool2d(2), nn.Flatten(), nn.Linear(800, 500), nn.ReLU(), nn.Linear(500, 47))


class Residual(nn.Module):
    def __init__(self, channels_in, channels, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels_in, channels, 3, stride, 1, bias=False), nn.BatchNorm2d(channels), nn.ReLU(),
            nn.Conv2d(channels, channels, 3, 1, 1, bias=False), nn.BatchNorm2d(channels))
        self.beside = nn.Identity()
        if stride > 1 or channels != channels_in:
            self.beside = nn.Sequential(nn.Conv2d(channels_in, channels, 1, stride, bias=False), nn.BatchNorm2d(channels))

    def forward(self, x):
        return nn.functional.relu(self.body(x) + self.beside(x))


def resnet():
    """The network of input-decks/resnet-emnist.toml."""
    return nn.Sequential(nn.Conv2d(1, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(), Residual(16, 32, 2),
                         Residual(32, 64, 2), Residual(64, 64, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(64, 47))


def training_step(make, batch, adam_form, memory_format, half):
    torch.manual_seed(1)
    network = make().to(memory_format=memory_format)
    features, labels = torch.randn(16 * batch, 1, 28, 28), torch.randint(47, (16 * batch,))
    order, loss = torch.randperm(16 * batch), nn.CrossEntropyLoss()
    optimiser = torch.optim.Adam(network.parameters(), lr=1e-3, **adam_form)
    position = [0]

    def step():
        rows = order[position[0]:position[0] + batch]
        position[0] = (position[0] + batch) % len(order)
        images = features[rows].to(memory_format=memory_format)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=half):
            value = loss(network(images), labels[rows])
        optimiser.zero_grad()
        value.backward()
        optimiser.step()

    return step


def convolution_pass(shape, channels, kernel, stride, padding, batch, groups, memory_format):
    convolution = nn.Conv3d if len(shape) == 4 else nn.Conv2d
    layer = nn.Sequential(convolution(shape[0], channels, kernel, stride, padding, groups=groups), nn.ReLU())
    layer = layer.to(memory_format=memory_format)
    x = torch.randn(batch, *shape).to(memory_format=memory_format).requires_grad_()
    grad = torch.randn_like(layer(x))

    def run():
        x.grad = None
        layer.zero_grad(set_to_none=True)
        layer(x).backward(grad)

    return run


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", metavar="FILE", help="write the list of {name, value, unit} to FILE")
    parser.add_argument("--seconds", type=float, default=4.0, help="seconds per measurement (default 4)")
    parser.add_argument("--only", metavar="NAME", default="", help="only models whose names begin with NAME")
    parser.add_argument("--threads", type=int, default=1, help="threads (default 1)")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    print(f"PyTorch {torch.__version__}, {arguments.threads} thread(s), oneDNN {torch.backends.mkldnn.is_available()}")
    results = []

    def tell(name, seconds, note=""):
        print(f"{name:20} {1e3 * seconds:9.3f} ms{note}", flush=True)
        results.append({"name": name, "value": 1e3 * seconds, "unit": "ms"})

    def fastest(name, makers, note):
        """Reports the time of the fastest of several ways, {name of the way: what makes the step}."""
        if not name.startswith(arguments.only):
            return
        times = {}
        for way, make in makers.items():
            try:
                times[way] = seconds_of(make(), arguments.seconds / len(makers) ** 0.5)
            except (RuntimeError, TypeError) as error:  # older versions have no fused Adam on the CPU
                print(f"{name}: '{way}' is not available: {error}", file=sys.stderr)
        best = min(times, key=times.get)
        tell(name, times[best], f" {note}, {best}")

    for half in halves():
        ending = "_bf16" if half else ""
        for name, make, batch in (("lenet_b128", lenet, 128), ("resnet_b64", resnet, 64)):
            fastest(name + ending,
                    {f"Adam '{form}', {layout}": functools.partial(training_step, make, batch, options, order, half)
                     for form, options in ADAM_FORMS.items() for layout, order in FORMATS.items()}, "per step")
    for name, *case in CONVOLUTIONS:
        formats = VOLUME_FORMATS if len(case[0]) == 4 else FORMATS
        fastest(name, {layout: functools.partial(convolution_pass, *case, order) for layout, order in formats.items()},
                "forward and backward")
    write_json(arguments.json, results)


if __name__ == "__main__":
    main()
