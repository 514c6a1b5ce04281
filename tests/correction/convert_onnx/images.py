# SPDX-License-Identifier: Apache-2.0
"""ONNX's operators on images: convolution, pooling, batch norm. 1d ones are images of height 1."""

import math

import numpy as np

from .case import IMAGE, PLAIN, NotApplied

WINDOW = ("kernel_shape", "strides", "pads", "dilations", "auto_pad")


def spatial(case, name):
    """[H, W] of an image."""
    shape = case.shape(name)[2:]
    return [1, *shape] if len(shape) == 1 else shape


def pair(values, axes, fill):
    values = list(values) if values is not None else [fill] * axes
    if len(values) > 2:
        raise NotApplied(f"{len(values)} spatial axes")
    return [fill] * (2 - len(values)) + [int(v) for v in values]


def same_pads(kernel, stride, dilation, size, upper):
    """Pads of SAME_UPPER and SAME_LOWER: begin and end of an axis."""
    reach = (kernel - 1) * dilation + 1
    total = max(0, (math.ceil(size / stride) - 1) * stride + reach - size)
    less, more = total // 2, total - total // 2
    return (less, more) if upper else (more, less)


def window(case, node, kernel):
    """kernel, stride, padding and dilation of a node, where both sides of an axis are padded alike."""
    axes = len(kernel)
    if axes > 2:
        raise NotApplied(f"{axes} spatial axes")
    stride = pair(node.attr("strides"), axes, 1)
    dilation = pair(node.attr("dilations"), axes, 1)
    kernel = pair(kernel, axes, 1)
    pads = node.attr("pads") or [0] * (2 * axes)
    begin, end = pair(pads[:axes], axes, 0), pair(pads[axes:], axes, 0)
    auto = node.attr("auto_pad", "NOTSET")
    if auto.startswith("SAME"):
        axes_of = zip(kernel, stride, dilation, spatial(case, node.inputs[0]))
        sides = [same_pads(*axis, auto == "SAME_UPPER") for axis in axes_of]
        begin, end = [a for a, _ in sides], [b for _, b in sides]
    if begin != end:
        raise NotApplied("padding that differs between the two sides of an axis")
    return kernel, stride, begin, dilation


def conv(case, node):
    node.allow(*WINDOW, "group")
    weight = case.array(node.inputs[1])
    kernel, stride, padding, dilation = window(case, node, weight.shape[2:])
    groups = node.attr("group", 1)
    w = weight.reshape(*weight.shape[:2], *kernel).transpose(0, 2, 3, 1)
    inputs = [case.image(node.inputs[0]), case.feed(w)]
    bias = len(node.inputs) > 2 and node.inputs[2] != ""
    if bias:
        inputs.append(case.plain(node.inputs[2]))
    attrs = {
        "out_channels": int(weight.shape[0]),
        "kernel": kernel,
        "stride": stride,
        "padding": padding,
        "dilation": dilation,
        "groups": groups,
        "bias": bias,
    }
    case.sums(np.prod(weight.shape[1:]))
    case.step("conv", inputs, attrs, [(node.outputs[0], IMAGE)])


def pool(case, node, op, extra):
    kernel, stride, padding, dilation = window(case, node, node.attr("kernel_shape"))
    if dilation != [1, 1]:
        raise NotApplied("windows of pooling with dilation")
    if any(2 * p > k for p, k in zip(padding, kernel)):
        raise NotApplied("padding of more than half the window")
    attrs = {
        "kernel": kernel,
        "stride": stride,
        "padding": padding,
        "ceil_mode": bool(node.attr("ceil_mode", 0)),
        **extra,
    }
    if op == "avgpool":
        case.sums(np.prod(kernel))
    case.step(op, [case.image(node.inputs[0])], attrs, [(node.outputs[0], IMAGE)])


def max_pool(case, node):
    node.allow(*WINDOW, "ceil_mode", "storage_order")
    if len(node.outputs) > 1 and node.outputs[1]:
        raise NotApplied("the places of the maxima as numbers in the whole tensor")
    pool(case, node, "maxpool", {})


def average_pool(case, node):
    node.allow(*WINDOW, "ceil_mode", "count_include_pad")
    pool(case, node, "avgpool", {"count_include_pad": bool(node.attr("count_include_pad", 0))})


def global_average_pool(case, node):
    """gap gives [N, C]; ONNX keeps the axes: an adaptive pooling to one cell."""
    x = node.inputs[0]
    case.sums(np.prod(spatial(case, x)))
    attrs = {"size": [1, 1]}
    case.step("adaptive_avgpool", [case.image(x)], attrs, [(node.outputs[0], IMAGE)])


def batch_norm(case, node):
    node.allow("epsilon", "momentum", "training_mode", "spatial", "is_test", "consumed_inputs")
    x = node.inputs[0]
    layout = PLAIN if len(case.shape(x)) == 2 else IMAGE
    training = bool(node.attr("training_mode", 0)) or (node.opset < 7 and not node.attr("is_test", 0))
    inputs = [case.image(x) if layout == IMAGE else case.plain(x)]
    inputs += [case.plain(name) for name in node.inputs[1:5]]
    # ONNX: running = running * momentum + new * (1 - momentum), with the biased variance.
    attrs = {"momentum": 1.0 - node.attr("momentum", 0.9), "eps": float(node.attr("epsilon", 1e-5))}
    if training:
        if len(node.outputs) > 2:
            raise NotApplied("the running variance is the unbiased one here, as in PyTorch")
        case.sums(np.prod(case.shape(x)))
    op = "bn" if training else "bn_eval"
    case.step(op, inputs, attrs, [(node.outputs[0], layout)])


CONVERTERS = {
    "AveragePool": average_pool,
    "BatchNormalization": batch_norm,
    "Conv": conv,
    "GlobalAveragePool": global_average_pool,
    "MaxPool": max_pool,
}
