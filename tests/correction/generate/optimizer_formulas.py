# SPDX-License-Identifier: Apache-2.0
"""Optimizers that torch.optim does not have, written after the implementations that are named."""

import math

import torch
from torch.optim import Optimizer


def _norm_ratio(scale, first, second, divisor):
    """scale * first / divisor where both norms are above 0, else 1."""
    return scale * float(first) / float(divisor) if first > 0 and second > 0 else 1.0


class Lion(Optimizer):
    """lion-pytorch 0.2 (github.com/lucidrains/lion-pytorch, lion_pytorch.py, update_fn)."""

    def __init__(self, params, lr, betas=(0.9, 0.99), weight_decay=0.0):
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay))
        self.margin = math.inf  # least distance of a sign's argument from 0, relative to its terms

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in (p for p in group["params"] if p.grad is not None):
                state = self.state[p]
                if not state:
                    state["exp_avg"] = torch.zeros_like(p)
                moment = state["exp_avg"]
                p.mul_(1 - group["lr"] * group["weight_decay"])
                old, new = moment * beta1, p.grad * (1 - beta1)
                update = old + new
                seen = update != 0
                if seen.any():
                    terms = old.abs() + new.abs()
                    self.margin = min(self.margin, float((update.abs() / terms)[seen].min()))
                p.add_(update.sign(), alpha=-group["lr"])
                moment.mul_(beta2).add_(p.grad, alpha=1 - beta2)


class Lars(Optimizer):
    """timm 1.0 (timm/optim/lars.py, Lars.step); rate_in_momentum: arXiv:1708.03888, algorithm 1."""

    def __init__(
        self,
        params,
        lr,
        momentum=0.0,
        nesterov=False,
        weight_decay=0.0,
        trust_coeff=0.001,
        eps=1e-8,
        trust_clip=False,
        always_adapt=False,
        rate_in_momentum=False,
    ):
        options = dict(locals())
        for name in ("self", "params", "__class__"):
            options.pop(name)
        super().__init__(params, options)

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            decay, momentum, lr = group["weight_decay"], group["momentum"], group["lr"]
            for p in (p for p in group["params"] if p.grad is not None):
                grad = p.grad.clone()
                if decay != 0 or group["always_adapt"]:
                    w_norm, g_norm = p.norm(2.0), grad.norm(2.0)
                    ratio = _norm_ratio(
                        group["trust_coeff"], w_norm, g_norm, g_norm + w_norm * decay + group["eps"]
                    )
                    if group["trust_clip"]:
                        ratio = min(ratio / lr, 1.0)
                    grad.add_(p, alpha=decay)
                    grad.mul_(ratio)
                if momentum != 0:
                    fresh = grad * lr if group["rate_in_momentum"] else grad
                    state = self.state[p]
                    if not state:
                        state["momentum_buffer"] = fresh.clone()
                    else:
                        state["momentum_buffer"].mul_(momentum).add_(fresh)
                    moment = state["momentum_buffer"]
                    grad = grad.add(moment, alpha=momentum) if group["nesterov"] else moment
                p.add_(grad, alpha=-1.0 if momentum and group["rate_in_momentum"] else -lr)


class Lamb(Optimizer):
    """timm 1.0 (timm/optim/lamb.py, Lamb.step) with max_grad_norm=None; arXiv:1904.00962."""

    def __init__(
        self,
        params,
        lr,
        betas=(0.9, 0.999),
        eps=1e-6,
        weight_decay=0.0,
        trust_clip=False,
        always_adapt=False,
    ):
        options = dict(locals())
        for name in ("self", "params", "__class__"):
            options.pop(name)
        super().__init__(params, options)

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            decay = group["weight_decay"]
            group["step"] = group.get("step", 0) + 1
            correction1 = 1 - beta1 ** group["step"]
            correction2 = 1 - beta2 ** group["step"]
            for p in (p for p in group["params"] if p.grad is not None):
                state = self.state[p]
                if not state:
                    state["exp_avg"] = torch.zeros_like(p)
                    state["exp_avg_sq"] = torch.zeros_like(p)
                first, second = state["exp_avg"], state["exp_avg_sq"]
                first.mul_(beta1).add_(p.grad, alpha=1 - beta1)
                second.mul_(beta2).addcmul_(p.grad, p.grad, value=1 - beta2)
                denominator = (second.sqrt() / math.sqrt(correction2)).add_(group["eps"])
                update = (first / correction1).div_(denominator)
                if decay != 0:
                    update.add_(p, alpha=decay)
                if decay != 0 or group["always_adapt"]:
                    w_norm, u_norm = p.norm(2.0), update.norm(2.0)
                    ratio = _norm_ratio(1.0, w_norm, u_norm, u_norm)
                    update.mul_(min(ratio, 1.0) if group["trust_clip"] else ratio)
                p.add_(update, alpha=-group["lr"])


class MuonAndAdamW:
    """torch.optim.Muon for matrices, its products in the dtype of the parameters, and AdamW."""

    def __init__(self, params, lr, adam_rate=1.0, match_rms=False, adam=None, **options):
        groups = list(params)
        if not isinstance(groups[0], dict):
            groups = [{"params": groups, "weight_decay": options.pop("weight_decay", 0.0)}]

        def only(is_matrix):
            kept = [
                {**g, "params": [p for p in g["params"] if (p.dim() == 2) == is_matrix]}
                for g in groups
            ]
            return [g for g in kept if g["params"]]

        adjust = "match_rms_adamw" if match_rms else "original"
        self.muon = torch.optim.Muon(only(True), lr=lr, adjust_lr_fn=adjust, **options)
        self.adam = torch.optim.AdamW(only(False), lr=lr, **(adam or {}))
        self.adam_rate = adam_rate
        self.param_groups = self.muon.param_groups

    @property
    def state(self):
        state = dict(self.adam.state)
        for param, kept in self.muon.state.items():
            buffer = kept["momentum_buffer"]
            state[param] = {"exp_avg": buffer, "exp_avg_sq": torch.zeros_like(buffer)}
        return state

    def zero_grad(self):
        self.muon.zero_grad()
        self.adam.zero_grad()

    def step(self):
        original = torch.Tensor.bfloat16
        torch.Tensor.bfloat16 = lambda tensor: tensor.clone()
        try:
            self.muon.step()
        finally:
            torch.Tensor.bfloat16 = original
        for group in self.adam.param_groups:
            group["lr"] = self.adam_rate * self.muon.param_groups[0]["lr"]
        self.adam.step()
