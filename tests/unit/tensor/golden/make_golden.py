# SPDX-License-Identifier: Apache-2.0
"""Writes the golden safetensors files of this folder with the reference implementation.

    python make_golden.py        # made with safetensors 0.8.0, torch 2.11.0; needs no arguments
"""
import pathlib

import torch
from safetensors.torch import save_file

here = pathlib.Path(__file__).parent

every_dtype = {
    "f32": torch.tensor([[0.0, -1.5, 3.25], [float("inf"), float("-inf"), 1e-40]]),
    "f16": torch.tensor([0.5, -65504.0, 6e-8, float("inf")], dtype=torch.float16),
    "bf16": torch.tensor([1.0, -3.140625, 1e38], dtype=torch.bfloat16),
    "u8": torch.tensor([0, 127, 255], dtype=torch.uint8),
    "i8": torch.tensor([-128, 0, 127], dtype=torch.int8),
    "i32": torch.tensor([[-(2**31)], [2**31 - 1]], dtype=torch.int32),
    "i64": torch.tensor([-(2**63), 2**63 - 1], dtype=torch.int64),
    "bool": torch.tensor([True, False, True]),
    "scalar": torch.tensor(2.5),
    "empty": torch.zeros((0, 4)),
}
save_file(every_dtype, here / "every_dtype.safetensors", metadata={"format": "pt", "note": "ä ∑ \"q\""})

torch.manual_seed(0)
mlp = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU(), torch.nn.Linear(3, 2))
save_file(mlp.state_dict(), here / "mlp.safetensors")

save_file({"x": torch.zeros(2, dtype=torch.float64)}, here / "unsupported_f64.safetensors")
