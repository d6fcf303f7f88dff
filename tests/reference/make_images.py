#!/usr/bin/env python3
"""Writes images.txt: outputs and gradients of convolution networks as PyTorch has them, in double precision.

    python3 make_images.py > images.txt

Made with PyTorch 1.13.1. Each case is a layer as a deck has it, on some samples; J = <grad_out, out>.
"""

import torch
from torch import nn

ROWS = 3
ACTIVATIONS = {"relu": nn.ReLU, "tanh": nn.Tanh, "gelu": nn.GELU, "silu": nn.SiLU}


def relu(**keys):
    return {**keys, "activation": "relu"}


def conv(channels, kernel, **keys):
    return {"type": "conv2d", "channels": channels, "kernel": kernel, **keys}


NORM = {"type": "batch-norm"}
GROUPS = {"type": "group-norm"}
CASES = {
    "strided": ((2, 7, 6), conv(3, [3, 2], stride=[2, 1], padding=[1, 0], activation="tanh")),
    "dilated, two groups": ((4, 6, 5), conv(4, 3, dilation=2, padding=2, groups=2, activation="gelu")),
    "same, an even kernel": ((2, 4, 5), conv(2, 4, padding="same", activation="silu")),
    "depthwise without bias": ((3, 5, 5), conv(3, 3, padding=1, stride=2, groups=3, bias=False)),
    "pointwise": ((3, 4, 3), conv(2, 1, activation="tanh")),
    "a volume": ((2, 3, 4, 5), {"type": "conv3d", "channels": 2, "kernel": [2, 3, 3], "stride": [1, 2, 1],
                                "padding": [0, 1, 1], "activation": "tanh"}),
    "max-pool": ((2, 6, 7), {"type": "max-pool", "kernel": 3, "stride": 2, "padding": 1}),
    "average-pool": ((2, 6, 7), {"type": "average-pool", "kernel": [3, 2], "stride": [2, 3], "padding": [1, 0]}),
    "max-pool of a volume": ((1, 4, 4, 5), {"type": "max-pool", "kernel": 2}),
    "global-average-pool": ((3, 4, 5), {"type": "global-average-pool"}),
    "batch-norm of vectors": ((5,), {**NORM, "activation": "tanh"}),
    "batch-norm of images": ((3, 4, 5), {**NORM, "momentum": 0.25, "epsilon": 1e-3}),
    "a residual block": ((2, 6, 5), {
        "type": "residual", "activation": "relu",
        "layers": [conv(3, 3, padding=1, stride=2, bias=False), relu(**NORM), conv(3, 3, padding=1, bias=False), NORM],
        "shortcut": [conv(3, 1, stride=2, bias=False), NORM]}),
    "LeNet": ((1, 12, 12), {
        "type": "block",
        "layers": [conv(3, 5, padding="same", activation="tanh"), {"type": "max-pool", "kernel": 2},
                   conv(4, 3, activation="tanh"), {"type": "average-pool", "kernel": 2}, {"type": "flatten"},
                   {"type": "dense", "units": 6, "activation": "tanh"}, {"type": "dense", "units": 5}]}),
    "group-norm of vectors": ((6,), {**GROUPS, "groups": 2}),
    "group-norm of images": ((6, 4, 5), {**GROUPS, "groups": 3, "epsilon": 1e-3}),
    "group-norm of volumes, each channel alone": ((3, 2, 3, 4), {**GROUPS, "groups": 3}),
    "group-norm of images, all channels together": ((4, 3, 2), {**GROUPS, "groups": 1}),
}


class Residual(nn.Module):
    def __init__(self, body, shortcut):
        super().__init__()
        self.body, self.shortcut = body, shortcut

    def forward(self, x):
        return self.body(x) + self.shortcut(x)


def sequence(specs, shape):
    modules = []
    for spec in specs:
        modules.append(module_of(spec, shape))
        shape = tuple(modules[-1].double()(torch.zeros(2, *shape, dtype=torch.double)).shape[1:])
    return nn.Sequential(*modules)


def plain_module(spec, shape):
    kind, axes = spec["type"], len(shape) - 1
    if kind in ("conv2d", "conv3d"):
        keys = {name: spec[name] for name in ("stride", "padding", "dilation", "groups", "bias") if name in spec}
        return (nn.Conv2d, nn.Conv3d)[axes - 2](shape[0], spec["channels"], spec["kernel"], **keys)
    if kind == "max-pool":
        return (nn.MaxPool2d, nn.MaxPool3d)[axes - 2](spec["kernel"], spec.get("stride"), spec.get("padding", 0))
    if kind == "average-pool":
        return (nn.AvgPool2d, nn.AvgPool3d)[axes - 2](spec["kernel"], spec.get("stride"), spec.get("padding", 0),
                                                      count_include_pad=False)
    if kind == "global-average-pool":
        return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
    if kind == "flatten":
        return nn.Flatten()
    if kind == "dense":
        return nn.Linear(shape[0], spec["units"])
    if kind == "batch-norm":
        norm = {0: nn.BatchNorm1d, 2: nn.BatchNorm2d, 3: nn.BatchNorm3d}[axes]
        return norm(shape[0], eps=spec.get("epsilon", 1e-5), momentum=spec.get("momentum", 0.1))
    if kind == "group-norm":
        return nn.GroupNorm(spec["groups"], shape[0], eps=spec.get("epsilon", 1e-5))
    if kind == "residual":
        return Residual(sequence(spec["layers"], shape), sequence(spec["shortcut"], shape))
    return sequence(spec["layers"], shape)


def module_of(spec, shape):
    module = plain_module(spec, shape)
    activation = spec.get("activation")
    return nn.Sequential(module, ACTIVATIONS[activation]()) if activation else module


def toml(value):
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{name} = {toml(inside)}" for name, inside in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    if isinstance(value, str):
        return f'"{value}"'
    return str(value).lower()


def show(name, tensors):
    values = torch.cat([tensor.detach().reshape(-1) for tensor in tensors]) if tensors else torch.zeros(0)
    print(name, *(f"{value:.13g}" for value in values.tolist()))


def numbers(*shape):
    """Short in print."""
    return (torch.randn(*shape, dtype=torch.double) * 64).round() / 64


def main():
    torch.manual_seed(1)
    for name, (shape, spec) in CASES.items():
        module = module_of(spec, shape).double()
        for each in module.modules():  # running means of the passes that only told shapes
            if isinstance(each, nn.modules.batchnorm._BatchNorm):
                each.reset_running_stats()
        for parameter in module.parameters():
            parameter.data = numbers(*parameter.shape)
        x = numbers(ROWS, *shape).requires_grad_()
        out = module(x)
        grad_out = numbers(*out.shape)
        out.backward(grad_out)
        print("case", name)
        print("layer", toml(spec))
        print("shape", *shape)
        show("in", [x])
        show("parameters", list(module.parameters()))
        show("out", [out])
        show("statistics", [buffer for buffer in module.buffers() if buffer.dim() > 0])
        show("grad_out", [grad_out])
        show("grad_in", [x.grad])
        show("gradients", [parameter.grad for parameter in module.parameters()])


if __name__ == "__main__":
    main()
