# SPDX-License-Identifier: Apache-2.0
"""One ONNX case on its way to steps of this library's ops.

Images are [N, H, W, C] here and [N, C, H, W] in ONNX: every value knows its layout. Values whose numbers are
known (inputs, constants) are stored in whatever layout a step wants them; what a step makes keeps its own.
"""

import numpy as np
import onnx

IMAGE = "image"  # [N, H, W, C] here
PLAIN = "plain"  # as in ONNX
MAX_CASE_BYTES = 64 * 1024
# Cases whose results the suite gives with few digits: how far they may be off.
ROUNDED = {"test_averagepool_2d_ceil_last_window_starts_on_pad": 1e-4}
DTYPES = {"float32", "float16", "bfloat16", "int32", "int64", "uint8", "int8", "bool"}


class NotApplied(Exception):
    """The case asks for something that this library does not have; the message says what."""


def to_image(array):
    """[N, C, H, W], or [N, C, W] as an image of height 1, to [N, H, W, C]."""
    if array.ndim == 3:
        array = array[:, :, None, :]
    if array.ndim != 4:
        raise NotApplied(f"{array.ndim - 2} spatial axes")
    return np.ascontiguousarray(array.transpose(0, 2, 3, 1))


class Node:
    """An ONNX node: its input and output names, and attributes with their defaults."""

    def __init__(self, proto, opset):
        self.op = proto.op_type
        self.inputs = list(proto.input)
        self.outputs = list(proto.output)
        self.opset = opset
        self.given = {a.name: onnx.helper.get_attribute_value(a) for a in proto.attribute}

    def attr(self, name, default=None):
        value = self.given.get(name, default)
        return value.decode() if isinstance(value, bytes) else value

    def allow(self, *names):
        """Refuses attributes that the converter does not know."""
        for name in self.given:
            if name not in names:
                raise NotApplied(f"the attribute {name}")


class Case:
    """Steps, stored tensors and expected outputs of one case."""

    def __init__(self, name, known, shapes):
        self.name = name
        self.known = known  # arrays by ONNX name
        self.shapes = {**shapes, **{key: list(value.shape) for key, value in known.items()}}
        self.made = {}  # (name here, layout) by ONNX name
        self.steps = []
        self.tensors = {}  # stored: "in0", ... and "want.NAME"
        self.summed, self.scale = 1, 1.0

    def array(self, name):
        """The numbers of an input or constant. Refused where a step makes them."""
        if name not in self.known:
            raise NotApplied("a value that a node makes where this library wants an attribute")
        return self.known[name]

    def shape(self, name):
        """The shape of a value as ONNX sees it."""
        if name not in self.shapes:
            raise NotApplied("a value whose shape is not known beforehand")
        return list(self.shapes[name])

    def feed(self, array, integers=False):
        """Stores a tensor as an input of steps and returns its name. `integers`: its step takes them."""
        array = np.asarray(array)
        if str(array.dtype) not in DTYPES or not (integers or "float" in str(array.dtype)):
            raise NotApplied(f"elements of {array.dtype}")
        name = f"in{sum(key.startswith('in') for key in self.tensors)}"
        # ascontiguousarray makes a scalar a vector of one.
        self.tensors[name] = np.ascontiguousarray(array).reshape(array.shape)
        if "float" in str(array.dtype) and array.size:
            values = array.astype(np.float64)
            finite = np.abs(values[np.isfinite(values)])
            self.scale = max(self.scale, float(finite.max()) if finite.size else 1.0)
        return name

    def plain(self, name, integers=False):
        return self._value(name, PLAIN, integers)

    def image(self, name):
        return self._value(name, IMAGE)

    def layout(self, *names):
        """IMAGE if a step has made one of the values as an image, else PLAIN."""
        images = [name for name in names if name in self.made and self.made[name][1] == IMAGE]
        return IMAGE if images else PLAIN

    def value(self, name, layout=None):
        """The value in that layout; None: in the one that it has."""
        return self._value(name, layout or self.layout(name))

    def _value(self, name, layout, integers=False):
        if name in self.made:
            here, has = self.made[name]
            if has != layout:
                raise NotApplied(f"a transposition from {has} to {layout} between nodes")
            return here
        array = self.array(name)
        return self.feed(to_image(array) if layout == IMAGE else array, integers)

    def step(self, op, inputs, attrs=None, outputs=()):
        """Appends a step. `outputs`: (ONNX name, layout) of the first of the op's outputs; "" where nobody asks
        for one. Returns the names here."""
        names = [f"v{len(self.steps)}.{i}" for i in range(max(1, len(outputs)))]
        self.steps.append({"op": op, "attrs": attrs or {}, "in": inputs, "out": names})
        for (name, layout), here in zip(outputs, names):
            if name:
                self.made[name] = (here, layout)
        return names

    def alias(self, name, here, layout):
        """The ONNX value `name` is what a step or a stored tensor already holds."""
        self.made[name] = (here, layout)

    def sums(self, terms):
        """The longest sum of products so far: the tolerance grows with it."""
        self.summed = max(self.summed, int(terms))

    def expect(self, name, array):
        """`array` is what ONNX gives for the graph's output `name`."""
        array = np.asarray(array)
        if name not in self.made:
            raise NotApplied(f"the output {name}")
        if str(array.dtype) not in DTYPES:
            raise NotApplied(f"elements of {array.dtype}")
        here, layout = self.made[name]
        value = to_image(array) if layout == IMAGE else np.ascontiguousarray(array)
        self.tensors[f"want.{here}"] = value.reshape(value.shape if layout == IMAGE else array.shape)

    def about(self):
        """What the runner needs beside the tensors."""
        return {
            "steps": self.steps,
            "summed": self.summed,
            "scale": self.scale,
            "rounding": ROUNDED.get(self.name, 0.0),
        }

    def size(self):
        return sum(value.nbytes for value in self.tensors.values())
