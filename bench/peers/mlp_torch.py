#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Peer of bench_mlp_gpu: the same job by PyTorch as an expert would write it for one GPU: data resident,
augmentation batched on the GPU, compiled model, fused AdamW, the whole training step in one CUDA graph, validation
in another.

Reads lines: "name", or a number of epochs; answers the epochs/s of each but the first, then the best top-1.
"""
import argparse
import gzip
import math
import os
import sys
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

parser = argparse.ArgumentParser()
parser.add_argument("--data", required=True)
parser.add_argument("--batch", type=int, default=200)
parser.add_argument("--widths", default="1024,512,256")
parser.add_argument("--activation", default="relu")
parser.add_argument("--dropout", type=float, default=0)
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--no-augment", action="store_true")
args = parser.parse_args()

torch.manual_seed(args.seed)
torch.backends.cuda.matmul.allow_tf32 = True
torch.set_float32_matmul_precision("high")
ACTIVATIONS = {"relu": nn.ReLU, "silu": nn.SiLU, "gelu": nn.GELU}
SCALE = 1024.0


def read(split, count):
    with gzip.open(os.path.join(args.data, f"{split}-images-idx3-ubyte.gz")) as f:
        images = np.frombuffer(f.read(), np.uint8, offset=16).reshape(count, 28, 28)
    with gzip.open(os.path.join(args.data, f"{split}-labels-idx1-ubyte.gz")) as f:
        labels = np.frombuffer(f.read(), np.uint8, offset=8)
    return torch.from_numpy(images.copy()).cuda(), torch.from_numpy(labels.astype("int64")).cuda()


def model():
    layers, width = [nn.Flatten()], 784
    for out in map(int, args.widths.split(",")):
        layers += [nn.Linear(width, out), ACTIVATIONS[args.activation]()]
        layers += [nn.Dropout(args.dropout)] if args.dropout > 0 else []
        width = out
    return nn.Sequential(*layers, nn.Linear(width, 10)).cuda()


def augment(x, train):
    """uint8 [B, 28, 28] -> [B, 1, 28, 28]: shift, rotate, scale, normalise, erase."""
    x = x.to(torch.float32).div(255).unsqueeze(1)
    count = x.shape[0]
    if train:
        angle = (torch.rand(count, device="cuda") * 2 - 1) * (20 * math.pi / 180)
        scale = torch.rand(count, device="cuda") * 0.4 + 0.8
        shift = torch.randint(-2, 3, (count, 2), device="cuda").float() / 14
        c, s = torch.cos(angle) / scale, torch.sin(angle) / scale
        theta = torch.stack([torch.stack([c, -s, shift[:, 0]], 1), torch.stack([s, c, shift[:, 1]], 1)], 1)
        x = F.grid_sample(x, F.affine_grid(theta, x.shape, align_corners=False), align_corners=False)
    x = (x - 0.1307) / 0.3081
    if train:
        area = 784 * (torch.rand(count, 1, 1, device="cuda") * 0.31 + 0.02)
        ratio = torch.exp((torch.rand(count, 1, 1, device="cuda") * 2 - 1) * math.log(3.3))
        h, w = torch.sqrt(area * ratio), torch.sqrt(area / ratio)
        top = torch.rand(count, 1, 1, device="cuda") * (28 - h).clamp(min=0)
        left = torch.rand(count, 1, 1, device="cuda") * (28 - w).clamp(min=0)
        i = torch.arange(28, device="cuda").view(1, 28, 1)
        j = torch.arange(28, device="cuda").view(1, 1, 28)
        inside = (i >= top) & (i < top + h) & (j >= left) & (j < left + w)
        inside &= torch.rand(count, 1, 1, device="cuda") < 0.5
        x = torch.where(inside.unsqueeze(1), torch.zeros_like(x), x)
    return x


def learning_rate(epoch, epochs, base=1e-3, warmup=5):
    if epoch < warmup:
        return base * (epoch + 1) / warmup
    return base * 0.5 * (1 + math.cos(math.pi * (epoch - warmup) / max(1, epochs - warmup)))


class Captured:
    """A function as one CUDA graph, after some calls on a side stream."""

    def __init__(self, function):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(4):
                function()
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            function()
        self.replay = self.graph.replay


class Job:
    def __init__(self):
        self.x, self.y = read("train", 60000)
        self.xv, self.yv = read("t10k", 10000)
        self.steps, self.val_steps = 60000 // args.batch, 10000 // min(args.batch, 10000)
        self.val_batch = min(args.batch, 10000)
        self.net = model()
        weights = [p for p in self.net.parameters() if p.ndim > 1]
        biases = [p for p in self.net.parameters() if p.ndim <= 1]
        self.rate = torch.tensor(1e-3, device="cuda")
        self.optimizer = torch.optim.AdamW([dict(params=weights, weight_decay=1e-4),
                                            dict(params=biases, weight_decay=0.0)],
                                           lr=self.rate, fused=True, capturable=True)
        criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
        options = {"max_autotune": True, "triton.cudagraphs": False}
        self.forward = torch.compile(lambda x, y: criterion(self.net(x), y), options=options)
        self.augment = torch.compile(augment, options=options)
        self.indices = torch.zeros(args.batch, dtype=torch.long, device="cuda")
        self.correct = torch.zeros((), dtype=torch.long, device="cuda")
        self.first = torch.zeros(1, dtype=torch.long, device="cuda")
        self.range = torch.arange(self.val_batch, device="cuda")
        self.images = augment(self.xv, False)
        start = [p.detach().clone() for p in self.net.parameters()]
        for p in self.net.parameters():
            p.grad = torch.zeros_like(p)
        self.net.train()
        self.train_graph = Captured(self.train_step)
        self.net.eval()
        self.val_graph = Captured(self.val_step)
        self.net.train()
        with torch.no_grad():
            for p, s in zip(self.net.parameters(), start):
                p.copy_(s)
        for state in self.optimizer.state.values():
            for value in state.values():
                value.zero_()

    def train_step(self):
        self.optimizer.zero_grad(set_to_none=False)
        x = self.augment(self.x[self.indices], not args.no_augment)
        with torch.amp.autocast("cuda"):
            loss = self.forward(x, self.y[self.indices])
        (loss * SCALE).backward()
        for p in self.net.parameters():
            p.grad.mul_(1 / SCALE)
        self.optimizer.step()

    def val_step(self):
        at = (self.range + self.first) % 10000  # calls before the capture run past the set
        with torch.no_grad(), torch.amp.autocast("cuda"):
            self.correct.add_((self.net(self.images[at]).argmax(1) == self.yv[at]).sum())
        self.first.add_(self.val_batch)

    def run(self, epochs):
        rates, best = [], 0
        for epoch in range(epochs):
            torch.cuda.synchronize()
            start = time.perf_counter()
            self.rate.fill_(learning_rate(epoch, epochs))
            order = torch.randperm(60000, device="cuda")[: self.steps * args.batch].view(self.steps, args.batch)
            for batch in range(self.steps):
                self.indices.copy_(order[batch])
                self.train_graph.replay()
            self.correct.zero_()
            self.first.zero_()
            for _ in range(self.val_steps):
                self.val_graph.replay()
            best = max(best, self.correct.item() / (self.val_steps * self.val_batch))
            torch.cuda.synchronize()
            rates.append(1 / (time.perf_counter() - start))
        return rates[1:], best


def main():
    job = None
    for line in sys.stdin:
        if line.strip() == "name":
            print(f"torch {torch.__version__}, compiled, one CUDA graph a step", flush=True)
            continue
        job = job or Job()
        rates, best = job.run(int(line))
        print(*rates, best, flush=True)


main()
