#!/usr/bin/env python3
"""Writes attention.txt and gpt.txt beside itself: outputs and gradients of PyTorch for tests/gradient/reference.cpp."""

import math
from pathlib import Path

import torch
from torch import nn

FOLDER = Path(__file__).resolve().parent


def write(name, entries):
    with open(FOLDER / name, "w", encoding="utf-8") as file:
        for entry, tensor in entries:
            values = tensor.detach().reshape(-1).tolist()
            file.write(f"{entry} {len(values)}\n")
            for i in range(0, len(values), 8):
                file.write(" ".join(f"{value:.15g}" for value in values[i : i + 8]) + "\n")


def randomise(module):
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.3)


def attention_of(module, x):
    """nn.MultiheadAttention with a causal mask: batch first, one tensor for q, k and v."""
    positions = x.shape[1]
    mask = torch.full((positions, positions), -math.inf, dtype=x.dtype).triu(1)
    return module(x, x, x, attn_mask=mask, need_weights=False)[0]


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        x = x + attention_of(self.attention, self.norm1(x))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


class Gpt(nn.Module):
    """Parameters in the order in which Partita lays them out; the head has the table of the embedding."""

    def __init__(self, tokens, positions, width, heads, layers):
        super().__init__()
        self.table = nn.Parameter(torch.empty(tokens, width))
        self.position = nn.Parameter(torch.empty(positions, width))
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.ParameterList([nn.Parameter(torch.empty(tokens))])  # the bias, behind all others

    def forward(self, ids):
        x = self.table[ids] + self.position
        for block in self.blocks:
            x = block(x)
        return self.norm(x) @ self.table.T + self.head[0]


def flat(parameters):
    return torch.cat([parameter.reshape(-1) for parameter in parameters])


def gradients(module):
    return flat([parameter.grad for parameter in module.parameters()])


def make_attention():
    module = nn.MultiheadAttention(6, 2, batch_first=True)
    randomise(module)
    x = torch.randn(3, 7, 6, requires_grad=True)
    c = torch.randn(3, 7, 6)
    y = attention_of(module, x)
    (y * c).sum().backward()
    write("attention.txt", [("parameters", flat(module.parameters())), ("in", x), ("out", y), ("grad_out", c),
                            ("grad_in", x.grad), ("gradients", gradients(module))])


def make_gpt():
    model = Gpt(tokens=7, positions=5, width=6, heads=2, layers=2)
    randomise(model)
    ids, targets = torch.randint(7, (3, 5)), torch.randint(7, (3, 5))
    logits = model(ids)
    loss = nn.functional.cross_entropy(logits.reshape(-1, 7), targets.reshape(-1))
    loss.backward()
    write("gpt.txt", [("parameters", flat(model.parameters())), ("in", ids), ("labels", targets), ("out", logits),
                      ("loss", loss), ("gradients", gradients(model))])


if __name__ == "__main__":
    torch.manual_seed(1)
    torch.set_default_dtype(torch.float64)
    make_attention()
    make_gpt()
