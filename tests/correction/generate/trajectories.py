# SPDX-License-Identifier: Apache-2.0
"""Training runs of small models: initial weights, data in order, loss of every step, final weights.

Samples are taken in order without a shuffle, batch after batch, epoch after epoch; the last batch
of an epoch may be smaller. Weights decay, biases do not.
"""

import json
import math

import torch
import torch.nn.functional as F
from torch import nn

from generate.optimizer_formulas import Lamb, Lars, Lion, MuonAndAdamW
from generate.writer import as_float32_values, uniform


def mlp(outputs=5, activation=nn.ReLU):
    return nn.Sequential(
        nn.Linear(12, 16), activation(), nn.Linear(16, 8), activation(), nn.Linear(8, outputs)
    )


class TwoInput(nn.Module):
    """head(concat(h, b)) with h = relu(left(a) + right(b))."""

    def __init__(self):
        super().__init__()
        self.left, self.right, self.head = nn.Linear(6, 10), nn.Linear(4, 10), nn.Linear(14, 5)
        self.relu = nn.ReLU()

    def forward(self, a, b):
        return self.head(torch.cat([self.relu(self.left(a) + self.right(b)), b], -1))


class Tied(nn.Module):
    """The same layer used twice."""

    def __init__(self):
        super().__init__()
        self.inner, self.head = nn.Linear(12, 12), nn.Linear(12, 5)

    def forward(self, x):
        return self.head(torch.tanh(self.inner(torch.tanh(self.inner(x)))))


class Branching(nn.Module):
    """A residual block, then a side branch joined by concat: one tensor with three readers."""

    def __init__(self):
        super().__init__()
        self.stem, self.body0, self.body1 = nn.Linear(12, 10), nn.Linear(10, 10), nn.Linear(10, 10)
        self.side, self.head = nn.Linear(10, 6), nn.Linear(16, 5)
        self.relu = nn.ReLU()

    def forward(self, x):
        x = self.relu(self.stem(x))
        y = self.body1(self.relu(self.body0(x))) + x
        return self.head(torch.cat([y, F.silu(self.side(y))], -1))


class Residual(nn.Module):
    def __init__(self, *body):
        super().__init__()
        self.body = nn.Sequential(*body)

    def forward(self, x):
        return x + self.body(x)


class Attention(nn.Module):
    """Causal, two heads."""

    def __init__(self):
        super().__init__()
        self.in_proj, self.out_proj = nn.Linear(8, 24), nn.Linear(8, 8)

    def forward(self, x):
        parts = [p.unflatten(-1, (2, 4)).transpose(1, 2) for p in self.in_proj(x).split(8, -1)]
        y = F.scaled_dot_product_attention(*parts, is_causal=True)
        return self.out_proj(y.transpose(1, 2).flatten(2))


class Rows(nn.Module):
    """A parameter of that many rows."""

    def __init__(self, rows):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(rows, 8))


class Transformer(nn.Module):
    """Four places of three numbers and a class token, one block, the mean of all places."""

    def __init__(self):
        super().__init__()
        self.stem, self.head, self.norm = nn.Linear(3, 8), nn.Linear(8, 5), nn.LayerNorm(8)
        self.tokens, self.positions = Rows(1), Rows(5)
        self.block = nn.Sequential(
            Residual(nn.LayerNorm(8), Attention()),
            Residual(nn.LayerNorm(8), nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 8)),
        )

    def forward(self, x):
        x = self.stem(x.unflatten(-1, (4, 3)))
        x = torch.cat([self.tokens.weight.expand(len(x), 1, 8), x], 1) + self.positions.weight
        return self.head(self.norm(self.block(x)).mean(1))


def _sgd(**options):
    return lambda groups, lr: torch.optim.SGD(groups, lr=lr, **options)


def _made(kind, **options):
    return lambda groups, lr: kind(groups, lr=lr, **options)


def _cosine(epochs, warmup, base):
    def rate(epoch):
        if epoch < warmup:
            return base * (epoch + 1) / warmup
        return base * (1 + math.cos(math.pi * (epoch - warmup) / max(1, epochs - warmup - 1))) / 2

    return rate


def _by_name(params, decay, lr, momenta):
    """Rates and `momenta` by layer, decays by layer and kind: grouped() of run_golden_test.cpp."""
    groups = []
    for name, param in params:
        layer, kind = name.split(".")
        rate = lr * {"0": 0.25, "2": 0.5, "4": 1.0}[layer]
        own = {"0.weight": 0.2 * decay, "4.weight": 0.0}.get(name, decay)
        own = 0.02 if kind == "bias" else own
        groups.append(
            {"params": [param], "lr": rate, "weight_decay": own, **momenta.get(layer, {})}
        )
    return groups


ADAMW = dict(make=lambda groups, lr: torch.optim.AdamW(groups, lr=lr), lr=0.01, decay=0.05)
SGD = dict(make=_sgd(momentum=0.9), lr=0.05, decay=0.0)

