# SPDX-License-Identifier: Apache-2.0
"""Goldens of ops on images: convolution, batch norm, pooling, squeeze-excite.

Computed as PyTorch computes them, [N, C, H, W] and [O, I, R, S], in float64; stored as the library
holds them, [N, H, W, C] and [O, R, S, I]. Values are multiples of 1/64 up to 1: exact in fp16 and
bf16, so that one file serves every dtype.
"""

import json

import torch
import torch.nn.functional as F

GRID = 64


def _grid(generator, *shape, low=-1.0, high=1.0):
    values = torch.randint(
        round(low * GRID), round(high * GRID) + 1, shape, generator=generator, dtype=torch.int64
    )
    return values.to(torch.float64) / GRID


def _memory(tensor):
    """[N, C, H, W] as [N, H, W, C]; other ranks as they are."""
    tensor = tensor.detach()
    return tensor.permute(0, 2, 3, 1).contiguous() if tensor.dim() == 4 else tensor


class Cases:
    """Collects tensors "CASE.NAME" and attributes of the cases of one file."""

    def __init__(self, writer, generator):
        self.writer, self.generator = writer, generator
        self.tensors, self.attrs = {}, {}

    def add(self, name, attrs, inputs, function, extra=None):
        """Runs `function` on the inputs that have a gradient; keeps y, dy and the gradients."""
        variables = {key: value.clone().requires_grad_() for key, value in inputs.items()}
        y = function(**variables)
        dy = _grid(self.generator, *y.shape)
        grads = torch.autograd.grad(y, list(variables.values()), dy)
        stored = {**inputs, "y": y, "dy": dy}
        stored.update({f"d{key}": grad for key, grad in zip(variables, grads)})
        stored.update(extra or {})
        self.tensors.update({f"{name}.{key}": _memory(value) for key, value in stored.items()})
        self.attrs[name] = attrs

    def save(self, file):
        self.writer.save(file, self.tensors, attrs=json.dumps(self.attrs, sort_keys=True))
        self.tensors, self.attrs = {}, {}


def _pair(value):
    return [value, value] if isinstance(value, int) else list(value)


# name: (x as N C H W, out channels, kernel, options). Files stay below the limit of their size.
CONVOLUTIONS = {
    "conv_kernels": {
        "1x1": ((2, 7, 5, 4), 9, 1, {}),
        "3x3": ((2, 3, 6, 5), 7, 3, dict(padding=1)),
        "7x7_s2": ((1, 3, 13, 12), 5, 7, dict(stride=2, padding=3)),
        "stride3": ((2, 4, 9, 8), 5, 3, dict(stride=3)),
        "even": ((2, 3, 7, 6), 4, 2, dict(stride=2)),
        "even_padded": ((1, 4, 5, 6), 3, 4, dict(padding=2)),
        "uneven": ((2, 3, 7, 8), 4, (3, 5), dict(stride=(2, 1), padding=(0, 2))),
        "whole": ((2, 3, 4, 5), 6, (4, 5), {}),
    },
    "conv_channels": {
        "one_to_one": ((2, 1, 5, 5), 1, 3, dict(padding=1)),
        "one_to_33": ((2, 1, 4, 4), 33, 3, {}),
        "33_to_7": ((1, 33, 4, 3), 7, 3, dict(padding=1)),
        "7_to_33": ((2, 7, 3, 3), 33, 1, {}),
    },
    "conv_thousand": {
        "from_1000": ((2, 1000, 1, 2), 3, 1, {}),
        "to_1000": ((1, 3, 2, 1), 1000, 1, {}),
    },
    "conv_dilated": {
        "both": ((2, 3, 9, 8), 4, 3, dict(dilation=2, padding=2)),
        "apart": ((1, 3, 9, 8), 4, 3, dict(dilation=(1, 3), padding=(0, 1), stride=(2, 1))),
        "grouped": ((2, 6, 7, 7), 8, 3, dict(dilation=2, groups=2)),
    },
    "conv_groups": {
        "two": ((2, 6, 5, 5), 4, 3, dict(groups=2, padding=1)),
        "odd": ((1, 9, 5, 4), 15, 3, dict(groups=3, stride=2, padding=1)),
        "depthwise": ((2, 7, 6, 5), 7, 3, dict(groups=7, padding=1)),
        "depthwise_s2": ((1, 16, 7, 7), 16, 5, dict(groups=16, stride=2, padding=2)),
        "depthwise_doubled": ((2, 3, 5, 5), 6, 3, dict(groups=3)),
    },
}


