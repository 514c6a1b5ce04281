# SPDX-License-Identifier: Apache-2.0
"""ONNX's optimizers (ai.onnx.preview.training): a step of ours for each tensor, over a range of its own."""

import struct

import numpy as np

from .case import PLAIN, NotApplied

COUNTERS, UPDATES = 8, 2  # src/graph/step_tables.h
MANY_UPDATES = 10**9  # the corrections of Adam's first steps are 1 after so many


def _segment(count):
    """One row of the segment table: begin, count, parameter, group, scales, frozen, rows."""
    return np.frombuffer(struct.pack("<qqiiffii", 0, count, 0, 0, 1.0, 1.0, 0, 0), np.uint8)


def _steps(case, node, op, num_moments, attrs, updates, decay):
    rate, count = case.array(node.inputs[0]), case.array(node.inputs[1])
    state = node.inputs[2:]
    number = len(state) // (2 + num_moments)
    counters = np.zeros(COUNTERS, np.int64)
    counters[UPDATES] = updates(int(count))
    for i in range(number):
        x, g, *moments = state[i::number]
        array = case.array(x)
        if array.ndim != 1:
            raise NotApplied("a tensor of more than one axis")
        row = np.array([[1, 0, rate, decay, 0, 0]], np.float32)
        inputs = [
            case.feed(array),
            case.feed(case.array(g)),
            case.feed(_segment(array.size), integers=True),
            case.feed(row),
            case.feed(counters, integers=True),
            case.feed(np.float32(1)),
            case.feed(np.int32(0), integers=True),
            case.feed(np.float32(0)),
            *[case.feed(case.array(moment)) for moment in moments],
        ]
        outputs = [(name, PLAIN) for name in node.outputs[i::number]]
        case.step(op, inputs, attrs, outputs)


def adagrad(case, node):
    node.allow("decay_factor", "epsilon", "norm_coefficient")
    attrs = {
        "lr_decay": float(node.attr("decay_factor", 0.0)),
        "eps": float(node.attr("epsilon", 1e-6)),
    }
    _steps(case, node, "adagrad", 1, attrs, lambda count: count, node.attr("norm_coefficient", 0.0))


def _without_corrections(count):
    if count > 0:
        raise NotApplied("Adam's corrections by the number of steps before")
    return MANY_UPDATES


def adam(case, node):
    node.allow("alpha", "beta", "epsilon", "norm_coefficient", "norm_coefficient_post")
    if node.attr("norm_coefficient_post", 0.0) != 0:
        raise NotApplied("decay after the step")
    attrs = {
        "beta1": float(node.attr("alpha", 0.9)),
        "beta2": float(node.attr("beta", 0.999)),
        "eps": float(node.attr("epsilon", 1e-6)),
    }
    decay = node.attr("norm_coefficient", 0.0)
    _steps(case, node, "adam", 2, attrs, _without_corrections, decay)


def _undamped(beta):
    def updates(count):
        if count > 0 and beta != 1:
            raise NotApplied("damping of the gradient")
        return count

    return updates


def momentum(case, node):
    node.allow("alpha", "beta", "mode", "norm_coefficient")
    attrs = {"momentum": float(node.attr("alpha")), "nesterov": node.attr("mode") == "nesterov"}
    decay = node.attr("norm_coefficient", 0.0)
    _steps(case, node, "sgd", 1, attrs, _undamped(node.attr("beta")), decay)


CONVERTERS = {"Adagrad": adagrad, "Adam": adam, "Momentum": momentum}
