# SPDX-License-Identifier: Apache-2.0
"""ONNX's operators on whole tensors: arithmetic that broadcasts, comparisons, reductions, shapes, products, norms."""

import numpy as np

from .case import IMAGE, PLAIN, NotApplied
from .maps import function


def plain_step(case, node, op, inputs, attrs=None, **kinds):
    names = [case.plain(name, **kinds) for name in inputs]
    return case.step(op, names, attrs or {}, [(node.outputs[0], PLAIN)])


def arithmetic(op):
    def convert(case, node):
        node.allow("broadcast")  # before opset 7: allowed at all
        a, b = node.inputs
        layout = case.layout(a, b)
        if layout == IMAGE and case.shape(a) != case.shape(b):
            raise NotApplied("broadcasting to an image between layouts")
        inputs = [case.value(a, layout), case.value(b, layout)]
        case.step(op, inputs, {}, [(node.outputs[0], layout)])

    return convert


def many(op):
    """Min, Max, Sum of any number of inputs: one after the other."""

    def convert(case, node):
        node.allow("consumed_inputs")
        result = case.plain(node.inputs[0])
        if len(node.inputs) == 1:
            raise NotApplied("no step is left")
        for i, name in enumerate(node.inputs[1:]):
            last = i + 2 == len(node.inputs)
            outputs = [(node.outputs[0], PLAIN)] if last else ()
            result = case.step(op, [result, case.plain(name)], {}, outputs)[0]

    return convert


def comparison(op):
    def convert(case, node):
        node.allow("broadcast", "axis")
        if node.attr("axis") is not None:
            raise NotApplied("the attribute axis")
        for name in node.inputs:
            if name in case.known and str(case.known[name].dtype) not in ("bool", "int32", "int64", "float32", "float16"):
                raise NotApplied(f"elements of {case.known[name].dtype}")
        plain_step(case, node, op, node.inputs, integers=True)

    return convert


def where(case, node):
    node.allow()
    inputs = [case.plain(node.inputs[0], integers=True)]
    inputs += [case.plain(name, integers=True) for name in node.inputs[1:]]
    case.step("where", inputs, {}, [(node.outputs[0], PLAIN)])


def clip(case, node):
    node.allow("min", "max", "consumed_inputs")
    attrs = {}
    for i, key in enumerate(("min", "max"), start=1):
        value = node.attr(key)
        if len(node.inputs) > i and node.inputs[i]:
            value = case.array(node.inputs[i])
            if not np.issubdtype(value.dtype, np.floating):
                raise NotApplied(f"elements of {value.dtype}")
        if value is not None:
            attrs[key] = float(np.asarray(value).reshape(()))
    if attrs.get("min", -np.inf) > attrs.get("max", np.inf):
        attrs["min"] = attrs["max"]  # the largest bound is applied last
    plain_step(case, node, "clamp", node.inputs[:1], attrs)


def hard_sigmoid(case, node):
    node.allow("alpha", "beta", "consumed_inputs")
    slope = {"scale": float(node.attr("alpha", 0.2)), "shift": float(node.attr("beta", 0.5))}
    inner = case.step("affine", [case.plain(node.inputs[0])], slope)[0]
    case.step("clamp", [inner], {"min": 0.0, "max": 1.0}, [(node.outputs[0], PLAIN)])


def thresholded_relu(case, node):
    node.allow("alpha")
    attrs = {"threshold": float(node.attr("alpha", 1.0)), "value": 0.0}
    plain_step(case, node, "threshold", node.inputs, attrs)


def prelu(case, node):
    node.allow("consumed_inputs")
    x, slope = case.shape(node.inputs[0]), case.shape(node.inputs[1])
    if len(slope) > len(x) or any(s not in (1, d) for s, d in zip(slope[::-1], x[::-1])):
        raise NotApplied("a slope for each channel of [N, C, ...]")
    plain_step(case, node, "prelu", node.inputs)


def trilu(case, node):
    node.allow("upper")
    if not np.issubdtype(case.array(node.inputs[0]).dtype, np.floating):
        raise NotApplied(f"elements of {case.array(node.inputs[0]).dtype}")
    diagonal = int(case.array(node.inputs[1]).reshape(())) if len(node.inputs) > 1 and node.inputs[1] else 0
    plain_step(case, node, "triu" if node.attr("upper", 1) else "tril", node.inputs[:1], {"diagonal": diagonal})


def listed(case, node, key, place):
    """Integers given as an attribute, or as an input that is known."""
    value = node.attr(key)
    if len(node.inputs) > place and node.inputs[place]:
        value = case.array(node.inputs[place]).reshape(-1)
    return None if value is None else [int(v) for v in value]


