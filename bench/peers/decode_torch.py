#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Peer of bench_decode: full decodes of the same files in memory to RGB, one thread.

    decode_torch.py FOLDER

Reads lines "rate LIBRARY" (torchvision, pillow), answers the pictures/s of one pass; "name LIBRARY" gives its version.
"""
import io
import pathlib
import sys
import time

import numpy as np
import PIL
import torch
import torchvision
from PIL import Image
from torchvision.io import ImageReadMode, decode_jpeg

torch.set_num_threads(1)


def decode_torchvision(item):
    return decode_jpeg(item[1], mode=ImageReadMode.RGB)


def decode_pillow(item):
    with Image.open(io.BytesIO(item[0])) as image:
        return np.asarray(image.convert("RGB"))


LIBRARIES = {
    "torchvision": (f"torchvision.io {torchvision.__version__}, 1 thread", decode_torchvision),
    "pillow": (f"Pillow {PIL.__version__}, 1 thread", decode_pillow),
}


def main():
    paths = sorted(p for p in pathlib.Path(sys.argv[1]).rglob("*") if p.is_file())
    items = [(p.read_bytes(), torchvision.io.read_file(str(p))) for p in paths]
    for line in sys.stdin:
        command, library = line.split()
        name, decode = LIBRARIES[library]
        if command == "name":
            for item in items:  # warm-up
                decode(item)
            print(name, flush=True)
            continue
        start = time.perf_counter()
        for item in items:
            decode(item)
        print(len(items) / (time.perf_counter() - start), flush=True)


main()
