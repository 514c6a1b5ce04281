# SPDX-License-Identifier: Apache-2.0
"""ONNX's operators that are a row of ops here: norms of a tensor, functions made of others, casts."""

import numpy as np
import onnx

from .case import PLAIN, NotApplied
from .tensors import listed


def row(case, node, *steps):
    """Steps (op, attrs) one after the other on the first input."""
    value = case.plain(node.inputs[0])
    for i, (op, attrs) in enumerate(steps):
        last = i + 1 == len(steps)
        value = case.step(op, [value], attrs, [(node.outputs[0], PLAIN)] if last else ())[0]


def reduction(*ops):
    """A row of functions; "sum" stands for the sum over the node's axes."""

    def convert(case, node):
        node.allow("axes", "keepdims", "noop_with_empty_axes")
        axes = listed(case, node, "axes", 1) or []
        if not axes and node.attr("noop_with_empty_axes", 0):
            raise NotApplied("no axes are reduced")
        case.sums(np.prod(case.shape(node.inputs[0])))
        attrs = {"axes": axes, "keepdims": bool(node.attr("keepdims", 1))}
        row(case, node, *[(op, attrs if op == "sum" else {}) for op in ops])

    return convert


def mean(case, node):
    node.allow("consumed_inputs")
    total = case.plain(node.inputs[0])
    for name in node.inputs[1:]:
        total = case.step("add", [total, case.plain(name)])[0]
    scale = {"scale": 1.0 / len(node.inputs), "shift": 0.0}
    case.step("affine", [total], scale, [(node.outputs[0], PLAIN)])


def swish(case, node):
    node.allow("alpha")
    alpha = float(node.attr("alpha", 1.0))
    x = case.plain(node.inputs[0])
    if alpha == 1:
        case.step("silu", [x], {}, [(node.outputs[0], PLAIN)])
        return
    inner = case.step("sigmoid", [case.step("affine", [x], {"scale": alpha, "shift": 0.0})[0]])[0]
    case.step("mul", [x, inner], {}, [(node.outputs[0], PLAIN)])


def shrink(case, node):
    node.allow("bias", "lambd")
    bias, limit = float(node.attr("bias", 0.0)), float(node.attr("lambd", 0.5))
    if bias not in (0.0, limit):
        raise NotApplied("a shift other than the limit")
    row(case, node, ("hardshrink" if bias == 0 else "softshrink", {"alpha": limit}))


def lp_normalization(case, node):
    node.allow("axis", "p")
    axis, x = node.attr("axis", -1), case.plain(node.inputs[0])
    case.sums(case.shape(node.inputs[0])[axis])
    if (case.array(node.inputs[0]) == 0).all(axis).any():
        raise NotApplied("a norm of 0, by which nothing is divided")
    size = case.step("square" if node.attr("p", 2) == 2 else "abs", [x])[0]
    size = case.step("sum", [size], {"axes": [axis], "keepdims": True})[0]
    if node.attr("p", 2) == 2:
        size = case.step("sqrt", [size])[0]
    case.step("div", [x, size], {}, [(node.outputs[0], PLAIN)])


def mean_variance(case, node):
    node.allow("axes")
    axes, x = {"axes": list(node.attr("axes", [0, 2, 3])), "keepdims": True}, case.plain(node.inputs[0])
    case.sums(np.prod(case.shape(node.inputs[0])))
    centred = case.step("sub", [x, case.step("mean", [x], axes)[0]])[0]
    deviation = case.step("sqrt", [case.step("mean", [case.step("square", [centred])[0]], axes)[0]])[0]
    deviation = case.step("affine", [deviation], {"scale": 1.0, "shift": 1e-9})[0]
    case.step("div", [centred, deviation], {}, [(node.outputs[0], PLAIN)])


def global_max_pool(case, node):
    node.allow()
    axes = list(range(2, len(case.shape(node.inputs[0]))))
    row(case, node, ("amax", {"axes": axes, "keepdims": True}))


def logical_not(case, node):
    node.allow()
    x = case.plain(node.inputs[0], integers=True)
    case.step("logical_xor", [x, case.feed(np.array(True), integers=True)], {}, [(node.outputs[0], PLAIN)])


def expand(case, node):
    """The tensor and zeros of the shape that both broadcast to."""
    node.allow()
    shape = [int(d) for d in case.array(node.inputs[1])]
    inputs = [case.plain(node.inputs[0]), case.feed(np.zeros(shape, np.float32))]
    case.step("add", inputs, {}, [(node.outputs[0], PLAIN)])


def hyperbolic(sign):
    """(exp(x) + sign exp(-x)) / 2"""

    def convert(case, node):
        node.allow()
        x = case.plain(node.inputs[0])
        up, down = case.step("exp", [x])[0], case.step("exp", [case.step("neg", [x])[0]])[0]
        both = case.step("add" if sign > 0 else "sub", [up, down])[0]
        case.step("affine", [both], {"scale": 0.5, "shift": 0.0}, [(node.outputs[0], PLAIN)])

    return convert


def tangent(case, node):
    node.allow()
    x = case.plain(node.inputs[0])
    case.step("div", [case.step("sin", [x])[0], case.step("cos", [x])[0]], {}, [(node.outputs[0], PLAIN)])


FLOATS = {
    onnx.TensorProto.FLOAT: "fp32",
    onnx.TensorProto.FLOAT16: "fp16",
    onnx.TensorProto.BFLOAT16: "bf16",
}


def cast(case, node):
    node.allow("to", "saturate", "round_mode")
    to = node.attr("to")
    if to not in FLOATS:
        raise NotApplied("a cast to what is no float of 16 or 32 bits")
    row(case, node, ("cast", {"dtype": FLOATS[to]}))


def cast_like(case, node):
    node.allow("saturate", "round_mode")
    kinds = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}
    kind = str(case.array(node.inputs[1]).dtype)
    if kind not in kinds:
        raise NotApplied("a cast to what is no float of 16 or 32 bits")
    row(case, node, ("cast", {"dtype": kinds[kind]}))


CONVERTERS = {
    "Cast": cast,
    "CastLike": cast_like,
    "Cosh": hyperbolic(1),
    "Expand": expand,
    "GlobalMaxPool": global_max_pool,
    "LpNormalization": lp_normalization,
    "Mean": mean,
    "MeanVarianceNormalization": mean_variance,
    "Not": logical_not,
    "ReduceL1": reduction("abs", "sum"),
    "ReduceL2": reduction("square", "sum", "sqrt"),
    "ReduceLogSum": reduction("sum", "log"),
    "ReduceLogSumExp": reduction("exp", "sum", "log"),
    "ReduceSumSquare": reduction("square", "sum"),
    "Shrink": shrink,
    "Sinh": hyperbolic(-1),
    "Swish": swish,
    "Tan": tangent,
}