def reduction(op):
    def convert(case, node):
        node.allow("axes", "keepdims", "noop_with_empty_axes")
        axes = listed(case, node, "axes", 1) or []
        if not axes and node.attr("noop_with_empty_axes", 0):
            raise NotApplied("no step is left")
        shape = case.shape(node.inputs[0])
        if 0 in shape and op in ("amax", "amin", "mean"):
            raise NotApplied("the largest, smallest or mean of no numbers")
        case.sums(np.prod(shape))
        attrs = {"axes": axes, "keepdims": bool(node.attr("keepdims", 1))}
        plain_step(case, node, op, node.inputs[:1], attrs)

    return convert


def reshaped(case, node, shape):
    case.step("reshape", [case.plain(node.inputs[0], integers=True)], {"shape": [int(d) for d in shape]},
              [(node.outputs[0], PLAIN)])


def reshape(case, node):
    node.allow("shape", "allowzero", "consumed_inputs")
    shape = listed(case, node, "shape", 1)
    own = case.shape(node.inputs[0])
    if not node.attr("allowzero", 0):
        shape = [own[i] if d == 0 else d for i, d in enumerate(shape)]
    reshaped(case, node, shape)


def squeeze(case, node):
    node.allow("axes")
    own = case.shape(node.inputs[0])
    axes = listed(case, node, "axes", 1)
    gone = {a % len(own) for a in axes} if axes is not None else {i for i, d in enumerate(own) if d == 1}
    reshaped(case, node, [d for i, d in enumerate(own) if i not in gone])


def unsqueeze(case, node):
    node.allow("axes")
    own, axes = case.shape(node.inputs[0]), listed(case, node, "axes", 1)
    rank = len(own) + len(axes)
    new, rest = {a % rank for a in axes}, iter(own)
    reshaped(case, node, [1 if i in new else next(rest) for i in range(rank)])


def transpose(case, node):
    node.allow("perm")
    axes = node.attr("perm") or list(range(len(case.shape(node.inputs[0]))))[::-1]
    case.step("permute", [case.plain(node.inputs[0], integers=True)], {"axes": [int(a) for a in axes]},
              [(node.outputs[0], PLAIN)])


def slice_(case, node):
    node.allow("axes", "starts", "ends")
    starts, ends = listed(case, node, "starts", 1), listed(case, node, "ends", 2)
    axes = listed(case, node, "axes", 3) or list(range(len(starts)))
    steps = listed(case, node, "steps", 4) or [1] * len(starts)
    attrs = {"axes": axes, "starts": starts, "ends": ends, "steps": steps}
    case.step("slice", [case.plain(node.inputs[0], integers=True)], attrs, [(node.outputs[0], PLAIN)])


