# SPDX-License-Identifier: Apache-2.0
"""PyTorch's side of bench_mlp_cpu: one training step of an MLP on the CPU.

usage: mlp_cpu.py FILE.safetensors THREADS LEARNING_RATE WEIGHT_DECAY SMOOTHING

FILE holds the initial weights ("0.weight", "0.bias", "2.weight" ...), the batches "x" [B, N, K] and their labels
"y" [B, N]. Then one command a line on standard input, one answer a line on standard output:

  version          "torch 2.11.0, 2 threads"
  loss N PRECISION loss of step N, from the initial weights, batch (i mod B) in step i
  time N PRECISION median milliseconds of N steps, after 5 that are not counted

PRECISION is fp32 or bf16 (autocast). The optimizer is the fused AdamW: the fastest that PyTorch has here.
"""
import statistics
import sys
import time

import torch
from safetensors.torch import load_file
from torch import nn

WARM_UP_STEPS = 5


class Training:
    def __init__(self, tensors, precision, lr, decay, smoothing):
        layers = []
        for i in range(0, 2 * sum(name.endswith(".weight") for name in tensors), 2):
            weight, bias = tensors[f"{i}.weight"], tensors[f"{i}.bias"]
            layer = nn.Linear(weight.shape[1], weight.shape[0])
            layer.weight.data.copy_(weight)
            layer.bias.data.copy_(bias)
            layers += [layer, nn.ReLU()]
        self.model = nn.Sequential(*layers[:-1])
        self.loss = nn.CrossEntropyLoss(label_smoothing=smoothing)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=lr, weight_decay=decay, fused=True)
        self.x, self.y = tensors["x"], tensors["y"].long()
        self.low = precision == "bf16"
        self.done = 0

    def step(self):
        batch = self.done % self.x.shape[0]
        self.done += 1
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=self.low):
            loss = self.loss(self.model(self.x[batch]), self.y[batch])
        loss.backward()
        self.optimizer.step()
        return loss


def main():
    tensors = load_file(sys.argv[1])
    threads = int(sys.argv[2])
    settings = [float(a) for a in sys.argv[3:6]]
    torch.set_num_threads(threads)
    timed = {}
    for line in sys.stdin:
        command, *rest = line.split()
        if command == "version":
            answer = f"torch {torch.__version__.split('+')[0]}, {threads} threads"
        elif command == "loss":
            training = Training(tensors, rest[1], *settings)
            for _ in range(int(rest[0])):
                loss = training.step()
            answer = repr(loss.item())
        else:
            if rest[1] not in timed:
                timed[rest[1]] = Training(tensors, rest[1], *settings)
            training = timed[rest[1]]
            for _ in range(WARM_UP_STEPS):
                training.step()
            seconds = []
            for _ in range(int(rest[0])):
                start = time.perf_counter()
                training.step()
                seconds.append(time.perf_counter() - start)
            answer = repr(statistics.median(seconds) * 1e3)
        print(answer, flush=True)


main()
