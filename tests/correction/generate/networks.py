# SPDX-License-Identifier: Apache-2.0
"""Convolutional networks: outputs of torchvision's models on shared weights, and training runs.

Steps: a ResNet-18 and a VGG11-BN of few channels; state before and after each of some steps,
rounded to float32 in between, so that a step can be made from exactly PyTorch's state.
Runs: both at full width, 50 free steps, the losses in float64, in float32 and under autocast to
bfloat16.
"""

import json
import math

import torch
import torch.nn.functional as F
import torchvision
from torch import nn

from generate import shared_values
from generate.writer import as_float32_values

OUTPUTS = {
    **{f"vgg{depth}": 64 for depth in ("11", "11_bn", "13", "13_bn", "16", "16_bn", "19", "19_bn")},
    **{f"resnet{depth}": 64 for depth in (18, 34, 50, 101, 152)},
    "wide_resnet50_2": 64,
    "resnext50_32x4d": 64,
    "mobilenet_v2": 64,
    "mobilenet_v3_large": 64,
    "efficientnet_b0": 64,
    "densenet121": 64,
}
OUTPUT_BATCH = 2

LR, MOMENTUM, DECAY, CLASSES = 0.05, 0.9, 1e-3, 10


def outputs(writer):
    """Class scores in evaluation, running statistics included."""
    for name, size in OUTPUTS.items():
        model = torchvision.models.get_model(name, weights=None).to(torch.float64)
        shared_values.fill(model)
        model.eval()
        with torch.no_grad():
            scores = model(shared_values.pictures("pictures", OUTPUT_BATCH, size))
        writer.save(f"zoo_{name}", {"scores": scores}, size=size)
        print(f"  zoo_{name}: largest score {float(scores.abs().max()):.3g}")


