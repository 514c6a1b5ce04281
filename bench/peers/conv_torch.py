#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Peer of bench_conv: the same networks by PyTorch, channels last, cuDNN benchmarking its engines, fused SGD, input
resident on the GPU; eager, compiled, or compiled with max-autotune.

Reads lines: "name", or "ROW EPOCHS STEPS"; answers the images/s of each epoch but the first.
"""
import argparse
import sys

import torch
import torch.nn as nn
import torchvision

parser = argparse.ArgumentParser()
parser.add_argument("--batch", type=int, default=256)
parser.add_argument("--mode", default="default", choices=["eager", "default", "max-autotune"])
parser.add_argument("--amp", default="fp16", choices=["off", "fp16", "bf16"])
parser.add_argument("--device", type=int, default=0)
args = parser.parse_args()

torch.cuda.set_device(args.device)
torch.backends.cudnn.benchmark = True
torch.backends.cudnn.allow_tf32 = True
torch.backends.cuda.matmul.allow_tf32 = True
DTYPE = {"fp16": torch.float16, "bf16": torch.bfloat16}.get(args.amp)


def network(row):
    if row == "resnet50":
        return torchvision.models.resnet50(num_classes=1000)
    model = torchvision.models.vgg16_bn(num_classes=1000)
    for layer in model.features:  # the article's: no bias before a batch norm, no pooling at the end
        if isinstance(layer, nn.Conv2d):
            layer.bias = None
    model.avgpool = nn.Identity()
    return model


class Job:
    def __init__(self, row):
        self.net = network(row).cuda().to(memory_format=torch.channels_last)
        weights = [p for p in self.net.parameters() if p.ndim > 1]
        others = [p for p in self.net.parameters() if p.ndim <= 1]
        # A tiny rate keeps gradients alive on one fixed batch.
        self.optimizer = torch.optim.SGD([dict(params=weights, weight_decay=1e-4), dict(params=others, weight_decay=0.0)],
                                         lr=1e-7, momentum=0.9, nesterov=True, fused=True)
        self.forward = self.net
        if args.mode != "eager":
            self.forward = torch.compile(self.net, mode=None if args.mode == "default" else args.mode)
        self.loss = nn.CrossEntropyLoss(label_smoothing=0.1)
        self.scaler = torch.amp.GradScaler("cuda", enabled=args.amp == "fp16")
        self.x = torch.randn(args.batch, 3, 224, 224, device="cuda").to(memory_format=torch.channels_last)
        self.y = torch.randint(0, 1000, (args.batch,), device="cuda")

    def step(self):
        self.optimizer.zero_grad(set_to_none=True)
        with torch.amp.autocast("cuda", dtype=DTYPE or torch.float16, enabled=DTYPE is not None):
            loss = self.loss(self.forward(self.x), self.y)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()

    def run(self, epochs, steps):
        rates = []
        for _ in range(epochs):
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            for _ in range(steps):
                self.step()
            end.record()
            torch.cuda.synchronize()
            rates.append(args.batch * steps / begin.elapsed_time(end) * 1000)
        return rates[1:]


def main():
    for line in sys.stdin:
        if line.strip() == "name":
            print(f"torch {torch.__version__}, {args.mode}", flush=True)
            continue
        row, epochs, steps = line.split()
        print(*Job(row).run(int(epochs), int(steps)), flush=True)


main()
