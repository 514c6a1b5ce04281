# SPDX-License-Identifier: Apache-2.0
"""Writes golden files: safetensors with sorted keys, the same bytes on every run."""

import json
import struct

import torch

MAX_BYTES = 100 * 1024
_DTYPES = {torch.float32: "F32", torch.int32: "I32", torch.int64: "I64", torch.uint8: "U8"}


def _stored(tensor):
    """Floating values are computed in float64 and stored in float32."""
    tensor = tensor.detach()
    return tensor.to(torch.float32) if tensor.is_floating_point() else tensor


class GoldenWriter:
    def __init__(self, folder, seed):
        self.folder = folder
        self.seed = seed
        self.written = []

    def save(self, name, tensors, **facts):
        """Writes `name`.safetensors; `facts` go to the metadata as text."""
        metadata = {
            "script": "tests/correction/make_goldens.py",
            "torch": torch.__version__,
            "seed": str(self.seed),
            **{key: str(value) for key, value in facts.items()},
        }
        header, blobs, offset = {"__metadata__": dict(sorted(metadata.items()))}, [], 0
        # The format wants data aligned: wider elements first.
        stored = {key: _stored(value) for key, value in tensors.items()}
        for key in sorted(stored, key=lambda k: (-stored[k].element_size(), k)):
            value = stored[key].contiguous()
            blob = value.numpy().tobytes()
            header[key] = {
                "dtype": _DTYPES[value.dtype],
                "shape": list(value.shape),
                "data_offsets": [offset, offset + len(blob)],
            }
            blobs.append(blob)
            offset += len(blob)
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        data = struct.pack("<Q", len(text)) + text + b"".join(blobs)
        if len(data) >= MAX_BYTES:
            raise ValueError(f"{name}: {len(data)} bytes, a golden file has less than {MAX_BYTES}")
        (self.folder / f"{name}.safetensors").write_bytes(data)
        self.written.append((name, len(data)))


def as_float32_values(tensor):
    """Rounded to float32, kept in float64: reference and library start from equal numbers."""
    return tensor.to(torch.float32).to(torch.float64)


def uniform(generator, *shape, low=-1.0, high=1.0):
    values = torch.rand(*shape, generator=generator, dtype=torch.float64)
    return as_float32_values(low + (high - low) * values)