# Defaults: 350 samples, batch 7, one epoch: 50 steps. They draw one after another: a new one goes to the end.
RUNS = {
    "sgd": dict(make=_sgd(), lr=0.1, decay=0.01),
    "sgd_momentum": dict(make=_sgd(momentum=0.9), lr=0.05, decay=0.001),
    "sgd_nesterov": dict(make=_sgd(momentum=0.9, nesterov=True), lr=0.05, decay=0.001),
    "adam": dict(make=lambda groups, lr: torch.optim.Adam(groups, lr=lr), lr=0.01, decay=0.01),
    "adamw": ADAMW,
    "clip_norm": dict(SGD, clip_norm=0.5),
    "clip_value": dict(SGD, clip_value=0.02),
    "accumulate": dict(SGD, samples=525, batch=7, micro=3, epochs=2),
    "ragged": dict(SGD, samples=54, epochs=6),
    "accumulate_ragged": dict(SGD, samples=50, micro=3, epochs=10),
    "ema": dict(ADAMW, ema=0.95),
    "smoothing": dict(SGD, smoothing=0.1),
    "soft_labels": dict(SGD, labels="soft", smoothing=0.1),
    "cosine_warmup": dict(SGD, samples=35, epochs=10, schedule=_cosine(10, 3, 0.05)),
    "mse": dict(ADAMW, model=lambda: mlp(3, nn.Tanh), labels="regression"),
    "bce": dict(ADAMW, model=lambda: mlp(4, nn.SiLU), labels="binary"),
    "two_input": dict(SGD, model=TwoInput, inputs=(6, 4)),
    "tied": dict(ADAMW, model=Tied),
    "branching": dict(ADAMW, model=Branching),
    "lion": dict(make=_made(Lion), lr=0.003, decay=0.1),
    "rmsprop": dict(make=_made(torch.optim.RMSprop, momentum=0.5), lr=0.002, decay=0.01),
    "adagrad": dict(make=_made(torch.optim.Adagrad), lr=0.05, decay=0.01),
    "lars": dict(make=_made(Lars, momentum=0.9, trust_coeff=0.02), lr=0.1, decay=0.01),
    "lamb": dict(make=_made(Lamb), lr=0.02, decay=0.05),
    "muon": dict(
        make=_made(MuonAndAdamW, adam_rate=0.5),
        low=_made(MuonAndAdamW, adam_rate=0.5, bf16=True),
        lr=0.02,
        decay=0.1,
    ),
    "transformer": dict(SGD, model=Transformer, samples=175),
    "groups_sgd": dict(SGD, decay=0.05, samples=175, by_name=True),
    "groups_adamw": dict(ADAMW, samples=175, by_name=True),
    "groups_lars": dict(
        make=_made(Lars, momentum=0.9, trust_coeff=0.02),
        lr=0.1,
        decay=0.01,
        samples=175,
        by_name=True,
    ),
    "groups_lamb": dict(make=_made(Lamb), lr=0.02, decay=0.05, samples=175, by_name=True),
    "groups_momentum": dict(
        make=_sgd(momentum=0.9, nesterov=True),
        lr=0.05,
        decay=0.05,
        samples=175,
        by_name=True,
        momenta={"0": dict(momentum=0.5), "4": dict(momentum=0.0)},
    ),
    "groups_betas": dict(
        ADAMW,
        samples=175,
        by_name=True,
        momenta={"0": dict(betas=(0.8, 0.99)), "4": dict(betas=(0.95, 0.98))},
    ),
}


def _data(generator, samples, inputs, labels):
    fields = [uniform(generator, samples, width, low=-2, high=2) for width in inputs]
    joined = torch.cat(fields, -1)
    scores = torch.sin(joined @ uniform(generator, joined.shape[1], 5, low=-2, high=2))
    if labels == "hard":
        target = scores.argmax(-1)
    elif labels == "soft":
        target = as_float32_values(torch.softmax(3 * scores, -1))
    elif labels == "regression":
        target = as_float32_values(scores[:, :3])
    else:
        target = (scores[:, :4] > 0).to(torch.float64)
    return fields, target


def _loss(output, target, labels, smoothing):
    """Sum over the samples."""
    if labels in ("hard", "soft"):
        return F.cross_entropy(output, target, label_smoothing=smoothing, reduction="sum")
    function = F.mse_loss if labels == "regression" else F.binary_cross_entropy_with_logits
    return function(output, target) * output.shape[0]


def _initialise(model, generator):
    """Kaiming uniform weights, small biases, all exact in float32."""
    for param in model.parameters():
        bound = math.sqrt(6 / param.shape[1]) if param.dim() == 2 else 0.1
        param.data = uniform(generator, *param.shape, low=-bound, high=bound)
    for module in model.modules():
        if isinstance(module, nn.LayerNorm):
            module.weight.data = as_float32_values(1 + module.weight.data)


def _relu_margin(model):
    """Least distance of a ReLU's input from 0: within rounding error a run would be ill-defined."""
    margins = [math.inf]

    def watch(_, inputs):
        margins[0] = min(margins[0], float(inputs[0].detach().abs().min()))

    for module in model.modules():
        if isinstance(module, nn.ReLU):
            module.register_forward_pre_hook(watch)
    return margins


