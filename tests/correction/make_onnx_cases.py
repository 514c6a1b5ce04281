#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Converts the cases of the package onnx (onnx.backend.test) into small files for tests/correction/onnx_test.cpp.

    python3 tests/correction/make_onnx_cases.py

reads the node cases and those converted from PyTorch, writes tests/correction/onnx/*.safetensors (stored inputs,
expected outputs, and in the metadata each case's steps) and the table in docs/onnx.md. An operator is converted by a
function in convert_onnx/; what it cannot express is refused with NotApplied, whose words stand in the table.
"""

import collections
import json
import pathlib
import struct
import sys
import warnings

import numpy as np
import onnx
import onnx.reference
from onnx import numpy_helper

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from convert_onnx import images, losses, maps, optimizers, rows_of_ops, tensors  # noqa: E402
from convert_onnx.case import MAX_CASE_BYTES, Case, Node, NotApplied  # noqa: E402

PARTS = (images, losses, maps, optimizers, rows_of_ops, tensors)
CONVERTERS = {key: value for part in PARTS for key, value in part.CONVERTERS.items()}
MAX_FILE_BYTES = 96 * 1024
KINDS = {
    "float32": "F32", "float16": "F16", "bfloat16": "BF16", "int32": "I32", "int64": "I64",
    "uint8": "U8", "int8": "I8", "bool": "BOOL",
}  # fmt: skip


def all_cases():
    """(name, model, inputs, outputs) of every node case and every one converted from PyTorch."""
    from onnx.backend.test.case.node import collect_testcases

    np.random.seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case in collect_testcases(None):
            if case.data_sets:
                yield case.name, case.model, *case.data_sets[0]
    data = pathlib.Path(onnx.__file__).parent / "backend/test/data"
    for kind in ("pytorch-converted", "pytorch-operator"):
        for folder in sorted((data / kind).iterdir()):
            model = onnx.load(folder / "model.onnx")
            sides = []
            for side in ("input", "output"):
                files = sorted((folder / "test_data_set_0").glob(f"{side}_*.pb"))
                protos = [onnx.TensorProto.FromString(f.read_bytes()) for f in files]
                sides.append([numpy_helper.to_array(p) for p in protos])
            yield f"{kind}/{folder.name}", model, *sides


def shapes_of(model, known):
    """Shapes of all values that ONNX infers wholly, where it knows the numbers that decide them."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    named = {i.name for i in copy.graph.initializer}
    for key, value in known.items():
        if key not in named and value.dtype == np.int64 and value.size <= 64:
            copy.graph.initializer.append(numpy_helper.from_array(value, key))
    try:
        graph = onnx.shape_inference.infer_shapes(copy, data_prop=True).graph
    except Exception:  # noqa: BLE001 - of operators without a rule: the shapes stay unknown
        return {}
    shapes = {}
    for value in [*graph.value_info, *graph.input, *graph.output]:
        dims = value.type.tensor_type.shape.dim
        if value.type.tensor_type.HasField("shape") and all(d.HasField("dim_value") for d in dims):
            shapes[value.name] = [d.dim_value for d in dims]
    return shapes


def fold(case, proto, settled, opset):
    """Evaluates a node of settled values; False: it has another input. The first node with a converter of a
    case's own inputs is never settled."""
    if proto.op_type in ("Shape", "Size"):
        if proto.input[0] not in case.shapes:
            return False
        attrs = {a.name: onnx.helper.get_attribute_value(a) for a in proto.attribute}
        shape = np.array(case.shapes[proto.input[0]][attrs.get("start", 0) : attrs.get("end")], np.int64)
        values = [shape if proto.op_type == "Shape" else np.prod(shape)]
    elif all(not name or name in settled for name in proto.input):
        graph = onnx.helper.make_graph(
            [proto], "fold", [], [onnx.helper.make_empty_tensor_value_info(name) for name in proto.output]
        )
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)])
        given = {name: case.known[name] for name in proto.input if name}
        for name in given:
            model.graph.input.append(onnx.helper.make_empty_tensor_value_info(name))
        try:
            values = onnx.reference.ReferenceEvaluator(model).run(None, given)
        except Exception as error:  # noqa: BLE001 - an operator that the evaluator lacks
            raise NotApplied(f"a constant {proto.op_type}") from error
    else:
        return False
    for key, value in zip(proto.output, values):
        case.known[key] = np.asarray(value)
        case.shapes[key] = list(np.asarray(value).shape)
        settled.add(key)
    return True


def convert(name, model, inputs, outputs):
    """The case as steps. Raises NotApplied."""
    graph = model.graph
    opset = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 0)
    known = {i.name: numpy_helper.to_array(i) for i in graph.initializer}
    given = [i.name for i in graph.input if i.name not in known]
    for key, value in zip(given, inputs):
        if not isinstance(value, np.ndarray | np.generic):
            raise NotApplied("inputs that are no tensors")
        known[key] = np.asarray(value)
    case = Case(name, known, shapes_of(model, known))
    # What follows from shapes and constants alone is no work of a step.
    settled = {i.name for i in graph.initializer}
    for proto in graph.node:
        if fold(case, proto, settled, opset):
            continue
        if proto.op_type not in CONVERTERS:
            raise NotApplied(f"the operator {proto.op_type}")
        CONVERTERS[proto.op_type](case, Node(proto, opset))
    for output, value in zip(graph.output, outputs):
        case.expect(output.name, value)
    if not case.steps:
        raise NotApplied("no step is left")
    if case.size() > MAX_CASE_BYTES:
        raise NotApplied(f"more than {MAX_CASE_BYTES // 1024} KiB of tensors")
    return case


def save(path, cases):
    """A safetensors file; the same bytes on every run."""
    metadata = {
        "script": "tests/correction/make_onnx_cases.py",
        "onnx": onnx.__version__,
        "cases": json.dumps({c.name: c.about() for c in cases}, sort_keys=True),
    }
    tensors = {f"{c.name}.{key}": value for c in cases for key, value in c.tensors.items()}
    header, blobs, offset = {"__metadata__": metadata}, [], 0
    for key in sorted(tensors, key=lambda k: (-tensors[k].itemsize, k)):
        blob = tensors[key].tobytes()
        header[key] = {
            "dtype": KINDS[str(tensors[key].dtype)],
            "shape": list(tensors[key].shape),
            "data_offsets": [offset, offset + len(blob)],
        }
        blobs.append(blob)
        offset += len(blob)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def write_files(folder, by_operator):
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*.safetensors"):
        old.unlink()
    for operator, cases in sorted(by_operator.items()):
        part, size, number = [], 0, 0
        for case in [*cases, None]:
            full = case is None or size + case.size() > MAX_FILE_BYTES
            if part and full:
                save(folder / f"{operator.lower()}_{number}.safetensors", part)
                part, size, number = [], 0, number + 1
            if case is not None:
                part.append(case)
                size += case.size()


def write_table(page, rows, others):
    """Replaces what stands between the two marks of the page."""
    lines = ["| operator | cases | applied | not applied, and why |", "|---|---|---|---|"]
    for operator, (total, applied, reasons) in sorted(rows.items()):
        why = "; ".join(f"{count}: {reason}" for reason, count in reasons.most_common())
        lines.append(f"| {operator} | {total} | {applied} | {why} |")
    applied = sum(row[1] for row in rows.values())
    total = sum(row[0] for row in rows.values())
    lines.append(f"| together | {total} | {applied} | |")
    lines += ["", f"{others} cases begin with an operator that has no converter."]
    text = page.read_text()
    begin, end = "<!-- table begins -->\n", "<!-- table ends -->"
    head, rest = text.split(begin)
    page.write_text(head + begin + "\n" + "\n".join(lines) + "\n\n" + end + rest.split(end)[1])
    print(f"{applied} of {total} cases applied; {others} begin with an operator without converter")


def main():
    rows, by_operator, others = {}, collections.defaultdict(list), 0
    for name, model, inputs, outputs in all_cases():
        names = [n.op_type for n in model.graph.node]
        made_by = ("Constant", "Shape", "Size", "Cast", "CastLike")  # before what the case is about
        operator = next((n for n in names if n not in made_by), names[-1])
        if operator not in CONVERTERS:
            others += 1
            continue
        row = rows.setdefault(operator, [0, 0, collections.Counter()])
        row[0] += 1
        try:
            by_operator[operator].append(convert(name, model, inputs, outputs))
            row[1] += 1
        except NotApplied as reason:
            row[2][str(reason)] += 1
    write_files(HERE / "onnx", by_operator)
    write_table(HERE.parent.parent / "docs/onnx.md", rows, others)


if __name__ == "__main__":
    main()
