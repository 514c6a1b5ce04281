# SPDX-License-Identifier: Apache-2.0
"""Goldens of ops on whole tensors: files op_FAMILY, cases CASE with inputs in0, in1 ..., output y, an output
gradient dy, and gradients d0, d1 ... of those inputs that have one. Metadata of a case: its op and attributes."""

import json

import torch
import torch.nn.functional as F

from generate.writer import as_float32_values, uniform


class Family:
    def __init__(self):
        self.tensors, self.facts = {}, {}

    def case(self, generator, name, op, attrs, inputs, function):
        """Floating inputs get gradients if the result is floating."""
        leaves = [x.detach().clone().requires_grad_(x.is_floating_point()) for x in inputs]
        y = function(*leaves)
        self.facts[name] = json.dumps({"op": op, "attrs": attrs})
        for i, x in enumerate(inputs):
            self.tensors[f"{name}.in{i}"] = _stored(x)
        self.tensors[f"{name}.y"] = _stored(y)
        wanted = [i for i, x in enumerate(leaves) if x.requires_grad]
        if not y.is_floating_point() or not y.requires_grad:
            return
        dy = uniform(generator, y.shape)
        self.tensors[f"{name}.dy"] = dy
        for i, grad in zip(wanted, torch.autograd.grad(y, [leaves[i] for i in wanted], dy)):
            self.tensors[f"{name}.d{i}"] = grad

    def save(self, writer, name):
        writer.save(f"op_{name}", self.tensors, **self.facts)


def _stored(x):
    return x.to(torch.uint8) if x.dtype == torch.bool else x


def maths(writer, generator):
    rows = {
        "log": (torch.log, 0.1, 5), "log1p": (torch.log1p, -0.8, 5), "expm1": (torch.expm1, -4, 3),
        "sqrt": (torch.sqrt, 0.1, 5), "rsqrt": (torch.rsqrt, 0.2, 5), "reciprocal": (torch.reciprocal, 0.2, 4),
        "sin": (torch.sin, -6, 6), "cos": (torch.cos, -6, 6), "erf": (torch.erf, -3, 3),
        "floor": (torch.floor, -4, 4), "ceil": (torch.ceil, -4, 4), "round": (torch.round, -4, 4),
        "sign": (torch.sign, -2, 2),
    }
    family = Family()
    for name, (function, low, high) in rows.items():
        family.case(generator, name, name, {}, [uniform(generator, 61, low=low, high=high)], function)
    halves = as_float32_values(torch.arange(-6, 7, dtype=torch.float64) / 2)
    family.case(generator, "round_ties", "round", {}, [halves], torch.round)
    for exponent in (3.0, 0.5, -1.5, 0.0):
        x = uniform(generator, 31, low=0.2, high=3)
        family.case(generator, f"pow_{exponent:g}".replace(".", "_"), "pow_scalar", {"exponent": exponent}, [x],
                    lambda v, e=exponent: torch.pow(v, e))
    family.case(generator, "affine", "affine", {"scale": -1.5, "shift": 0.25}, [uniform(generator, 31)],
                lambda v: -1.5 * v + 0.25)
    family.case(generator, "clamp", "clamp", {"min": -1.0, "max": 2.0}, [halves], lambda v: torch.clamp(v, -1, 2))
    family.case(generator, "clamp_low", "clamp", {"min": 0.5}, [halves], lambda v: torch.clamp(v, min=0.5))
    family.case(generator, "threshold", "threshold", {"threshold": 0.5, "value": -2.0}, [halves],
                lambda v: F.threshold(v, 0.5, -2.0))
    family.save(writer, "math")


SHAPES = {"plain": ([4, 5], [4, 5]), "small_first": ([5], [4, 5]), "crossed": ([3, 1, 5], [4, 1]),
          "number": ([2, 3], [1])}


def binary(writer, generator):
    rows = {"add": (torch.add, -1, -1), "mul": (torch.mul, -1, -1), "sub": (torch.sub, -1, -1),
            "div": (torch.div, -1, 0.5), "pow": (torch.pow, 0.5, -1), "minimum": (torch.minimum, -1, -1),
            "maximum": (torch.maximum, -1, -1)}
    family = Family()
    for op, (function, low_a, low_b) in rows.items():
        for shape, (a, b) in SHAPES.items():
            inputs = [uniform(generator, *a, low=low_a, high=2), uniform(generator, *b, low=low_b, high=2)]
            family.case(generator, f"{op}_{shape}", op, {}, inputs, function)
    ties = [torch.tensor([1.0, 2, 3], dtype=torch.float64), torch.tensor([3.0, 2, 1], dtype=torch.float64)]
    for op in ("minimum", "maximum"):
        family.case(generator, f"{op}_ties", op, {}, ties, rows[op][0])
    zero = [torch.tensor([0.0, 0, 2], dtype=torch.float64), torch.tensor([2.0, 0, 0], dtype=torch.float64)]
    family.case(generator, "pow_zeros", "pow", {}, zero, torch.pow)
    for name, slopes in {"one": 1, "channels": 3}.items():
        family.case(generator, f"prelu_{name}", "prelu", {},
                    [uniform(generator, 5, 3), uniform(generator, slopes, low=0.1, high=0.5)], F.prelu)
    family.save(writer, "binary")