def _run(
    generator,
    make,
    lr,
    decay,
    samples=350,
    batch=7,
    micro=1,
    epochs=1,
    model=mlp,
    inputs=(12,),
    labels="hard",
    smoothing=0.0,
    clip_norm=0.0,
    clip_value=0.0,
    ema=0.0,
    schedule=None,
    by_name=False,
    momenta=None,
    nudge=None,
):
    net = model().to(torch.float64)
    _initialise(net, generator)
    fields, target = _data(generator, samples, inputs, labels)
    names = ["image"] if len(inputs) == 1 else ["a", "b"]
    label = {"hard": "label", "soft": "label"}.get(labels, "target")
    stored_target = target.to(torch.int32) if labels == "hard" else target
    tensors = {f"field.{name}": field for name, field in zip(names, fields)}
    tensors[f"field.{label}"] = stored_target
    tensors.update({f"initial.{k}": v.clone() for k, v in net.state_dict().items()})
    for param in net.parameters() if nudge else []:
        param.data *= 1 + 2**-20 * uniform(nudge, *param.shape)
    margins = _relu_margin(net)
    weights = [p for p in net.parameters() if p.dim() > 1]
    biases = [p for p in net.parameters() if p.dim() == 1]
    groups = [{"params": weights, "weight_decay": decay}, {"params": biases, "weight_decay": 0.0}]
    if by_name:
        groups = _by_name(net.named_parameters(), decay, lr, momenta or {})
    optimizer = make(groups, lr)
    averaged = {k: v.clone() for k, v in net.state_dict().items()}
    losses, clipped, step_samples = [], 0, batch * micro
    for epoch in range(epochs):
        for group in optimizer.param_groups if schedule else []:
            group["lr"] = schedule(epoch)
        for begin in range(0, samples, step_samples):
            end = min(begin + step_samples, samples)
            optimizer.zero_grad()
            loss = _loss(
                net(*[f[begin:end] for f in fields]), target[begin:end], labels, smoothing
            ) / (end - begin)
            loss.backward()
            losses.append(loss.detach())
            if clip_norm:
                clipped += (
                    float(torch.nn.utils.clip_grad_norm_(net.parameters(), clip_norm)) > clip_norm
                )
            if clip_value:
                clipped += any(float(p.grad.abs().max()) > clip_value for p in net.parameters())
                torch.nn.utils.clip_grad_value_(net.parameters(), clip_value)
            optimizer.step()
            for key, value in net.state_dict().items():
                averaged[key] = ema * averaged[key] + (1 - ema) * value
    tensors["losses"] = torch.stack(losses)
    tensors.update({f"final.{k}": v.clone() for k, v in net.state_dict().items()})
    if ema:
        tensors.update({f"ema.{k}": v for k, v in averaged.items()})
    if clip_norm or clip_value:
        assert clipped > 10, "clipping never happened"
    # A sign whose argument's terms cancel to 1e-5 would hang on rounding.
    return tensors, min(margins[0], 5 * getattr(optimizer, "margin", math.inf))


def _low_distances(tensors, generator, run):
    """Root mean square distances of `run` in bf16 from these losses and weights, over eight starts
    that differ by a rounding: a single one may stay twice as near as another."""
    names = [name for name in tensors if name.startswith("final.")]
    weights = torch.cat([tensors[name].flatten() for name in names])
    squares = {"losses": [], "weights": []}
    for seed in range(8):
        low, _ = _run(generator.clone_state(), nudge=torch.Generator().manual_seed(seed), **run)
        ends = torch.cat([low[name].flatten() for name in names])
        squares["losses"].append((low["losses"] - tensors["losses"]).square().mean())
        squares["weights"].append((ends - weights).square().mean())
    rms = {key: math.sqrt(sum(values) / len(values)) for key, values in squares.items()}
    return {f"{key}_rms_of_bf16": f"{value:.3e}" for key, value in rms.items()}


def write(writer, generator):
    for name, options in RUNS.items():
        run = {key: value for key, value in options.items() if key != "low"}
        for _ in range(20):
            twin = generator.clone_state()
            tensors, margin = _run(generator, **run)
            if margin > 5e-5:
                break
        else:
            raise RuntimeError(f"{name}: every try has a ReLU input near 0")
        settings = {k: v for k, v in run.items() if isinstance(v, (int, float, str))}
        facts = {}
        if "low" in options:
            facts = _low_distances(tensors, twin, {**run, "make": options["low"]})
        writer.save(
            f"run_{name}",
            tensors,
            steps=len(tensors["losses"]),
            relu_margin=f"{margin:.1e}",
            settings=json.dumps(settings, sort_keys=True),
            **facts,
        )
        losses = tensors["losses"]
        ends = f"{losses[0]:.4f} -> {losses[-1]:.4f}"
        print(f"  run_{name}: {len(losses)} steps, loss {ends}, margin {margin:.1e}")
