# SPDX-License-Identifier: Apache-2.0
"""Weights and pictures that tests make from their names, the same as tests/support/shared_values.h:
models too large for a file are shared without one."""

import numpy
import torch

_MASK = (1 << 64) - 1


def _fnv1a64(text):
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = ((value ^ byte) * 0x100000001B3) & _MASK
    return value


def units(name, count):
    """`count` odd multiples of 2^-23 in (-1, 1), float64: element i is a hash of (name, i)."""
    with numpy.errstate(over="ignore"):
        x = numpy.arange(count, dtype=numpy.uint64) * numpy.uint64(0x9E3779B97F4A7C15)
        x += numpy.uint64(_fnv1a64(name))
        x = (x ^ (x >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
        x ^= x >> numpy.uint64(31)
    top = (x >> numpy.uint64(41)).astype(numpy.int64)
    return (2 * top + 1 - (1 << 23)).astype(numpy.float64) / (1 << 23)


def value_of(name, shape):
    """Of a parameter or buffer by its name in state_dict(), in the order of files; float32 values."""
    u = units(name, int(numpy.prod(shape)))
    last = name.rsplit(".", 1)[-1]
    if len(shape) > 1:  # Kaiming uniform
        u = u * numpy.sqrt(6.0 / numpy.prod(shape[1:]))
    elif last == "weight":
        u = 1 + 0.25 * u
    elif last == "running_var":
        u = 1 + 0.5 * u
    else:
        u = 0.125 * u
    return torch.from_numpy(u.astype(numpy.float32).reshape(shape).astype(numpy.float64))


def fill(model):
    """Sets every parameter and buffer of the model (float64)."""
    state = model.state_dict()
    for name, value in state.items():
        if not name.endswith("num_batches_tracked"):
            value.copy_(value_of(name, tuple(value.shape)))


def pictures(name, batch, size):
    """[N, 3, H, W]; the hash counts in memory order, [N, H, W, 3]."""
    u = units(name, batch * size * size * 3).reshape(batch, size, size, 3)
    return torch.from_numpy(u.astype(numpy.float32).astype(numpy.float64)).permute(0, 3, 1, 2)


def labels(name, batch, classes):
    return torch.from_numpy(((units(name, batch) + 1) / 2 * classes).astype(numpy.int64))