def selection(writer, generator):
    family = Family()
    for op in ("eq", "ne", "lt", "le", "gt", "ge"):
        name = {"eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater",
                "ge": "greater_equal"}[op]
        a, b = (torch.round(uniform(generator, *shape, low=-2, high=2)) for shape in ([4, 5], [5]))
        family.case(generator, name, name, {}, [a, b], getattr(torch, op))
        family.case(generator, f"{name}_ints", name, {}, [a.to(torch.int64), b.to(torch.int64)], getattr(torch, op))
    for op in ("logical_and", "logical_or", "logical_xor"):
        a, b = (torch.round(uniform(generator, *shape)) for shape in ([4, 5], [4, 1]))
        family.case(generator, op, op, {}, [a, b], getattr(torch, op))
    for diagonal in (0, 2, -1):
        x = uniform(generator, 2, 4, 5)
        for op in ("tril", "triu"):
            family.case(generator, f"{op}_{diagonal}".replace("-", "m"), op, {"diagonal": diagonal}, [x],
                        lambda v, f=getattr(torch, op), d=diagonal: f(v, d))
    family.save(writer, "selection")


def reductions(writer, generator):
    family = Family()
    rows = {"sum": torch.sum, "mean": torch.mean, "amax": torch.amax, "amin": torch.amin, "var": torch.var}
    for op, function in rows.items():
        for name, axes, keep in (("last", [-1], False), ("ends", [0, 2], True), ("middle", [1], False)):
            family.case(generator, f"{op}_{name}", op, {"axes": axes, "keepdims": keep},
                        [uniform(generator, 3, 4, 5)],
                        lambda v, f=function, a=axes, k=keep: f(v, dim=a, keepdim=k))
    ties = torch.round(uniform(generator, 4, 9, low=-2, high=2))
    for op in ("amax", "amin"):
        family.case(generator, f"{op}_ties", op, {"axes": [1]}, [ties], lambda v, f=rows[op]: f(v, dim=[1]))
    family.case(generator, "var_biased", "var", {"axes": [0], "correction": 0}, [uniform(generator, 7, 3)],
                lambda v: torch.var(v, dim=0, correction=0))
    family.case(generator, "prod", "prod", {"axes": [1]}, [uniform(generator, 4, 5)], lambda v: v.prod(dim=1))
    zeros = torch.round(uniform(generator, 6, 4, low=-1, high=2))
    family.case(generator, "prod_zeros", "prod", {"axes": [-1]}, [zeros], lambda v: v.prod(dim=-1))
    family.case(generator, "sum_all", "sum", {}, [uniform(generator, 3, 7)], torch.sum)
    family.save(writer, "reduction")


def layout(writer, generator):
    family = Family()
    x = uniform(generator, 2, 3, 4, 5)
    family.case(generator, "reshape", "reshape", {"shape": [12, -1], "keep_batch": True}, [x],
                lambda v: v.reshape(2, 12, -1))
    family.case(generator, "permute", "permute", {"axes": [0, 2, 1, 3]}, [x], lambda v: v.permute(0, 2, 1, 3))
    family.case(generator, "transpose", "transpose", {"axis0": -1, "axis1": 1}, [x], lambda v: v.transpose(-1, 1))
    family.case(generator, "slice", "slice", {"axes": [1, -1], "starts": [1, -4], "ends": [100, -1], "steps": [1, 2]},
                [x], lambda v: v[:, 1:100, :, -4:-1:2])
    index = torch.randint(0, 5, (2, 3, 4, 7), generator=generator)
    family.case(generator, "gather", "gather", {"axis": 3}, [x, index], lambda v, i: torch.gather(v, 3, i))
    ids = torch.randint(0, 7, (3, 9), generator=generator)
    table = uniform(generator, 7, 5)
    family.case(generator, "embedding", "embedding", {}, [ids, table], F.embedding)
    family.case(generator, "embedding_padding", "embedding", {"padding_idx": 2}, [ids.to(torch.int32), table],
                lambda i, w: F.embedding(i, w, padding_idx=2))
    family.case(generator, "tokens", "prepend_tokens", {"tokens": 2},
                [uniform(generator, 3, 4, 5), uniform(generator, 2, 5)],
                lambda v, w: torch.cat([w.expand(3, 2, 5), v], 1))
    family.save(writer, "layout")


