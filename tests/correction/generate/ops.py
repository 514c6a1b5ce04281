# SPDX-License-Identifier: Apache-2.0
"""Goldens of single ops: inputs, outputs, an output gradient dy and the input gradients for it."""

import torch
import torch.nn.functional as F

from generate.writer import as_float32_values, uniform

# Our op names and the functions of PyTorch that they must equal; a number is the attribute's value.
ACTIVATIONS = {
    "relu": F.relu,
    "relu6": F.relu6,
    "leaky_relu": lambda x: F.leaky_relu(x, 0.01),
    "leaky_relu_0.2": lambda x: F.leaky_relu(x, 0.2),
    "elu": F.elu,
    "elu_0.5": lambda x: F.elu(x, 0.5),
    "celu": F.celu,
    "celu_0.7": lambda x: F.celu(x, 0.7),
    "selu": F.selu,
    "sigmoid": torch.sigmoid,
    "log_sigmoid": F.logsigmoid,
    "tanh": torch.tanh,
    "tanhshrink": F.tanhshrink,
    "silu": F.silu,
    "mish": F.mish,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "softplus": F.softplus,
    "softplus_2": lambda x: F.softplus(x, beta=2),
    "softsign": F.softsign,
    "hardtanh": F.hardtanh,
    "hardsigmoid": F.hardsigmoid,
    "hardswish": F.hardswish,
    "hardshrink": F.hardshrink,
    "hardshrink_0.3": lambda x: F.hardshrink(x, 0.3),
    "softshrink": F.softshrink,
    "softshrink_0.8": lambda x: F.softshrink(x, 0.8),
    "exp": torch.exp,
    "abs": torch.abs,
    "square": torch.square,
    "neg": torch.neg,
}

# Kinks and saturation points, where conventions show: gradients there are PyTorch's choice.
SPECIAL = [
    0.0,
    -0.0,
    1e-6,
    -1e-6,
    0.5,
    -0.5,
    1.0,
    -1.0,
    3.0,
    -3.0,
    2.5,
    -2.5,
    6.0,
    -6.0,
    12.0,
    -12.0,
    20.0,
    -20.0,
    30.0,
    -30.0,
    1e-20,
    -1e-20,
]


def _gradients(outputs, dy, inputs):
    return torch.autograd.grad(outputs, inputs, dy)


def activations(writer, generator):
    special = as_float32_values(torch.tensor(SPECIAL, dtype=torch.float64))
    for name, function in ACTIVATIONS.items():
        x = torch.cat([special, uniform(generator, 107, low=-5, high=5)]).requires_grad_()
        y = function(x)
        dy = uniform(generator, *x.shape)
        (dx,) = _gradients(y, dy, [x])
        writer.save(f"activation_{name}", {"x": x, "y": y, "dy": dy, "dx": dx})


def fc(writer, generator):
    cases = {
        "1x1x1": ([1], 1, 1),
        "7x33x5": ([7], 33, 5),
        "19x67x35": ([19], 67, 35),
        "1x130x3": ([1], 130, 3),
        "2x3x17x9": ([2, 3], 17, 9),
    }
    for bias in (True, False):
        tensors = {}
        for name, (rows, features, outputs) in cases.items():
            x = uniform(generator, *rows, features).requires_grad_()
            weight = uniform(generator, outputs, features).requires_grad_()
            inputs = {"x": x, "weight": weight}
            if bias:
                inputs["bias"] = uniform(generator, outputs).requires_grad_()
            y = F.linear(x, weight, inputs.get("bias"))
            dy = uniform(generator, *y.shape)
            grads = _gradients(y, dy, list(inputs.values()))
            tensors.update({f"{name}.{key}": value for key, value in inputs.items()})
            tensors.update({f"{name}.d{key}": grad for key, grad in zip(inputs, grads)})
            tensors.update({f"{name}.y": y, f"{name}.dy": dy})
        writer.save("fc_bias" if bias else "fc_no_bias", tensors)


def add(writer, generator):
    cases = {
        "same": ([4, 5], [4, 5]),
        "row": ([4, 5], [5]),
        "column": ([4, 5], [4, 1]),
        "middle": ([2, 3, 4], [3, 1]),
        "one": ([2, 3, 4], [1]),
        "outer": ([3, 1, 7], [3, 1, 7]),
    }
    tensors = {}
    for name, (shape_a, shape_b) in cases.items():
        a = uniform(generator, *shape_a).requires_grad_()
        b = uniform(generator, *shape_b).requires_grad_()
        y = a + b
        dy = uniform(generator, *y.shape)
        da, db = _gradients(y, dy, [a, b])
        tensors.update(
            {
                f"{name}.{key}": value
                for key, value in {"a": a, "b": b, "y": y, "dy": dy, "da": da, "db": db}.items()
            }
        )
    writer.save("add", tensors)