def _resnet18(width):
    model = torchvision.models.resnet18(num_classes=CLASSES)
    if width == 64:
        return model

    def narrow(module):
        for name, child in module.named_children():
            if isinstance(child, nn.Conv2d):
                stem = child.in_channels == 3
                conv = nn.Conv2d(
                    3 if stem else child.in_channels * width // 64,
                    child.out_channels * width // 64,
                    child.kernel_size,
                    child.stride,
                    child.padding,
                    bias=False,
                )
                setattr(module, name, conv)
            elif isinstance(child, nn.BatchNorm2d):
                setattr(module, name, nn.BatchNorm2d(child.num_features * width // 64))
            elif isinstance(child, nn.Linear):
                setattr(module, name, nn.Linear(child.in_features * width // 64, CLASSES))
            else:
                narrow(child)

    narrow(model)
    return model


def _vgg11_bn(width):
    """torchvision's features (`width` channels in the first stage), then one linear layer."""
    layers, channels = [], 3
    for stage, times in zip((1, 2, 4, 8, 8), (1, 1, 2, 2, 2)):
        for _ in range(times):
            out = stage * width
            layers += [nn.Conv2d(channels, out, 3, padding=1), nn.BatchNorm2d(out), nn.ReLU()]
            channels = out
        layers.append(nn.MaxPool2d(2, 2))
    model = nn.Sequential()
    model.features, model.flatten = nn.Sequential(*layers), nn.Flatten()
    model.classifier = nn.Linear(channels, CLASSES)
    return model


NETWORKS = {"resnet18": _resnet18, "vgg11_bn": _vgg11_bn}


class Training:
    """SGD with Nesterov momentum; decay on weights of more than one axis."""

    def __init__(self, model, lr=LR):
        self.model = model
        weights = [p for p in model.parameters() if p.dim() > 1]
        others = [p for p in model.parameters() if p.dim() == 1]
        self.optimizer = torch.optim.SGD(
            [
                {"params": weights, "weight_decay": DECAY},
                {"params": others, "weight_decay": 0.0},
            ],
            lr=lr,
            momentum=MOMENTUM,
            nesterov=True,
        )

    def step(self, x, y):
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.model(x), y, label_smoothing=0.1)
        loss.backward()
        self.optimizer.step()
        return float(loss.detach())

    def state(self):
        values = {
            key: value
            for key, value in self.model.state_dict().items()
            if not key.endswith("num_batches_tracked")
        }
        moments = {
            key: self.optimizer.state[p]["momentum_buffer"]
            for key, p in self.model.named_parameters()
        }
        return values, moments

    def round(self):
        for part in self.state():
            for value in part.values():
                value.data.copy_(as_float32_values(value))


class Margin:
    """Least distance of a kink: of a ReLU's input from 0, of a window's two largest values."""

    def __init__(self, model):
        self.least = math.inf
        for module in model.modules():
            if isinstance(module, nn.ReLU):
                module.inplace = False
                module.register_forward_pre_hook(self.relu)
            elif isinstance(module, nn.MaxPool2d):
                module.register_forward_pre_hook(self.pool)

    def relu(self, _, inputs):
        self.least = min(self.least, float(inputs[0].detach().abs().min()))

    def pool(self, module, inputs):
        x = inputs[0].detach()
        batch, channels, *_ = x.shape
        kernel, padding = module.kernel_size, module.padding
        x = F.pad(x, [padding] * 4, value=-1.0)  # below every rectified value
        windows = F.unfold(x, kernel, stride=module.stride).reshape(batch, channels, kernel**2, -1)
        best = windows.topk(2, dim=2).values
        gap = (best[:, :, 0] - best[:, :, 1])[best[:, :, 0] > 0]  # all 0: no gradient passes
        self.least = min(self.least, float(gap.min()))


STEPS, STEP_BATCH, STEP_WIDTH, STEP_MARGIN = 3, 4, 2, 2e-5


def _steps(name, seed):
    model = NETWORKS[name](STEP_WIDTH).to(torch.float64)
    shared_values.fill(model)
    margin, training = Margin(model), Training(model)
    size = 32
    x = shared_values.pictures(f"warm-up {seed}", STEP_BATCH, size)
    y = shared_values.labels(f"warm-up labels {seed}", STEP_BATCH, CLASSES)
    training.step(x, y)  # so that there are moments
    margin.least = math.inf
    training.round()
    files, losses = [], []
    for step in range(STEPS + 1):
        values, moments = training.state()
        files.append({f"value.{k}": v.clone() for k, v in values.items()})
        files[-1].update({f"moment.{k}": v.clone() for k, v in moments.items()})
        if step == STEPS:
            break
        x = shared_values.pictures(f"pictures {seed} {step}", STEP_BATCH, size)
        y = shared_values.labels(f"labels {seed} {step}", STEP_BATCH, CLASSES)
        losses.append(training.step(x, y))
        training.round()
    return files, losses, margin.least


def steps(writer):
    for name in NETWORKS:
        for seed in range(200):
            files, losses, margin = _steps(name, seed)
            if margin > STEP_MARGIN:
                break
        else:
            raise RuntimeError(f"{name}: every try has a kink nearby")
        for number, tensors in enumerate(files):
            for part in ("value", "moment"):
                chosen = {k: v for k, v in tensors.items() if k.startswith(part)}
                writer.save(f"step_{name}_{number}_{part}", chosen)
        settings = dict(seed=seed, batch=STEP_BATCH, width=STEP_WIDTH, margin=f"{margin:.1e}")
        writer.save(
            f"step_{name}",
            {"losses": torch.tensor(losses, dtype=torch.float64)},
            settings=json.dumps(settings, sort_keys=True),
        )
        print(f"  step_{name}: try {seed}, losses {losses}, margin {margin:.1e}")


# A rate at which roundings do not grow without bound: 64 pictures are soon learnt by heart.
RUN_STEPS, RUN_BATCH, RUN_BATCHES, RUN_LR = 50, 16, 4, 0.001


class MixedTraining(Training):
    """The same under autocast to bfloat16 on the CPU: weights in float32."""

    def step(self, x, y):
        self.optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            scores = self.model(x)
        loss = F.cross_entropy(scores.float(), y, label_smoothing=0.1)
        loss.backward()
        self.optimizer.step()
        return float(loss.detach())


def _run(name, dtype, kind=Training):
    model = NETWORKS[name](64).to(torch.float64)
    shared_values.fill(model)
    training = kind(model.to(dtype), RUN_LR)
    losses = []
    for step in range(RUN_STEPS):
        batch = step % RUN_BATCHES
        x = shared_values.pictures(f"pictures {batch}", RUN_BATCH, 32).to(dtype)
        y = shared_values.labels(f"labels {batch}", RUN_BATCH, CLASSES)
        losses.append(training.step(x.contiguous(), y))
    return torch.tensor(losses, dtype=torch.float64)


def runs(writer):
    for name in NETWORKS:
        losses = {"losses": _run(name, torch.float64), "losses_float32": _run(name, torch.float32)}
        losses["losses_bfloat16"] = _run(name, torch.float32, MixedTraining)
        writer.save(f"free_{name}", losses)
        exact = losses["losses"]
        off = {key: f"{float((exact - run).abs().max()):.1e}" for key, run in losses.items()}
        print(f"  free_{name}: {exact[0]:.4f} -> {exact[-1]:.4f}, off by {off}")


def write(writer, generator):
    for part in (outputs, steps, runs):
        part(writer)
