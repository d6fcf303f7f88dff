#!/usr/bin/env python3
"""Prints the milliseconds that PyTorch takes on a GPU for a training step of a model that run.py also trains with
Partita: forward and backward pass, and an update with fused AdamW; in float, TF32 and bf16 (autocast), eager and with
torch.compile. The data are on the device. Exit code 3: PyTorch is not installed."""
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


def perceptron(units, batch):
    layers, width = [], 784
    for _ in range(5):
        layers += [nn.Linear(width, units), nn.ReLU()]
        width = units
    return nn.Sequential(*layers, nn.Linear(width, 47)), lambda: torch.rand(batch, 784), (batch,), 47


def lenet():
    layers = [nn.Conv2d(1, 20, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(20, 50, 5), nn.ReLU(), nn.MaxPool2d(2),
              nn.Flatten(), nn.Linear(800, 500), nn.ReLU(), nn.Linear(500, 47)]
    return nn.Sequential(*layers), lambda: torch.rand(128, 1, 28, 28), (128,), 47


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


MODELS = {"mlp256_b1024": lambda: perceptron(256, 1024), "mlp2048_b512": lambda: perceptron(2048, 512),
          "lenet_b128": lenet, "resnet50_b64": resnet, "gpt2small_b8": gpt}


class Timer:
    """Seconds of a step, as the median of five blocks of about half a second; a block waits for the device once."""

    def __init__(self, step, device):
        self.step, self.wait = step, torch.cuda.synchronize if device == "cuda" else lambda: None

    def block(self, steps):
        begin = time.perf_counter()
        for _ in range(steps):
            self.step()
        self.wait()
        return (time.perf_counter() - begin) / steps

    def seconds(self):
        self.block(3)  # compiles, and chooses algorithms
        steps = max(3, min(2000, int(0.5 / self.block(3))))
        return statistics.median(self.block(steps) for _ in range(5))


def step_seconds(make, device, precision, compiled):
    torch._dynamo.reset()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision == "tf32"
    model, inputs, places, classes = make()
    model = model.to(device)
    x, y = inputs().to(device), torch.randint(0, classes, places, device=device)
    if x.dim() == 4:
        model, x = model.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    step_model = torch.compile(model) if compiled else model
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=device == "cuda")
    half = torch.autocast(device, torch.bfloat16) if precision == "bf16" else contextlib.nullcontext()

    def step():
        with half:
            loss = nn.functional.cross_entropy(step_model(x), y)
        loss.backward()
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)

    return Timer(step, device).seconds()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", choices=sorted(MODELS))
    name = parser.parse_args().model
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.backends.cudnn.benchmark = True
    print(f"PyTorch {torch.__version__}", flush=True)
    # What matters most comes first, because compiling takes a long time.
    for precision, compiled in (("bf16", False), ("bf16", True), ("float", False), ("tf32", False), ("float", True),
                                ("tf32", True)):
        milliseconds = 1000 * step_seconds(MODELS[name], device, precision, compiled)
        print(f"{precision} {'compiled' if compiled else 'eager'}: {milliseconds:.3f} ms", flush=True)


if __name__ == "__main__":
    main()