def concat(writer, generator):
    cases = {
        "last": (1, [[5, 3], [5, 4]]),
        "three": (1, [[2, 1], [2, 7], [2, 2]]),
        "middle": (1, [[2, 3, 4], [2, 1, 4]]),
        "image": (3, [[2, 3, 3, 2], [2, 3, 3, 5]]),
    }
    tensors = {}
    for name, (axis, shapes) in cases.items():
        parts = [uniform(generator, *shape).requires_grad_() for shape in shapes]
        y = torch.cat(parts, axis)
        dy = uniform(generator, *y.shape)
        grads = _gradients(y, dy, parts)
        for i, (part, grad) in enumerate(zip(parts, grads)):
            tensors[f"{name}.x{i}"], tensors[f"{name}.dx{i}"] = part, grad
        tensors.update({f"{name}.y": y, f"{name}.dy": dy})
    writer.save("concat", tensors)


def log_softmax(writer, generator):
    cases = {
        "typical": uniform(generator, 9, 11, low=-4, high=4),
        "one_class": uniform(generator, 3, 1),
        "wide": uniform(generator, 5, 130, low=-10, high=10),
        "extreme": uniform(generator, 6, 7, low=-1e4, high=1e4),
    }
    tensors = {}
    for name, x in cases.items():
        x.requires_grad_()
        y = F.log_softmax(x, -1)
        dy = uniform(generator, *x.shape)
        (dx,) = _gradients(y, dy, [x])
        tensors.update({f"{name}.x": x, f"{name}.y": y, f"{name}.dy": dy, f"{name}.dx": dx})
    writer.save("log_softmax", tensors)


def cross_entropy(writer, generator):
    """loss_sum and dx of the sum over samples; cases kind.smoothing, kinds hard, soft, extreme."""
    tensors = {}
    for smoothing in (0.0, 0.1, 1.0):
        for kind in ("hard", "soft", "extreme"):
            name, (rows, classes) = f"{kind}.{smoothing:g}", (9, 11)
            span = 60.0 if kind == "extreme" else 4.0
            x = uniform(generator, rows, classes, low=-span, high=span).requires_grad_()
            if kind == "soft":
                labels = as_float32_values(torch.softmax(2 * uniform(generator, rows, classes), -1))
            else:
                labels = torch.randint(0, classes, (rows,), generator=generator)
            loss = F.cross_entropy(x, labels, label_smoothing=smoothing, reduction="sum")
            (dx,) = torch.autograd.grad(loss, [x])
            stored = labels if kind == "soft" else labels.to(torch.int32)
            tensors.update(
                {
                    f"{name}.x": x,
                    f"{name}.labels": stored,
                    f"{name}.loss_sum": loss,
                    f"{name}.dx": dx,
                }
            )
    writer.save("cross_entropy", tensors)


def regression(writer, generator):
    """mse and bce_with_logits: the sum over samples of the mean over a sample's elements."""
    for name, function in (
        ("mse", F.mse_loss),
        ("bce_with_logits", F.binary_cross_entropy_with_logits),
    ):
        tensors = {}
        for case, shape in {"vector": (7,), "matrix": (7, 5), "map": (3, 4, 4, 2)}.items():
            y = uniform(generator, *shape, low=-6, high=6).requires_grad_()
            target = uniform(
                generator, *shape, low=0 if name != "mse" else -6, high=1 if name != "mse" else 6
            )
            loss = function(y, target) * shape[0]
            (dy,) = torch.autograd.grad(loss, [y])
            tensors.update(
                {
                    f"{case}.x": y,
                    f"{case}.target": target,
                    f"{case}.loss_sum": loss,
                    f"{case}.dx": dy,
                }
            )
        writer.save(name, tensors)


def topk(writer, generator):
    """Label within the best 1 and 5; of equal scores the lower class wins (a stable sort)."""
    tensors = {}
    for case, (rows, classes) in {"typical": (41, 10), "few": (13, 3), "many": (17, 130)}.items():
        x = torch.round(uniform(generator, rows, classes, low=-3, high=3) * 2) / 2  # many ties
        labels = torch.randint(0, classes, (rows,), generator=generator)
        order = torch.argsort(x, dim=-1, descending=True, stable=True)
        correct = [int((order[:, :k] == labels[:, None]).any(-1).sum()) for k in (1, 5)]
        tensors.update(
            {
                f"{case}.x": x,
                f"{case}.labels": labels.to(torch.int32),
                f"{case}.correct": torch.tensor(correct, dtype=torch.int32),
            }
        )
    writer.save("topk_correct", tensors)


def write(writer, generator):
    for part in (activations, fc, add, concat, log_softmax, cross_entropy, regression, topk):
        part(writer, generator)
