#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Peer of bench_augment: the same chains by torchvision, one thread: digits and small images as PIL images through
the classic transforms, photos as UINT8 tensors through transforms.v2, which is faster there.

    augment_torch.py IMAGES HEIGHT WIDTH CHANNELS      raw UINT8 images, one after the other

Reads lines "CHAIN SECONDS", answers "images_per_s mean std"; "name" gives the peer's name. torchvision has no
transform that scales width and height apart and keeps the size: it is made of its functional resize and
center_crop. Nor has it a crop whose area is drawn log-uniformly: RandomResizedCrop without antialiasing stands in.
"""
import random
import sys
import time

import numpy as np
import torch
import torchvision
import torchvision.transforms as T
import torchvision.transforms.functional as F
import torchvision.transforms.v2 as V
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


def small(*pixel_steps):
    norm = T.Normalize((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616))
    return T.Compose([T.Pad(4), T.RandomCrop(32), T.RandomHorizontalFlip(), *pixel_steps, T.ToTensor(), norm])


def photo(*pixel_steps, erasing=False):
    norm = V.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
    steps = [*pixel_steps, V.ToDtype(torch.float32, scale=True), norm]
    return V.Compose(steps + [V.RandomErasing(0.25)] * erasing)


region, flip, center = V.RandomResizedCrop(224), V.RandomHorizontalFlip(), V.CenterCrop(224)
jitter = V.ColorJitter(0.2, 0.2, 0.2, 0.1)
CHAINS |= {
    "cifar_crop_flip": small(),
    "cifar_trivial": small(T.TrivialAugmentWide()),
    "vgg": photo(region, flip, jitter, erasing=True),
    "crop_flip": photo(region, flip),
    "fast_crop_flip": photo(V.RandomResizedCrop(224, antialias=False), flip),
    "val": photo(V.Resize(256), center),
    "center": photo(center),
    "center_jitter": photo(center, jitter),
    "center_affine": photo(center, V.RandomAffine(20, (0.1, 0.1), (0.8, 1.2), interpolation=F.InterpolationMode.BILINEAR)),
    "center_blur": photo(center, V.GaussianBlur(13, (0.1, 2.0))),
    "center_noise": photo(center, V.GaussianNoise(0, 0.1)),
    "center_rand": photo(center, V.RandAugment()),
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
    height, width, channels = (int(a) for a in sys.argv[2:5])
    raw = np.fromfile(sys.argv[1], dtype=np.uint8).reshape(-1, height, width, channels)
    if height > 32:
        images = [torch.from_numpy(pixels).permute(2, 0, 1).contiguous() for pixels in raw]
    else:
        images = [Image.fromarray(pixels.squeeze(2) if channels == 1 else pixels) for pixels in raw]
    for line in sys.stdin:
        words = line.split()
        if words[0] == "name":
            print(f"torchvision {torchvision.__version__}, {'tensors' if height > 32 else 'PIL'}, 1 thread", flush=True)
        else:
            print(*measure(images, CHAINS[words[0]], float(words[1])), flush=True)


main()
