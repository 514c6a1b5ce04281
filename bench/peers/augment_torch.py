#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Peer of bench_augment: the same chains by torchvision on PIL images, one thread.

    augment_torch.py IMAGES      raw 28x28 UINT8 images, one after the other

Reads lines "CHAIN SECONDS", answers "images_per_s mean std"; "name" gives the peer's name. torchvision has no
transform that scales width and height apart and keeps the size: it is made of its functional resize and
center_crop.
"""
import random
import sys
import time

import numpy as np
import torch
import torchvision
import torchvision.transforms as T
import torchvision.transforms.functional as F
from PIL import Image

torch.set_num_threads(1)


class RandomScale:
    def __init__(self, low, high):
        self.low, self.high = low, high

    def __call__(self, image):
        height = round(28 * random.uniform(self.low, self.high))
        width = round(28 * random.uniform(self.low, self.high))
        return F.center_crop(F.resize(image, [height, width], F.InterpolationMode.BILINEAR), [28, 28])


def chain(*pixel_steps, erasing=False):
    steps = [*pixel_steps, T.ToTensor(), T.Normalize((0.1307,), (0.3081,))]
    return T.Compose(steps + [T.RandomErasing(0.5)] * erasing)


pad, crop = T.Pad(2), T.RandomCrop(28)
rotation, scale = T.RandomRotation(20, F.InterpolationMode.BILINEAR), RandomScale(0.8, 1.2)
CHAINS = {
    "article": chain(pad, crop, rotation, scale, erasing=True),
    "normalize": chain(),
    "pad_crop": chain(pad, crop),
    "rotation": chain(rotation),
    "scale": chain(scale),
    "erasing": chain(erasing=True),
}


def measure(images, transform, seconds):
    count, pixels, i = 0, [], 0
    start = time.perf_counter()
    while time.perf_counter() - start < seconds or count < len(images):
        pixels.append(transform(images[i % len(images)]))
        i, count = i + 1, count + 1
    rate = count / (time.perf_counter() - start)
    values = torch.stack(pixels)
    return rate, values.mean().item(), values.std().item()


def main():
    raw = np.fromfile(sys.argv[1], dtype=np.uint8).reshape(-1, 28, 28)
    images = [Image.fromarray(pixels) for pixels in raw]
    for line in sys.stdin:
        words = line.split()
        if words[0] == "name":
            print(f"torchvision {torchvision.__version__}, PIL, 1 thread", flush=True)
        else:
            print(*measure(images, CHAINS[words[0]], float(words[1])), flush=True)


main()
