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
    """torch.optim.Muon for matrices, its products in the dtype of the parameters unless bf16, and AdamW."""

    def __init__(
        self, params, lr, adam_rate=1.0, match_rms=False, bf16=False, adam=None, **options
    ):
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
        self.adam_rate, self.bf16 = adam_rate, bf16
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
        if not self.bf16:
            torch.Tensor.bfloat16 = lambda tensor: tensor.clone()
        try:
            self.muon.step()
        finally:
            torch.Tensor.bfloat16 = original
        for group in self.adam.param_groups:
            group["lr"] = self.adam_rate * self.muon.param_groups[0]["lr"]
        self.adam.step()


class _Preconditioned(Optimizer):
    """Matrices by step_matrix(), all others by AdamW at adam_rate times the rate."""

    def __init__(self, params, lr, betas, eps=1e-8, weight_decay=0.0, adam_rate=1.0, **options):
        params = list(params)
        defaults = dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, **options)
        super().__init__([p for p in params if p.dim() == 2], defaults)
        self.adam = torch.optim.AdamW(
            [p for p in params if p.dim() != 2], lr=lr, betas=betas, eps=eps, weight_decay=weight_decay
        )
        self.adam_rate = adam_rate

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state.update(exp_avg=torch.zeros_like(p), exp_avg_sq=torch.zeros_like(p), seen=0)
                self.step_matrix(p, p.grad, state, group)
                state["seen"] += 1
            for other in self.adam.param_groups:
                other["lr"] = self.adam_rate * group["lr"]
        self.adam.step()
        self.state.update(self.adam.state)


def _ridged(matrix, ridge):
    """L + ridge |L| I"""
    return matrix + ridge * matrix.norm() * torch.eye(len(matrix), dtype=matrix.dtype)


def _adam_step(first, second, betas, eps, t):
    return (first / (1 - betas[0] ** t)) / ((second / (1 - betas[1] ** t)).sqrt() + eps)


class Shampoo(_Preconditioned):
    """arXiv:1802.09568, algorithm 1, of blocks (arXiv:2002.09018, section 3.4); its L_0 = eps I is a
    ridge relative to |L|, the momentum is that of the gradient, and `grafting` gives the length."""

    def __init__(self, params, lr, betas=(0.9, 0.999), **options):
        defaults = dict(beta=1.0, every=10, ridge=1e-6, block_size=512, grafting="adam")
        super().__init__(params, lr, betas, **{**defaults, **options})

    def step_matrix(self, p, grad, state, group):
        (beta1, beta2), size, t = group["betas"], group["block_size"], state["seen"] + 1
        first, second = state["exp_avg"], state["exp_avg_sq"]
        first.mul_(beta1).add_(grad, alpha=1 - beta1)
        direction = first / (1 - beta1**t)
        update = torch.empty_like(p)
        for top in range(0, p.shape[0], size):
            for left in range(0, p.shape[1], size):
                part = (slice(top, top + size), slice(left, left + size))
                kept = state.setdefault((top, left), [0.0, 0.0, None, None])
                g = grad[part]
                for i, covariance in enumerate((g @ g.T, g.T @ g)):
                    new = 1 - group["beta"] if group["beta"] < 1 else 1.0
                    kept[i] = group["beta"] * kept[i] + new * covariance
                    if state["seen"] % group["every"] == 0:
                        values, vectors = torch.linalg.eigh(_ridged(kept[i], group["ridge"]))
                        kept[2 + i] = vectors @ torch.diag(values**-0.25) @ vectors.T
                        if kept[i].norm() == 0:
                            kept[2 + i] = torch.eye(len(kept[i]), dtype=p.dtype)
                update[part] = kept[2] @ direction[part] @ kept[3]
        if group["grafting"] == "sgd":
            update *= direction.norm() / update.norm()
        if group["grafting"] == "adam":
            second.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
            step = _adam_step(first, second, group["betas"], group["eps"], t)
            update *= step.norm() / update.norm()
        p.mul_(1 - group["lr"] * group["weight_decay"]).sub_(group["lr"] * update)


class Soap(_Preconditioned):
    """arXiv:2409.11321, algorithm 3, with Adam's bias corrections and a first step that moves nothing,
    as in the authors' code; the first bases come from ten QR iterations."""

    def __init__(self, params, lr, betas=(0.95, 0.95), **options):
        defaults = dict(beta=None, every=10, ridge=1e-6, max_dim=10000)
        super().__init__(params, lr, betas, **{**defaults, **options})

    def step_matrix(self, p, grad, state, group):
        (beta1, beta2), t = group["betas"], state["seen"]
        beta = beta2 if group["beta"] is None else group["beta"]
        sides = [i for i in (0, 1) if p.shape[i] <= group["max_dim"]]
        if t == 0:
            state["L"] = {i: torch.zeros(p.shape[i], p.shape[i], dtype=p.dtype) for i in sides}
            state["Q"] = {i: torch.eye(p.shape[i], dtype=p.dtype) for i in sides}
        else:
            turn = [state["Q"].get(i, torch.eye(p.shape[i], dtype=p.dtype)) for i in (0, 1)]
            first, second = state["exp_avg"], state["exp_avg_sq"]
            first.mul_(beta1).add_(grad, alpha=1 - beta1)
            rotated = turn[0].T @ grad @ turn[1]
            second.mul_(beta2).addcmul_(rotated, rotated, value=1 - beta2)
            moment = turn[0].T @ first @ turn[1]
            step = turn[0] @ _adam_step(moment, second, group["betas"], group["eps"], t) @ turn[1].T
            p.mul_(1 - group["lr"] * group["weight_decay"]).sub_(group["lr"] * step)
        for i in sides:
            covariance = grad @ grad.T if i == 0 else grad.T @ grad
            state["L"][i].mul_(beta).add_(covariance, alpha=1 - beta)
            if t % group["every"] == 0 and state["L"][i].norm() > 0:
                for _ in range(10 if t == 0 else 1):
                    turned = _ridged(state["L"][i], group["ridge"]) @ state["Q"][i]
                    state["Q"][i] = torch.linalg.qr(turned).Q