def convolutions(writer, generator):
    cases = Cases(writer, generator)
    for file, rows in CONVOLUTIONS.items():
        for number, (name, (shape, out, kernel, options)) in enumerate(rows.items()):
            groups = options.get("groups", 1)
            inputs = {
                "x": _grid(generator, *shape),
                "weight": _grid(generator, out, shape[1] // groups, *_pair(kernel)),
            }
            bias = number % 2 == 0
            if bias:
                inputs["bias"] = _grid(generator, out)
            attrs = {"out_channels": out, "kernel": _pair(kernel), "bias": bias, "groups": groups}
            for key, default in (("stride", 1), ("padding", 0), ("dilation", 1)):
                attrs[key] = _pair(options.get(key, default))

            def function(x, weight, bias=None, options=options):
                return F.conv2d(x, weight, bias, **options)

            cases.add(name, attrs, inputs, function)
        cases.save(file)


def batch_norm(writer, generator):
    """Training with the statistics after it (next_mean, next_var), and with frozen statistics."""
    cases = Cases(writer, generator)
    shapes = {
        "rows": (9, 5),
        "two_rows": (2, 3),
        "image": (3, 7, 4, 5),
        "batch_one": (1, 33, 3, 3),
        "thousand": (3, 1000),
        "channel_one": (4, 1, 5, 5),
    }
    options = {"image": (0.3, 1e-3), "rows": (1.0, 1e-5)}
    for frozen in (False, True):
        for name, shape in shapes.items():
            channels, (momentum, eps) = shape[1], options.get(name, (0.1, 1e-5))
            mean, var = _grid(generator, channels), _grid(generator, channels, low=0.5, high=1.5)
            inputs = {
                "x": _grid(generator, *shape),
                "weight": _grid(generator, channels, low=0.25),
                "bias": _grid(generator, channels),
            }
            next_mean, next_var = mean.clone(), var.clone()

            def function(x, weight, bias):
                return F.batch_norm(
                    x, next_mean, next_var, weight, bias, not frozen, momentum, eps
                )

            extra = dict(running_mean=mean, running_var=var, next_mean=next_mean, next_var=next_var)
            cases.add(name, {"momentum": momentum, "eps": eps}, inputs, function, extra)
        cases.save("bn_frozen" if frozen else "bn")


# name: (shape, kernel, stride, padding, ceil_mode)
POOLS = {
    "half": ((2, 5, 4, 6), 2, 2, 0, False),
    "stem": ((1, 5, 7, 6), 3, 2, 1, False),
    "overlap": ((2, 3, 5, 5), (3, 2), 1, (1, 0), False),
    "sparse": ((1, 3, 8, 7), (1, 2), 3, 0, False),
    "ceil": ((2, 4, 6, 5), 3, 2, 1, True),
    "ceil_gap": ((1, 3, 5, 7), 2, 2, 0, True),
    "ceil_one": ((1, 3, 1, 3), 2, 2, 0, True),
    "channels33": ((1, 33, 4, 4), 2, 2, 1, True),
}


def _pool_attrs(row):
    _, kernel, stride, padding, ceil = row
    return dict(kernel=_pair(kernel), stride=_pair(stride), padding=_pair(padding), ceil_mode=ceil)


def pooling(writer, generator):
    cases = Cases(writer, generator)
    for name, row in POOLS.items():
        shape, *window, ceil = row
        # The grid has many equal values: which of them is the maximum shows in dx.
        x = {"x": _grid(generator, *shape, low=-0.1, high=0.1)}
        cases.add(name, _pool_attrs(row), x, lambda x: F.max_pool2d(x, *window, ceil_mode=ceil))
    cases.save("maxpool")
    for include in (True, False):
        for name, row in POOLS.items():
            shape, *window, ceil = row
            attrs = dict(_pool_attrs(row), count_include_pad=include)
            x = {"x": _grid(generator, *shape)}
            cases.add(
                f"{name}_{'counted' if include else 'inside'}",
                attrs,
                x,
                lambda x: F.avg_pool2d(x, *window, ceil, include),
            )
    cases.save("avgpool")
    for height, width, size in (
        (7, 5, (3, 2)),
        (2, 3, (5, 7)),
        (4, 4, (4, 4)),
        (6, 6, (1, 1)),
        (1, 1, (7, 7)),
        (13, 11, (7, 7)),
    ):
        name = f"{height}x{width}_to_{size[0]}x{size[1]}"
        x = {"x": _grid(generator, 2, 3, height, width)}
        cases.add(name, {"size": list(size)}, x, lambda x: F.adaptive_avg_pool2d(x, size))
    cases.save("adaptive_avgpool")
    for name, shape in {"square": (3, 7, 4, 4), "one": (2, 5, 1, 1)}.items():
        x = {"x": _grid(generator, *shape)}
        cases.add(name, {}, x, lambda x: F.adaptive_avg_pool2d(x, 1))
    cases.save("gap")


def scaling(writer, generator):
    """mul with a factor a channel, and the channels that padding adds."""
    cases = Cases(writer, generator)
    for name, (a, b) in {
        "channels": ((2, 5, 3, 4), (2, 5, 1, 1)),
        "same": ((2, 3, 3, 3), (2, 3, 3, 3)),
    }.items():
        inputs = {"a": _grid(generator, *a), "b": _grid(generator, *b)}
        cases.add(name, {}, inputs, lambda a, b: a * b)
    cases.save("mul")
    for name, (channels, multiple) in {"three": (3, 8), "full": (8, 8), "odd": (5, 3)}.items():
        more = -channels % multiple
        x = {"x": _grid(generator, 2, channels, 3, 2)}
        cases.add(name, {"multiple": multiple}, x, lambda x: F.pad(x, (0, 0, 0, 0, 0, more)))
    cases.save("channel_padding")


def write(writer, generator):
    for part in (convolutions, batch_norm, pooling, scaling):
        part(writer, generator)
