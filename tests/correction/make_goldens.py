#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the golden files that the tests compare with.

They hold what PyTorch computes, in float64, stored as float32, and what torchvision makes of UINT8 images:

    python3 tests/correction/make_goldens.py [--out DIR] [--seed N] [--only PART]

Deterministic: one thread, a seeded generator per part, sorted keys. Needs PyTorch and torchvision; the metadata
of a file names the version that made it. Another processor makes the same bytes but of what is computed in fp32 or
less: autocast_*, the losses of free_*, distances of bf16 in run_muon's metadata, and moments of biases ahead of a
batch norm, whose gradients are rounding alone.
"""

import argparse
import pathlib
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from generate import (  # noqa: E402
    autocast,
    control,
    images,
    initializers,
    losses,
    networks,
    ops,
    optimizers,
    tensor_ops,
    trajectories,
    transforms,
)
from generate.writer import GoldenWriter  # noqa: E402

PARTS = {
    "autocast": autocast,
    "control": control,
    "images": images,
    "initializers": initializers,
    "losses": losses,
    "networks": networks,
    "ops": ops,
    "optimizers": optimizers,
    "tensor_ops": tensor_ops,
    "trajectories": trajectories,
    "transforms": transforms,
}


def main():
    here = pathlib.Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--out", type=pathlib.Path, default=here / "goldens", help="folder of the files"
    )
    parser.add_argument("--seed", type=int, default=20250301)
    parser.add_argument("--only", choices=sorted(PARTS), help="make one part")
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    args.out.mkdir(parents=True, exist_ok=True)
    writer = GoldenWriter(args.out, args.seed)
    for name, part in PARTS.items():
        if args.only in (None, name):
            part.write(writer, torch.Generator().manual_seed(args.seed))
    total = sum(size for _, size in writer.written)
    largest = max(writer.written, key=lambda file: file[1])
    print(f"{len(writer.written)} files, {total / 1024:.0f} KiB, largest {largest}")


if __name__ == "__main__":
    main()
