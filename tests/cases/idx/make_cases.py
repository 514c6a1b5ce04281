#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the IDX files of this folder again, byte for byte up to the installed zlib. Pixel (image i, row r,
column c) of the good files is (50 i + 3 r + c) mod 256.

    python3 make_cases.py [target folder, default: the folder of this script]
"""
import gzip
import io
import os
import struct
import sys

OUT = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))


def put(name, data):
    with open(os.path.join(OUT, name), "wb") as f:
        f.write(data)


def gz(data):
    b = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", fileobj=b, mtime=0, compresslevel=9) as f:
        f.write(data)
    return b.getvalue()


def images(n, h=28, w=28):
    body = bytes((50 * i + 3 * r + c) % 256 for i in range(n) for r in range(h) for c in range(w))
    return struct.pack(">IIII", 0x803, n, h, w) + body


def labels(values):
    return struct.pack(">II", 0x801, len(values)) + bytes(values)


def main():
    ok = images(10)
    put("ok-images-idx3-ubyte", ok)
    put("ok-images-idx3-ubyte.gz", gz(ok))
    put("ok-labels-idx1-ubyte", labels([7, 2, 1, 0, 4, 1, 4, 9, 5, 9]))
    put("ok-labels-idx1-ubyte.gz", gz(labels([7, 2, 1, 0, 4, 1, 4, 9, 5, 9])))
    put("wrong_magic-images-idx3-ubyte", b"\0\0\x08\x02" + ok[4:])
    put("gz_under_raw_name-images-idx3-ubyte", gz(ok))
    put("raw_under_gz_name-images-idx3-ubyte.gz", ok)
    put("html-images-idx3-ubyte.gz", b"<!DOCTYPE html><html><body>503</body></html>\n")
    put("truncated-images-idx3-ubyte.gz", gz(ok)[:len(gz(ok)) * 2 // 3])
    put("empty-images-idx3-ubyte", b"")
    put("header_cut-images-idx3-ubyte", ok[:11])
    put("short_payload-images-idx3-ubyte", ok[:16 + 7 * 784])
    put("long_payload-images-idx3-ubyte", ok + bytes(2 * 784))
    put("nine-labels-idx1-ubyte", labels([7, 2, 1, 0, 4, 1, 4, 9, 5]))
    put("label10-labels-idx1-ubyte", labels([7, 2, 1, 0, 10, 1, 4, 9, 5, 9]))
    put("label255-labels-idx1-ubyte", labels([7, 2, 1, 0, 255, 1, 4, 9, 5, 9]))
    put("little_endian-images-idx3-ubyte", struct.pack("<IIII", 0x803, 10, 28, 28) + ok[16:])
    put("le_count-images-idx3-ubyte", struct.pack(">I", 0x803) + struct.pack("<I", 10) + ok[8:])
    put("zero_count-images-idx3-ubyte", struct.pack(">IIII", 0x803, 0, 28, 28))
    put("rows20_cols30-images-idx3-ubyte", images(4, 20, 30))
    put("rows20_cols30-labels-idx1-ubyte", labels([0, 1, 2, 3]))
    put("int32-images-idx3", struct.pack(">IIII", 0xC03, 2, 4, 4) + struct.pack(">32i", *range(32)))


main()
