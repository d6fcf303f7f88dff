#!/usr/bin/env python3
"""Measures PyTorch on one thread, to compare with `partita bench`: a training step of a small GPT (line gpt256_b16, and
with autocast to bf16 gpt256_b16_bf16), and the forward and backward pass of one attention layer (line attention256)."""

import argparse
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
    sys.exit("train_gpt.py: PyTorch is not installed; ./bootstrap bench makes an environment that has it")

from train_mlp import halves, write_json

TOKENS, POSITIONS, WIDTH, HEADS, LAYERS, BATCH = 30, 128, 256, 4, 6, 16


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.inward = nn.Linear(WIDTH, 3 * WIDTH)
        self.outward = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        rows = x.shape[0]
        q, k, v = (part.view(rows, POSITIONS, HEADS, -1).transpose(1, 2) for part in self.inward(x).split(WIDTH, 2))
        out = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.outward(out.transpose(1, 2).reshape(rows, POSITIONS, WIDTH))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.attention, self.norm2 = nn.LayerNorm(WIDTH), Attention(), nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.position = nn.Embedding(TOKENS, WIDTH), nn.Parameter(0.02 * torch.randn(POSITIONS, WIDTH))
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, TOKENS)

    def forward(self, ids):
        return self.head(self.norm(self.blocks(self.table(ids) + self.position)))


def timed(step, seconds):
    """Median time of one step in ms, over at least three steps that take about `seconds` in total, after a warm-up."""
    step()
    times = []
    while len(times) < 3 or sum(times) < seconds:
        begin = time.perf_counter()
        step()
        times.append(time.perf_counter() - begin)
    return 1e3 * statistics.median(times)


def gpt_step(half, **adam):
    model = Gpt()
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3, **adam)
    ids, targets = torch.randint(TOKENS, (BATCH, POSITIONS)), torch.randint(TOKENS, (BATCH * POSITIONS,))

    def step():
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=half):
            loss = nn.functional.cross_entropy(model(ids).view(-1, TOKENS), targets)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()

    return step


def attention_step():
    layer, x, c = Attention(), torch.randn(BATCH, POSITIONS, WIDTH, requires_grad=True), torch.ones(BATCH, POSITIONS, WIDTH)
    return lambda: layer(x).backward(c)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", metavar="FILE", help="write the list of {name, value, unit} to FILE")
    parser.add_argument("--seconds", type=float, default=8.0, help="seconds per measurement (default 8)")
    parser.add_argument("--only", metavar="NAME", default="", help="only models whose names begin with NAME")
    parser.add_argument("--threads", type=int, default=1, help="threads (default 1)")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(1)
    print(f"PyTorch {torch.__version__}, {arguments.threads} thread(s), {torch.backends.cpu.get_cpu_capability()}")
    forms = {"single tensor": {"foreach": False}, "foreach": {"foreach": True}}
    results = {}
    for half in halves():
        name = "gpt256_b16_bf16" if half else "gpt256_b16"
        if not name.startswith(arguments.only):
            continue
        times = {form: timed(gpt_step(half, **adam), arguments.seconds) for form, adam in forms.items()}
        best = min(times, key=times.get)
        results[name] = times[best]
        print(f"{name:15} {times[best]:9.3f} ms per step, Adam '{best}'", flush=True)
    if "attention256".startswith(arguments.only):
        results["attention256"] = timed(attention_step(), arguments.seconds)
        print(f"attention256    {results['attention256']:9.3f} ms per step")
    write_json(arguments.json, [{"name": name, "value": value, "unit": "ms"} for name, value in results.items()])


if __name__ == "__main__":
    main()
