#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Peer of bench_pictures: JPEG files to normalised float images by torchvision, one thread, no workers.

    pictures_torch.py FOLDER      (a folder a class)

Reads lines "CHAIN WAY" (chains as below; ways: pil = Pillow and the classic transforms on its images, io =
torchvision.io and transforms.v2 on UINT8 tensors), answers "images_per_cpu_second images_per_second" of one pass over the
files in random order. "name WAY" gives the peer's name, after a pass of warm-up.
"""
import random
import sys
import time

import PIL
import torch
import torchvision
import torchvision.transforms as T
import torchvision.transforms.v2 as V
from PIL import Image
from torchvision.io import ImageReadMode, decode_jpeg, read_file

torch.set_num_threads(1)
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)

STEPS = {
    "vgg": lambda m: [m.RandomResizedCrop(224), m.RandomHorizontalFlip(), m.ColorJitter(0.2, 0.2, 0.2, 0.1)],
    "crop_flip": lambda m: [m.RandomResizedCrop(224), m.RandomHorizontalFlip()],
    "val": lambda m: [m.Resize(256), m.CenterCrop(224)],
}
ERASES = {"vgg"}


def make_chain(name, way):
    erasing = [T.RandomErasing(0.25)] if name in ERASES else []
    if way == "pil":
        return T.Compose(STEPS[name](T) + [T.ToTensor(), T.Normalize(MEAN, STD)] + erasing)
    return V.Compose(STEPS[name](V) + [V.ToDtype(torch.float32, scale=True), V.Normalize(MEAN, STD)] + erasing)


def load_pil(path):
    return Image.open(path).convert("RGB")


def load_io(path):
    return decode_jpeg(read_file(path), mode=ImageReadMode.RGB)


WAYS = {
    "pil": (f"torchvision {torchvision.__version__} on Pillow {PIL.__version__}", load_pil),
    "io": (f"torchvision.io and v2 {torchvision.__version__}", load_io),
}


def one_pass(paths, load, chain):
    random.shuffle(paths)
    start, cpu_start = time.perf_counter(), time.process_time()
    for path in paths:
        chain(load(path))
    return len(paths) / (time.process_time() - cpu_start), len(paths) / (time.perf_counter() - start)


def main():
    paths = [path for path, _ in torchvision.datasets.ImageFolder(sys.argv[1]).samples]
    for line in sys.stdin:
        command, way = line.split()
        name, load = WAYS[way]
        if command == "name":
            one_pass(paths, load, make_chain("vgg", way))
            print(f"{name}, 1 thread", flush=True)
        else:
            print(*one_pass(paths, load, make_chain(command, way)), flush=True)


main()
