#!/usr/bin/env python3
"""Prints the median time in milliseconds of a training step in PyTorch on a GPU, of a model that run.py also trains
with Partita: forward and backward pass, and an update by fused AdamW. The data are on the device. Exit code 3: PyTorch
is not installed."""
import argparse
import contextlib
import statistics
import sys
import time

try:
    import torch
    from torch import nn
except ImportError:
    sys.exit(3)


def perceptron():
    layers, width = [], 784
    for _ in range(5):
        layers += [nn.Linear(width, 256), nn.ReLU()]
        width = 256
    return nn.Sequential(*layers, nn.Linear(width, 47)), lambda: torch.rand(1024, 784), (1024,), 47


class Bottleneck(nn.Module):
    def __init__(self, inputs, width, stride):
        super().__init__()
        outputs = 4 * width
        self.body = nn.Sequential(
            nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            nn.Conv2d(width, outputs, 1, bias=False), nn.BatchNorm2d(outputs))
        self.shortcut = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        return torch.relu(self.body(x) + self.shortcut(x))


def resnet():
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for width, repeats, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for repeat in range(repeats):
            layers.append(Bottleneck(inputs, width, stride if repeat == 0 else 1))
            inputs = 4 * width
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000)]
    return nn.Sequential(*layers), lambda: torch.rand(64, 3, 224, 224), (64,), 1000


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.inward, self.outward = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        rows, positions, width = x.shape
        parts = self.inward(x).split(width, 2)
        q, k, v = (part.view(rows, positions, self.heads, -1).transpose(1, 2) for part in parts)
        out = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.outward(out.transpose(1, 2).reshape(rows, positions, width))


class Gpt(nn.Module):
    def __init__(self, tokens=50304, positions=1024, width=768, heads=12, layers=12):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(tokens, width), nn.Parameter(torch.randn(positions, width) * 0.02)
        self.first = nn.ModuleList(nn.Sequential(nn.LayerNorm(width), Attention(width, heads)) for _ in range(layers))
        self.second = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
            for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        h = self.tokens(x) + self.positions
        for first, second in zip(self.first, self.second):
            h = h + first(h)
            h = h + second(h)
        return (self.norm(h) @ self.tokens.weight.t()).flatten(0, 1)


def gpt():
    return Gpt(), lambda: torch.randint(0, 30, (8, 1024)), (8 * 1024,), 30


MODELS = {"mlp256_b1024": perceptron, "resnet50_b64": resnet, "gpt2small_b8": gpt}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", choices=sorted(MODELS))
    parser.add_argument("--precision", choices=["float", "tf32", "bf16"], default="float")
    parser.add_argument("--compile", action="store_true", help="by torch.compile")
    parser.add_argument("--steps", type=int, default=50)
    arguments = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = arguments.precision == "tf32"
    torch.backends.cudnn.benchmark = True
    model, inputs, places, classes = MODELS[arguments.model]()
    model = model.to(device)
    x, y = inputs().to(device), torch.randint(0, classes, places, device=device)
    if x.dim() == 4:
        model, x = model.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    step_model = torch.compile(model) if arguments.compile else model
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=device == "cuda")
    half = torch.autocast(device, torch.bfloat16) if arguments.precision == "bf16" else contextlib.nullcontext()
    times = []
    for _ in range(arguments.steps + 10):
        begin = time.perf_counter()
        with half:
            loss = nn.functional.cross_entropy(step_model(x), y)
        loss.backward()
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        if device == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    print(f"{1000 * statistics.median(times[10:]):.3f}")


if __name__ == "__main__":
    main()