def split(case, node):
    node.allow("axis", "split", "num_outputs")
    x, axis = node.inputs[0], node.attr("axis", 0)
    length = case.shape(x)[axis]
    lengths = listed(case, node, "split", 1)
    if lengths is None:
        each = -(-length // len(node.outputs))
        lengths = [min(each, length - i * each) for i in range(len(node.outputs))]
    here, begin = case.plain(x, integers=True), 0
    for name, count in zip(node.outputs, lengths):
        attrs = {"axes": [axis], "starts": [begin], "ends": [begin + count], "steps": [1]}
        case.step("slice", [here], attrs, [(name, PLAIN)])
        begin += count


def positive(index, length):
    return np.where(index < 0, index + length, index)


def gather_elements(case, node):
    node.allow("axis")
    axis = node.attr("axis", 0)
    own, index = case.shape(node.inputs[0]), case.array(node.inputs[1])
    if [d for i, d in enumerate(own) if i != axis % len(own)] != [d for i, d in enumerate(index.shape) if i != axis % len(own)]:
        raise NotApplied("an index that is shorter than x on another axis")
    inputs = [case.plain(node.inputs[0]), case.feed(positive(index, own[axis]), integers=True)]
    case.step("gather", inputs, {"axis": axis}, [(node.outputs[0], PLAIN)])


def gather(case, node):
    """Rows of a matrix: a table and its numbers."""
    node.allow("axis")
    own, index = case.shape(node.inputs[0]), case.array(node.inputs[1])
    if node.attr("axis", 0) % len(own) != 0:
        raise NotApplied("another axis than the first")
    table = case.plain(node.inputs[0])
    if len(own) != 2:
        table = case.step("reshape", [table], {"shape": [own[0], int(np.prod(own[1:]))]})[0]
    rows = case.step("embedding", [case.feed(positive(index, own[0]), integers=True), table])[0]
    case.step("reshape", [rows], {"shape": [*index.shape, *own[1:]]}, [(node.outputs[0], PLAIN)])


def matmul(case, node):
    node.allow()
    if any(len(case.shape(name)) < 2 for name in node.inputs):
        raise NotApplied("a product with a vector")
    case.sums(case.shape(node.inputs[0])[-1])
    plain_step(case, node, "matmul", node.inputs)


def softmax(op):
    def convert(case, node):
        node.allow("axis")
        own = case.shape(node.inputs[0])
        axis = node.attr("axis", -1 if node.opset >= 13 else 1)
        if node.opset < 13 and axis % len(own) != len(own) - 1:
            raise NotApplied("axes that are flattened before softmax")
        case.sums(own[axis])
        plain_step(case, node, op, node.inputs, {"axis": axis})

    return convert


def layer_norm(case, node):
    node.allow("axis", "epsilon", "stash_type")
    own = case.shape(node.inputs[0])
    axes = len(own) - node.attr("axis", -1) % len(own)
    if axes == len(own):
        raise NotApplied("statistics over the batch")
    norm = own[len(own) - axes:]
    case.sums(np.prod(norm))
    inputs = [case.plain(node.inputs[0])]
    inputs += [case.feed(np.broadcast_to(case.array(name), norm)) for name in node.inputs[1:]]
    attrs = {"num_axes": axes, "eps": float(node.attr("epsilon", 1e-5))}
    if node.op == "LayerNormalization":
        attrs["bias"] = len(inputs) > 2
    op = "layer_norm" if node.op == "LayerNormalization" else "rms_norm"
    if sum(1 for name in node.outputs if name) > 1:
        outputs = [(node.outputs[0], PLAIN)]
        names = case.step(op, inputs, attrs, outputs + [("", PLAIN)] * 2)
        for name, here in zip(node.outputs[1:], names[1:]):
            shape = [*own[: len(own) - axes], *[1] * axes]
            case.step("reshape", [here], {"shape": shape}, [(name, PLAIN)])
        return
    case.step(op, inputs, attrs, [(node.outputs[0], PLAIN)])


def group_norm(case, node):
    """GroupNormalization from opset 21 on, and InstanceNormalization: as many groups as channels."""
    node.allow("epsilon", "num_groups", "stash_type", "consumed_inputs")
    x, weight, bias = node.inputs
    channels = case.shape(x)[1]
    groups = node.attr("num_groups", channels)
    weights = [case.array(weight), case.array(bias)]
    if any(w.shape != (channels,) for w in weights):
        raise NotApplied("a weight for each group")
    case.sums(np.prod(case.shape(x)))
    inputs = [case.image(x)] + [case.feed(w) for w in weights]
    attrs = {"groups": int(groups), "eps": float(node.attr("epsilon", 1e-5))}
    case.step("group_norm", inputs, attrs, [(node.outputs[0], IMAGE)])


PLAIN_FUNCTIONS = {"Log": "log", "Sqrt": "sqrt", "Reciprocal": "reciprocal", "Sin": "sin", "Cos": "cos", "Erf": "erf",
                   "Floor": "floor", "Ceil": "ceil", "Round": "round", "Sign": "sign"}  # fmt: skip

CONVERTERS = {
    **{name: function(op) for name, op in PLAIN_FUNCTIONS.items()},
    "Add": arithmetic("add"),
    "And": comparison("logical_and"),
    "Clip": clip,
    "Div": arithmetic("div"),
    "Equal": comparison("equal"),
    "Gather": gather,
    "GatherElements": gather_elements,
    "Greater": comparison("greater"),
    "GreaterOrEqual": comparison("greater_equal"),
    "GroupNormalization": group_norm,
    "HardSigmoid": hard_sigmoid,
    "InstanceNormalization": group_norm,
    "LayerNormalization": layer_norm,
    "Less": comparison("less"),
    "LessOrEqual": comparison("less_equal"),
    "LogSoftmax": softmax("log_softmax_axis"),
    "MatMul": matmul,
    "Max": many("maximum"),
    "Min": many("minimum"),
    "Mul": arithmetic("mul"),
    "Or": comparison("logical_or"),
    "PRelu": prelu,
    "Pow": arithmetic("pow"),
    "RMSNormalization": layer_norm,
    "ReduceMax": reduction("amax"),
    "ReduceMean": reduction("mean"),
    "ReduceMin": reduction("amin"),
    "ReduceProd": reduction("prod"),
    "ReduceSum": reduction("sum"),
    "Reshape": reshape,
    "Slice": slice_,
    "Softmax": softmax("softmax"),
    "Split": split,
    "Squeeze": squeeze,
    "Sub": arithmetic("sub"),
    "Sum": many("add"),
    "ThresholdedRelu": thresholded_relu,
    "Transpose": transpose,
    "Trilu": trilu,
    "Unsqueeze": unsqueeze,
    "Where": where,
    "Xor": comparison("logical_xor"),
}
