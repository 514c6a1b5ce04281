#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the pictures of this folder again, byte for byte up to the installed JPEG encoder. Needs numpy and Pillow.

    python3 make_cases.py [target folder, default: the folder of this script]
"""
import gzip
import io
import os
import struct
import sys
import zlib

import numpy as np
from PIL import Image

OUT = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))


def put(name, data):
    with open(os.path.join(OUT, name), "wb") as f:
        f.write(data)


def blocks(colours, side=32, cols=2):
    """Flat square blocks, side x side each, laid out row by row."""
    rows = []
    for r in range(0, len(colours), cols):
        rows.append(np.concatenate(
            [np.full((side, side, len(colours[0])), c, np.uint8) for c in colours[r:r + cols]], 1))
    return np.concatenate(rows, 0)


def jpeg(img, **kw):
    b = io.BytesIO()
    kw.setdefault("quality", 100)
    kw.setdefault("subsampling", 0)
    img.save(b, "JPEG", **kw)
    return b.getvalue()


def png(img, **kw):
    b = io.BytesIO()
    img.save(b, "PNG", **kw)
    return b.getvalue()


def chunk(tag, data):
    return struct.pack(">I", len(data)) + tag + data + struct.pack(">I", zlib.crc32(tag + data))


def raw_png(w, h, depth, ctype, rows, extra=b""):
    """rows: list of bytes, one per line, without the filter byte."""
    ihdr = struct.pack(">IIBBBBB", w, h, depth, ctype, 0, 0, 0)
    idat = zlib.compress(b"".join(b"\0" + r for r in rows), 9)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", ihdr) + extra + chunk(b"IDAT", idat) + chunk(b"IEND", b"")


def texture(h, w, seed=7):
    rng = np.random.RandomState(seed)
    y, x = np.mgrid[0:h, 0:w]
    a = np.stack([128 + 90 * np.sin(x / 5.0), 128 + 90 * np.cos(y / 7.0), 128 + 60 * np.sin((x + y) / 3.0)], -1)
    return np.clip(a + rng.randint(-12, 13, a.shape), 0, 255).astype(np.uint8)


def gz(data, level=9):
    b = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", fileobj=b, mtime=0, compresslevel=level) as f:
        f.write(data)
    return b.getvalue()


def sof_offset(j):
    i = 2
    while i < len(j):
        assert j[i] == 0xFF
        m, n = j[i + 1], struct.unpack(">H", j[i + 2:i + 4])[0]
        if m in (0xC0, 0xC1, 0xC2):
            return i
        i += 2 + n
    raise ValueError("no SOF")


def images():
    # CMYK, Adobe marker, transform 0 (ink values are stored inverted, as Adobe does)
    cmyk = [(0, 0, 0, 0), (255, 0, 0, 0), (0, 128, 255, 64), (40, 80, 120, 200)]
    put("cmyk_adobe.jpg", jpeg(Image.fromarray(blocks(cmyk), "CMYK")))

    g = np.concatenate([np.full((32, 16), v, np.uint8) for v in (0, 60, 200, 255)], 1)
    put("gray.jpg", jpeg(Image.fromarray(g, "L")))

    v16 = np.array([0, 1, 127, 128, 255, 256, 257, 500, 4660, 32767, 32768, 43690,
                    65279, 65280, 65534, 65535], np.uint16).reshape(4, 4)
    put("gray16.png", raw_png(4, 4, 16, 0, [r.astype(">u2").tobytes() for r in v16]))
    rgb16 = np.array([[[0x1234, 0x8000, 0xFFFF], [0x00FF, 0x0100, 0x0101], [0xFEFF, 0x7FFF, 0x0001]]], np.uint16)
    put("rgb16.png", raw_png(3, 1, 16, 2, [r.astype(">u2").tobytes() for r in rgb16]))

    pal = bytes([255, 0, 0, 0, 255, 0, 0, 0, 255, 10, 20, 30])
    idx = np.array([[0, 1, 2, 3, 0], [3, 2, 1, 0, 3], [0, 0, 3, 3, 1]], np.uint8)
    put("palette_trns.png", raw_png(5, 3, 8, 3, [r.tobytes() for r in idx],
                                        chunk(b"PLTE", pal) + chunk(b"tRNS", bytes([0, 128, 255]))))
    # two palette entries, one bit a pixel, 9 pixels wide: 10110011 1
    put("palette_1bit.png", raw_png(9, 2, 1, 3, [bytes([0b10110011, 0b10000000]), bytes([0b01001100, 0])],
                                        chunk(b"PLTE", bytes([12, 34, 56, 200, 150, 100]))))
    rgba = np.array([[[200, 100, 50, 0], [200, 100, 50, 128], [1, 2, 3, 255]]], np.uint8)
    put("rgba.png", png(Image.fromarray(rgba, "RGBA")))
    la = np.array([[[100, 0], [100, 255], [7, 9]]], np.uint8)
    put("gray_alpha.png", png(Image.fromarray(la, "LA")))

    quad = blocks([(255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255)], 16)[:, :, :]
    quad = np.repeat(quad, 2, 1)            # 64 wide, 32 high
    im = Image.fromarray(quad)
    ex = im.getexif()
    ex[0x0112] = 6
    put("exif_orientation6.jpg", jpeg(im, exif=ex.tobytes()))

    t = jpeg(Image.fromarray(texture(96, 96)), quality=90, subsampling=2)
    put("whole.jpg", t)
    put("truncated_half.jpg", t[:len(t) // 2])
    put("truncated_header.jpg", t[:200])
    put("no_eoi.jpg", t[:-2])
    put("trailing_junk.jpg", t + b"\0" * 37 + b"not part of the picture")
    put("zero_bytes.jpg", b"")
    put("html_page.jpg", b"<!DOCTYPE html><html><body>404 not found</body></html>\n")
    put("png_inside.JPEG", png(Image.fromarray(blocks([(9, 99, 199), (50, 60, 70)], 8))))
    b = io.BytesIO()
    Image.fromarray(blocks([(9, 99, 199), (50, 60, 70)], 8)).save(b, "BMP")
    put("bmp_inside.jpg", b.getvalue())
    put("gzip_inside.JPEG", gz(t))
    put("jpeg_inside.png", jpeg(Image.fromarray(blocks([(9, 99, 199), (50, 60, 70)], 8))))

    put("baseline.jpg", jpeg(Image.fromarray(texture(50, 70, 3)), quality=85, subsampling=2))
    put("progressive.jpg", jpeg(Image.fromarray(texture(50, 70, 3)), quality=85, subsampling=2, progressive=True))
    o = jpeg(Image.fromarray(texture(13, 17, 5)), quality=95, subsampling=2)
    put("odd_420_17x13.jpg", o)
    put("odd_420_17x13.ref.png", png(Image.open(io.BytesIO(o))))

    s = bytearray(jpeg(Image.fromarray(texture(16, 16, 1)), quality=50))
    k = sof_offset(s)
    huge = bytearray(s)
    huge[k + 5:k + 9] = struct.pack(">HH", 65500, 65500)
    put("huge_dims.jpg", bytes(huge))
    p12 = bytearray(s)
    p12[k + 4] = 12
    put("precision12.jpg", bytes(p12))
    put("huge_dims.png", raw_png(100000, 100000, 8, 2, [b"\x10\x20\x30" * 8]))
    put("one_pixel.png", png(Image.fromarray(np.array([[[11, 22, 33]]], np.uint8))))
    put("one_pixel.jpg", jpeg(Image.fromarray(np.full((1, 1, 3), 128, np.uint8))))
    put("thin_1x1000.png", png(Image.fromarray(np.full((1000, 1, 3), 77, np.uint8))))
    put("wide_1000x10.png", png(Image.fromarray(
        np.tile((np.arange(1000) % 256).astype(np.uint8)[None, :, None], (10, 1, 3)))))


images()
