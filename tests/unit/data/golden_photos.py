#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes photo_checksums.txt: for each photo of the ImageNet sample the CRC-32 of Pillow's upright RGB pixels.

    golden_photos.py PHOTO_FOLDER > photo_checksums.txt        (the folder that holds train/)
"""
import pathlib
import sys
import zlib

import PIL
from PIL import Image, ImageOps, features

root = pathlib.Path(sys.argv[1])
print(f"# Pillow {PIL.__version__}, libjpeg-turbo {features.version('libjpeg_turbo')}; "
      "exif_transpose, then RGB: width height crc32 path")
for path in sorted(root.glob("train/*/*.JPEG")):
    with Image.open(path) as stored:
        image = ImageOps.exif_transpose(stored).convert("RGB")
    print(image.width, image.height, f"{zlib.crc32(image.tobytes()):08x}", path.relative_to(root).as_posix())
