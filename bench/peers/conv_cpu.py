# SPDX-License-Identifier: Apache-2.0
"""PyTorch's side of bench_conv_cpu: training steps of networks for 32 x 32 pictures on the CPU.

usage: conv_cpu.py FILE.safetensors MODEL THREADS LEARNING_RATE MOMENTUM WEIGHT_DECAY PRECISION

FILE holds the initial weights by their names in state_dict(), the batches "x" [B, N, H, W, C] and
their labels "y" [B, N]. MODEL is cifar_resnet18, cifar_resnet20 or cifar_vgg11_bn; PRECISION fp32 or
bf16 (autocast). Then one command a line on standard input, one answer a line on standard output:

  version        "torch 2.11.0, 2 threads"
  loss N         loss of step N, from the initial weights, batch (i mod B) in step i
  time N LAYOUT  median milliseconds of N steps, after 2 that are not counted; LAYOUT is contiguous
                 or channels_last

Batch norms and biases do not decay. The optimizer is the fused SGD.
"""

import statistics
import sys
import time

import torch
import torchvision
from safetensors.torch import load_file
from torch import nn

WARM_UP_STEPS = 2


def _resnet(blocks, width):
    model = torchvision.models.ResNet(
        torchvision.models.resnet.BasicBlock, [1, 1, 1, 1], num_classes=10
    )
    model.conv1, model.bn1 = nn.Conv2d(3, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)
    model.maxpool = nn.Identity()
    model.inplanes = width
    for i in range(4):
        layer = nn.Identity()
        if i < len(blocks):
            layer = model._make_layer(
                torchvision.models.resnet.BasicBlock, width << i, blocks[i], 1 if i == 0 else 2
            )
        setattr(model, f"layer{i + 1}", layer)
    model.fc = nn.Linear(width << (len(blocks) - 1), 10)
    return model


def _vgg11_bn():
    model = nn.Sequential()
    model.features = torchvision.models.vgg11_bn(weights=None, num_classes=10).features
    model.flatten, model.classifier = nn.Flatten(), nn.Linear(512, 10)
    return model


MODELS = {
    "cifar_resnet18": lambda: _resnet([2, 2, 2, 2], 64),
    "cifar_resnet20": lambda: _resnet([3, 3, 3], 16),
    "cifar_vgg11_bn": _vgg11_bn,
}


class Training:
    def __init__(self, name, tensors, layout, settings, precision):
        lr, momentum, decay = settings
        self.model = MODELS[name]()
        weights = {k: v for k, v in tensors.items() if k not in ("x", "y")}
        missing = self.model.load_state_dict(weights, strict=False)
        assert not missing.unexpected_keys, missing.unexpected_keys
        for module in self.model.modules():
            if getattr(module, "bias", None) is not None:
                nn.init.zeros_(module.bias)
        self.memory = {
            "contiguous": torch.contiguous_format,
            "channels_last": torch.channels_last,
        }[layout]
        self.model = self.model.to(memory_format=self.memory)
        decayed = [p for p in self.model.parameters() if p.dim() > 1]
        others = [p for p in self.model.parameters() if p.dim() == 1]
        self.optimizer = torch.optim.SGD(
            [{"params": decayed, "weight_decay": decay}, {"params": others, "weight_decay": 0.0}],
            lr=lr,
            momentum=momentum,
            nesterov=True,
            fused=True,
        )
        self.loss = nn.CrossEntropyLoss()
        images = tensors["x"].permute(0, 1, 4, 2, 3)
        self.x = [batch.contiguous(memory_format=self.memory) for batch in images]
        self.y = tensors["y"].long()
        self.low = precision == "bf16"
        self.done = 0

    def step(self):
        batch = self.done % len(self.x)
        self.done += 1
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=self.low):
            loss = self.loss(self.model(self.x[batch]), self.y[batch])
        loss.backward()
        self.optimizer.step()
        return loss


def main():
    tensors = load_file(sys.argv[1])
    name, threads, precision = sys.argv[2], int(sys.argv[3]), sys.argv[7]
    settings = [float(a) for a in sys.argv[4:7]]
    torch.set_num_threads(threads)
    timed = {}
    for line in sys.stdin:
        command, *rest = line.split()
        if command == "version":
            answer = f"torch {torch.__version__.split('+')[0]}, {threads} threads, {precision}"
        elif command == "loss":
            training = Training(name, tensors, "contiguous", settings, precision)
            for _ in range(int(rest[0])):
                loss = training.step()
            answer = repr(loss.item())
        else:
            layout = rest[1]
            if layout not in timed:
                timed[layout] = Training(name, tensors, layout, settings, precision)
            for _ in range(WARM_UP_STEPS):
                timed[layout].step()
            seconds = []
            for _ in range(int(rest[0])):
                start = time.perf_counter()
                timed[layout].step()
                seconds.append(time.perf_counter() - start)
            answer = repr(statistics.median(seconds) * 1e3)
        print(answer, flush=True)


if __name__ == "__main__":
    main()
