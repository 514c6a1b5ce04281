#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes torchvision.json: what torchvision's models look like, for zoo_test.cpp.

    python3 tests/unit/zoo/make_torchvision.py

For each model: parameters and buffers (number of tensors, SHA-256 of the sorted lines "NAME
[SHAPE]"), number of trained values, and floating-point operations of one image (of convolutions and
linear layers: two a multiply-add, one a bias), and the probabilities of the StochasticDepth modules
that act. With --list MODEL: the lines themselves.
"""

import argparse
import hashlib
import json
import pathlib

import torch
import torchvision
from torch import nn

NAMES = (
    [f"vgg{depth}{norm}" for depth in (11, 13, 16, 19) for norm in ("", "_bn")]
    + [f"resnet{depth}" for depth in (18, 34, 50, 101, 152)]
    + ["wide_resnet50_2", "resnext50_32x4d", "mobilenet_v2", "mobilenet_v3_large"]
    + ["efficientnet_b0", "densenet121"]
)


def build(name):
    with torch.device("meta"):  # shapes alone
        return torchvision.models.get_model(name, weights=None)


def lines_of(model):
    return sorted(
        f"{name} {list(value.shape)}"
        for name, value in model.state_dict().items()
        if not name.endswith("num_batches_tracked")
    )


def flops_of(model):
    total = [0]

    def count(module, _, output):
        values = output.numel()
        if isinstance(module, nn.Conv2d):
            cells = module.kernel_size[0] * module.kernel_size[1]
            total[0] += 2 * values * cells * module.in_channels // module.groups
        else:
            total[0] += 2 * values * module.in_features
        total[0] += values if module.bias is not None else 0

    for module in model.modules():
        if isinstance(module, (nn.Conv2d, nn.Linear)):
            module.register_forward_hook(count)
    model.eval()
    with torch.no_grad():
        model(torch.zeros(1, 3, 224, 224, device="meta"))
    return total[0]


def drops_of(model):
    """Blocks without a shortcut have the module too, and do not call it."""
    return {
        f"{name}.stochastic_depth": block.stochastic_depth.p
        for name, block in model.named_modules()
        if getattr(block, "use_res_connect", False)
        and hasattr(block, "stochastic_depth")
        and block.stochastic_depth.mode == "row"
        and block.stochastic_depth.p > 0
    }


def facts_of(name):
    model = build(name)
    lines = lines_of(model)
    return {
        "tensors": len(lines),
        "names_sha256": hashlib.sha256("".join(line + "\n" for line in lines).encode()).hexdigest(),
        "parameters": sum(p.numel() for p in model.parameters()),
        "flops": flops_of(model),
        "stochastic_depth": drops_of(model),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", metavar="MODEL", help="print the lines of one model")
    args = parser.parse_args()
    if args.list:
        print("\n".join(lines_of(build(args.list))))
        return
    table = {
        "script": "tests/unit/zoo/make_torchvision.py",
        "torchvision": torchvision.__version__.split("+")[0],
        "models": {name: facts_of(name) for name in NAMES},
    }
    path = pathlib.Path(__file__).with_name("torchvision.json")
    path.write_text(json.dumps(table, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
