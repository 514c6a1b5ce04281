#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the expected pixels of RandomRotationTest.TurnsTheWayTorchvisionDoes.

    golden_rotation.py DEGREES
"""
import sys

import torch
import torchvision
from torchvision.transforms.functional import InterpolationMode, rotate

image = torch.tensor([i * 37 % 256 for i in range(42)], dtype=torch.float32).reshape(1, 6, 7)
turned = rotate(image, float(sys.argv[1]), InterpolationMode.BILINEAR).round().int()
print(torchvision.__version__, ", ".join(str(v) for v in turned.flatten().tolist()))
