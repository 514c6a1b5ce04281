#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Step time of torch.optim.Muon on one weight, beside the rows "muon" of bench_cuda_kernels.

    python3 bench/peers/muon_torch.py [--no-compile]

The step is captured in a CUDA graph, its Newton-Schulz compiled unless --no-compile. Prints JSON.
"""

import argparse
import json
import statistics

import torch
from torch.optim import _muon

SHAPES = ((1024, 1024), (4096, 4096), (4096, 16384))


def milliseconds(rows, columns, samples=20):
    weight = torch.nn.Parameter(torch.randn(rows, columns, device="cuda"))
    weight.grad = torch.randn_like(weight)
    copy = torch.empty_like(weight, dtype=torch.float16)
    optimizer = torch.optim.Muon([weight], lr=1e-3)

    def step():
        optimizer.step()
        copy.copy_(weight)

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    times = []
    for i in range(-3, samples):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        if i >= 0:
            times.append(begin.elapsed_time(end))
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--no-compile", action="store_true")
    args = parser.parse_args()
    if not args.no_compile:
        _muon._zeropower_via_newtonschulz = torch.compile(_muon._zeropower_via_newtonschulz)
    rows = []
    for shape in SHAPES:
        times = milliseconds(*shape)
        rows.append(
            {
                "name": "muon {}x{}".format(*shape),
                "unit": "ms",
                "n": len(times),
                "median": statistics.median(times),
                "spread": max(times) - min(times),
            }
        )
    print(json.dumps({"torch": torch.__version__, "gpu": torch.cuda.get_device_name(), "rows": rows}))


if __name__ == "__main__":
    main()