def products(writer, generator):
    family = Family()
    shapes = {"plain": ([5, 7], [7, 3], 0, 0), "scores": ([2, 3, 5, 4], [2, 3, 6, 4], 0, 1),
              "left": ([2, 7, 5], [2, 7, 3], 1, 0), "both": ([7, 5], [3, 7], 1, 1),
              "weight": ([2, 3, 5, 7], [7, 4], 0, 0), "crossed": ([2, 1, 5, 7], [3, 7, 4], 0, 0)}
    for name, (a, b, ta, tb) in shapes.items():
        family.case(generator, f"matmul_{name}", "matmul", {"transpose_a": bool(ta), "transpose_b": bool(tb)},
                    [uniform(generator, *a), uniform(generator, *b)],
                    lambda u, v, ta=ta, tb=tb: torch.matmul(u.mT if ta else u, v.mT if tb else v))
    for axis in (-1, 0, 1):
        x = uniform(generator, 3, 4, 5, low=-6, high=6)
        tag = str(axis).replace("-", "m")
        family.case(generator, f"softmax_{tag}", "softmax", {"axis": axis}, [x], lambda v, a=axis: torch.softmax(v, a))
        family.case(generator, f"log_softmax_{tag}", "log_softmax_axis", {"axis": axis}, [x],
                    lambda v, a=axis: torch.log_softmax(v, a))
    family.save(writer, "product")


def gated(writer, generator):
    family = Family()
    for axis in (-1, 0, 1):
        family.case(generator, f"glu_{axis}".replace("-", "m"), "glu", {"axis": axis},
                    [uniform(generator, 4, 6, 8, low=-3, high=3)], lambda v, a=axis: F.glu(v, a))
    gates = {"silu": F.silu, "gelu": F.gelu, "relu": F.relu, "tanh": torch.tanh,
             "gelu_tanh": lambda v: F.gelu(v, approximate="tanh")}
    for name, gate in gates.items():
        for half in (0, 1):
            def function(v, gate=gate, half=half):
                halves = v.chunk(2, -1)
                return halves[1 - half] * gate(halves[half])
            family.case(generator, f"{name}_{half}", "glu", {"gate": name, "gated": half},
                        [uniform(generator, 5, 12, low=-3, high=3)], function)
    x = uniform(generator, 61, low=-4, high=4)
    family.case(generator, "rrelu", "rrelu_eval", {}, [x], lambda v: F.rrelu(v).detach())
    family.case(generator, "rrelu_slopes", "rrelu_eval", {"lower": 0.05, "upper": 0.6}, [x],
                lambda v: F.rrelu(v, 0.05, 0.6).detach())
    family.save(writer, "gated")


def norms(writer, generator):
    family = Family()
    x = uniform(generator, 3, 4, 6, low=-2, high=3)
    for name, last in {"one": 1, "two": 2}.items():
        shape = list(x.shape[-last:])
        weight, bias = uniform(generator, *shape), uniform(generator, *shape)
        family.case(generator, f"layer_norm_{name}", "layer_norm", {"num_axes": last}, [x, weight, bias],
                    lambda v, w, b, s=shape: F.layer_norm(v, s, w, b))
        family.case(generator, f"rms_norm_{name}", "rms_norm", {"num_axes": last, "eps": 1e-6}, [x, weight],
                    lambda v, w, s=shape: F.rms_norm(v, s, w, 1e-6))
    family.case(generator, "layer_norm_no_bias", "layer_norm", {"bias": False}, [x, uniform(generator, 6)],
                lambda v, w: F.layer_norm(v, [6], w))
    for groups in (1, 2, 6):
        family.case(generator, f"group_norm_{groups}", "group_norm", {"groups": groups},
                    [x, uniform(generator, 6), uniform(generator, 6)],
                    lambda v, w, b, g=groups: F.group_norm(v.movedim(-1, 1), g, w, b).movedim(1, -1))
    family.save(writer, "norm")


def layers(writer, generator):
    """Layer functions by their names in C++, which are several ops or one with attributes."""

    def halves(gate, gated):
        def function(v, axis):
            parts = v.chunk(2, axis)
            return parts[1 - gated] * gate(parts[gated])

        return function

    functions = {
        "softmin": lambda v, axis: torch.nn.Softmin(axis)(v),
        "glu": lambda v, axis: torch.nn.GLU(axis)(v),
        "swiglu": halves(F.silu, 0),
        "geglu": halves(F.gelu, 1),
        "reglu": halves(F.relu, 1),
    }
    family = Family()
    for name, function in functions.items():
        for axis in (-1, 1):
            family.case(generator, f"{name}_{axis}".replace("-", "m"), name, {"axis": axis},
                        [uniform(generator, 3, 4, 6, low=-3, high=3)],
                        lambda v, f=function, a=axis: f(v, a))
    family.save(writer, "layers")


def write(writer, generator):
    for part in (maths, binary, selection, reductions, layout, products, norms, gated, layers):
        part(writer, generator)
