# SPDX-License-Identifier: Apache-2.0
"""What torch.nn.init makes: exact tensors, and the sizes of its distributions."""

import math

import torch
from torch.nn import init

from generate.writer import uniform

SHAPES = {"fc": (6, 10), "tall": (10, 6), "conv": (8, 4, 3, 5)}  # conv: [O, C, R, S]


def _orthogonal(normal, gain):
    """torch.nn.init.orthogonal_ with `normal` in place of its own draws."""
    original = torch.Tensor.normal_
    torch.Tensor.normal_ = lambda self, *_, **__: self.copy_(normal.reshape(self.shape))
    try:
        return init.orthogonal_(torch.empty(*normal.shape, dtype=torch.float64), gain)
    finally:
        torch.Tensor.normal_ = original


def write(writer, generator):
    tensors = {}
    for name, shape in SHAPES.items():
        normal = uniform(generator, *shape)
        fan_in, fan_out = init._calculate_fan_in_and_fan_out(normal)
        # Rows of sizes in the order of the test: kaiming with slope 0.2 by fan-in and fan-out,
        # xavier with gain 1.5, lecun.
        gain = init.calculate_gain("leaky_relu", 0.2)
        xavier = 1.5 * math.sqrt(2.0 / (fan_in + fan_out))
        tensors[f"{name}.std"] = torch.tensor(
            [gain / math.sqrt(fan_in), gain / math.sqrt(fan_out), xavier,
             init.calculate_gain("linear") / math.sqrt(fan_in)],
            dtype=torch.float64,
        )
        tensors[f"{name}.fans"] = torch.tensor([fan_in, fan_out], dtype=torch.int64)
        tensors[f"{name}.normal"] = normal
        tensors[f"{name}.orthogonal"] = _orthogonal(normal, 1.3)
    tensors["fc.eye"] = init.eye_(torch.empty(6, 10))
    tensors["tall.eye"] = init.eye_(torch.empty(10, 6))
    tensors["conv.dirac"] = init.dirac_(torch.empty(8, 4, 3, 5))
    tensors["conv.dirac_groups"] = init.dirac_(torch.empty(8, 4, 3, 5), 2)
    writer.save("initializers", tensors, gain=1.3)
