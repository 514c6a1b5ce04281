# SPDX-License-Identifier: Apache-2.0
"""ONNX's operators that keep or join shapes: elementwise functions, sums, products with a matrix."""

import numpy as np

from .case import IMAGE, PLAIN, NotApplied


def function(op, attribute=None, default=None):
    """An elementwise function; `attribute` of ONNX is alpha here."""

    def convert(case, node):
        node.allow(*([attribute] if attribute else []), "consumed_inputs")
        x = node.inputs[0]
        attrs = {"alpha": float(node.attr(attribute, default))} if attribute else {}
        case.step(op, [case.value(x)], attrs, [(node.outputs[0], case.layout(x))])

    return convert


def selu(case, node):
    node.allow("alpha", "gamma")
    alpha, gamma = node.attr("alpha", 1.67326319), node.attr("gamma", 1.05070102)
    if abs(alpha - 1.67326319) > 1e-6 or abs(gamma - 1.05070102) > 1e-6:
        raise NotApplied("constants of selu other than those of its article")
    x = node.inputs[0]
    case.step("selu", [case.value(x)], {}, [(node.outputs[0], case.layout(x))])


def gelu(case, node):
    node.allow("approximate")
    op = "gelu_tanh" if node.attr("approximate", "none") == "tanh" else "gelu"
    x = node.inputs[0]
    case.step(op, [case.value(x)], {}, [(node.outputs[0], case.layout(x))])


def identity(case, node):
    node.allow()
    x = node.inputs[0]
    case.alias(node.outputs[0], case.value(x), case.layout(x))


def constant(case, node):
    node.allow("value")
    import onnx

    array = onnx.numpy_helper.to_array(node.attr("value"))
    case.known[node.outputs[0]] = array
    case.shapes[node.outputs[0]] = list(array.shape)


def arithmetic(op, commutes):
    """y = a op b, where b is broadcast to a."""

    def convert(case, node):
        node.allow("broadcast")  # before opset 7: allowed at all
        a, b = node.inputs
        small, large = case.shape(b), case.shape(a)
        if len(small) > len(large) or np.prod(small) > np.prod(large):
            if not commutes:
                raise NotApplied("an operation whose left side is broadcast")
            a, b, small, large = b, a, large, small
        if list(np.broadcast_shapes(small, large)) != large:
            raise NotApplied("two sides that are both broadcast")
        layout = case.layout(a, b)
        if layout == IMAGE and small != large:
            raise NotApplied("broadcasting to an image between layouts")
        inputs = [case.value(a, layout), case.value(b, layout)]
        case.step(op, inputs, {}, [(node.outputs[0], layout)])

    return convert


def concat(case, node):
    node.allow("axis")
    rank = len(case.shape(node.inputs[0]))
    axis = node.attr("axis") % rank
    if axis == 0:
        raise NotApplied("concatenation along the batch")
    layout = case.layout(*node.inputs)
    inputs = [case.value(name, layout) for name in node.inputs]
    if layout == IMAGE:
        axis = {1: 3, 2: 1, 3: 2}[axis]
    case.step("concat", inputs, {"axis": axis}, [(node.outputs[0], layout)])


def flatten(case, node):
    node.allow("axis")
    rank = len(case.shape(node.inputs[0]))
    if node.attr("axis", 1) % rank != 1 or rank < 2:
        raise NotApplied("flattening from another axis than the second")
    case.step("flatten", [case.plain(node.inputs[0])], {}, [(node.outputs[0], PLAIN)])


def gemm(case, node):
    """fc: x W^T + b."""
    node.allow("alpha", "beta", "transA", "transB", "broadcast")
    bias = len(node.inputs) > 2 and node.inputs[2] != ""
    if node.attr("transA", 0):
        raise NotApplied("a transposed left side of a product")
    if node.attr("alpha", 1.0) != 1.0 or (bias and node.attr("beta", 1.0) != 1.0):
        raise NotApplied("factors of a product")
    weight = case.array(node.inputs[1])
    weight = weight if node.attr("transB", 0) else weight.T
    inputs = [case.plain(node.inputs[0]), case.feed(weight)]
    if bias:
        b = case.array(node.inputs[2])
        if b.size not in (1, weight.shape[0]) or (b.ndim == 2 and b.shape[0] != 1):
            raise NotApplied("a bias for each sample")
        inputs.append(case.feed(np.broadcast_to(b.reshape(-1), weight.shape[:1])))
    attrs = {"out_features": int(weight.shape[0]), "bias": bias}
    case.sums(weight.shape[1])
    case.step("fc", inputs, attrs, [(node.outputs[0], PLAIN)])


def log_softmax(case, node):
    node.allow("axis")
    rank = len(case.shape(node.inputs[0]))
    axis = node.attr("axis", -1 if node.opset >= 13 else 1) % rank
    if axis != rank - 1 or rank != 2:
        raise NotApplied("another axis than the last of [N, C]")
    case.sums(case.shape(node.inputs[0])[-1])
    case.step("log_softmax", [case.plain(node.inputs[0])], {}, [(node.outputs[0], PLAIN)])


CONVERTERS = {
    "Abs": function("abs"),
    "Add": arithmetic("add", commutes=True),
    "Celu": function("celu", "alpha", 1.0),
    "Concat": concat,
    "Constant": constant,
    "Elu": function("elu", "alpha", 1.0),
    "Exp": function("exp"),
    "Flatten": flatten,
    "Gelu": gelu,
    "Gemm": gemm,
    "HardSwish": function("hardswish"),
    "Identity": identity,
    "LeakyRelu": function("leaky_relu", "alpha", 0.01),
    "LogSoftmax": log_softmax,
    "Mish": function("mish"),
    "Mul": arithmetic("mul", commutes=True),
    "Neg": function("neg"),
    "Relu": function("relu"),
    "Selu": selu,
    "Sigmoid": function("sigmoid"),
    "Softplus": function("softplus"),
    "Softsign": function("softsign"),
    "Tanh": function("tanh"),
}
