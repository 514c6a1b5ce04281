# SPDX-License-Identifier: Apache-2.0
"""Goldens of optimizers on given gradients (10 or 50 steps), schedules, loss scale."""

import json
import math

import torch

from generate.optimizer_formulas import Lamb, Lars, Lion, MuonAndAdamW, Shampoo, Soap
from generate.writer import as_float32_values, uniform

STEPS = 10  # gradients of a case
MATRIX = 20  # steps of shampoo and soap: with several refreshes
LONG = 50  # steps of the cases that use them again and again, each time by another factor
SHAPES = {"p0": (5, 7), "p1": (5,), "p2": (3, 129)}


MOMENTS = ("exp_avg", "exp_avg_sq", "sum", "square_avg", "grad_avg", "momentum_buffer")


def _decoupled_sgd(momentum, nesterov, weight_decay):
    """w <- w (1 - lr wd) - lr step; m <- momentum m + g; step = g + momentum m (Nesterov) or m."""
    moments = {}

    def step(params, grads, lr):
        for name, grad in grads.items():
            moments[name] = momentum * moments.get(name, torch.zeros_like(grad)) + grad
            update = grad + momentum * moments[name] if nesterov else moments[name]
            params[name].mul_(1 - lr * weight_decay).sub_(lr * update)
        return {name: [value] for name, value in moments.items()}

    return step


def _torch_optimizer(make, params, clip_norm, clip_value):
    optimizer = make(list(params.values()))

    def step(params, grads, lr):
        for name, grad in grads.items():
            params[name].grad = grad.clone()
        if clip_norm:
            torch.nn.utils.clip_grad_norm_(params.values(), clip_norm)
        if clip_value:
            torch.nn.utils.clip_grad_value_(params.values(), clip_value)
        optimizer.param_groups[0]["lr"] = lr
        optimizer.step()
        states = {name: optimizer.state[param] for name, param in params.items()}
        # In the order in which the library keeps them.
        moments = {}
        for name, state in states.items():
            kept = [state.get(key) for key in MOMENTS]
            moments[name] = [value for value in kept if torch.is_tensor(value)]
        margin = getattr(optimizer, "margin", math.inf)
        assert margin > 1e-6, f"a sign hangs on rounding: {margin}"
        return moments

    return step


def _sgd(**options):
    return lambda params: torch.optim.SGD(params, lr=0.1, **options)


# name: (maker of a torch optimizer or settings of the decoupled SGD, facts)
CASES = {
    "sgd": (_sgd(), {}),
    "sgd_decay": (_sgd(weight_decay=0.02), {"weight_decay": 0.02}),
    "sgd_momentum": (_sgd(momentum=0.9), {"momentum": 0.9}),
    "sgd_momentum_decay": (
        _sgd(momentum=0.9, weight_decay=0.02),
        {"momentum": 0.9, "weight_decay": 0.02},
    ),
    "sgd_nesterov_decay": (
        _sgd(momentum=0.8, weight_decay=0.02, nesterov=True),
        {"momentum": 0.8, "weight_decay": 0.02, "nesterov": True},
    ),
    "sgd_decoupled": (None, {"momentum": 0.9, "weight_decay": 0.02, "decoupled": True}),
    "sgd_decoupled_nesterov": (
        None,
        {"momentum": 0.9, "weight_decay": 0.02, "nesterov": True, "decoupled": True},
    ),
    "adam": (lambda p: torch.optim.Adam(p), {}),
    "adam_decay": (
        lambda p: torch.optim.Adam(p, betas=(0.8, 0.99), eps=1e-6, weight_decay=0.05),
        {"beta1": 0.8, "beta2": 0.99, "eps": 1e-6, "weight_decay": 0.05},
    ),
    "adamw": (
        lambda p: torch.optim.AdamW(p, weight_decay=0.05),
        {"weight_decay": 0.05, "decoupled": True},
    ),
    "sgd_clip_norm": (_sgd(momentum=0.9), {"momentum": 0.9, "clip_norm": 3.0}),
    "sgd_clip_value": (_sgd(momentum=0.9), {"momentum": 0.9, "clip_value": 0.3}),
    "adamw_clip_norm": (
        lambda p: torch.optim.AdamW(p, weight_decay=0.05),
        {"weight_decay": 0.05, "clip_norm": 3.0, "decoupled": True},
    ),
}


def _torch(kind, facts, **options):
    """A case of LONG steps; `facts` are the attributes of the op beside the options it shares."""
    named = {key: value for key, value in options.items() if key in SHARED}
    return lambda params: kind(params, lr=0.1, **options), {**named, **facts}


SHARED = ("weight_decay", "momentum", "nesterov", "eps", "alpha", "centered", "lr_decay",
          "trust_clip", "always_adapt", "rate_in_momentum")
RMSPROP, ADAGRAD = torch.optim.RMSprop, torch.optim.Adagrad
LONG_CASES = {
    "lion": _torch(Lion, {}),
    "lion_decay": _torch(
        Lion, {"beta1": 0.8, "beta2": 0.95}, betas=(0.8, 0.95), weight_decay=0.3
    ),
    "lion_clip_norm": _torch(Lion, {"clip_norm": 3.0}, weight_decay=0.1),
    "rmsprop": _torch(RMSPROP, {}),
    "rmsprop_momentum_decay": _torch(RMSPROP, {}, alpha=0.9, momentum=0.8, weight_decay=0.02),
    "rmsprop_centered": _torch(RMSPROP, {}, alpha=0.9, eps=1e-3, centered=True),
    "rmsprop_centered_momentum": _torch(
        RMSPROP, {"clip_value": 0.3}, alpha=0.9, eps=1e-3, centered=True, momentum=0.7
    ),
    "adagrad": _torch(ADAGRAD, {}),
    "adagrad_decay": _torch(
        ADAGRAD,
        {"initial": 0.1, "clip_norm": 3.0},
        lr_decay=0.05,
        weight_decay=0.02,
        initial_accumulator_value=0.1,
        eps=1e-6,
    ),
    "lars": _torch(Lars, {"trust_coefficient": 0.02}, weight_decay=0.02, trust_coeff=0.02),
    "lars_momentum": _torch(
        Lars,
        {"trust_coefficient": 0.02},
        momentum=0.9,
        nesterov=True,
        weight_decay=0.02,
        trust_coeff=0.02,
    ),
    "lars_paper": _torch(
        Lars,
        {"trust_coefficient": 0.02, "clip_norm": 3.0},
        momentum=0.9,
        weight_decay=0.02,
        trust_coeff=0.02,
        rate_in_momentum=True,
    ),
    "lars_clip": _torch(
        Lars,
        {"trust_coefficient": 0.05},
        momentum=0.9,
        trust_coeff=0.05,
        trust_clip=True,
        always_adapt=True,
    ),
    "lars_no_decay": _torch(Lars, {}, momentum=0.5),
    "lamb": _torch(Lamb, {}, weight_decay=0.05),
    "lamb_clip": _torch(
        Lamb,
        {"beta1": 0.8, "beta2": 0.99, "clip_norm": 3.0},
        betas=(0.8, 0.99),
        trust_clip=True,
        always_adapt=True,
        eps=1e-4,
    ),
    "lamb_no_decay": _torch(Lamb, {}),
    "muon": _torch(MuonAndAdamW, {}, weight_decay=0.1),
    "muon_rms": _torch(
        MuonAndAdamW,
        {"adam_rate": 0.25, "match_rms": True, "clip_norm": 3.0, "beta1": 0.8, "beta2": 0.99},
        adam_rate=0.25,
        match_rms=True,
        momentum=0.9,
        nesterov=False,
        adam={"betas": (0.8, 0.99)},
    ),
}


RIDGE = 0.01  # what gradients do not have is then known to 1e-5 in float32
MATRIX_CASES = {
    "shampoo": _torch(
        Shampoo,
        {"grafting": "none", "every": 3, "ridge": RIDGE},
        grafting="none",
        every=3,
        ridge=RIDGE,
    ),
    "shampoo_sgd": _torch(
        Shampoo,
        {
            "grafting": "sgd",
            "every": 4,
            "ridge": RIDGE,
            "block_size": 4,
            "preconditioner_beta": 0.9,
            "clip_norm": 3.0,
        },
        grafting="sgd",
        every=4,
        ridge=RIDGE,
        block_size=4,
        beta=0.9,
        weight_decay=0.1,
    ),
    "shampoo_adam": _torch(
        Shampoo,
        {"beta1": 0.8, "beta2": 0.99, "every": 5, "ridge": RIDGE, "block_size": 100, "adam_rate": 0.5},
        betas=(0.8, 0.99),
        every=5,
        ridge=RIDGE,
        block_size=100,
        adam_rate=0.5,
        weight_decay=0.1,
    ),
    "soap": _torch(
        Soap,
        {"beta1": 0.95, "beta2": 0.95, "preconditioner_beta": 0.95, "every": 3, "ridge": RIDGE},
        every=3,
        ridge=RIDGE,
    ),
    "soap_side": _torch(
        Soap,
        {
            "beta1": 0.9,
            "beta2": 0.99,
            "preconditioner_beta": 0.8,
            "every": 4,
            "ridge": RIDGE,
            "max_dim": 64,
            "adam_rate": 0.5,
            "clip_norm": 3.0,
        },
        betas=(0.9, 0.99),
        beta=0.8,
        every=4,
        ridge=RIDGE,
        max_dim=64,
        adam_rate=0.5,
        weight_decay=0.1,
    ),
}


def optimizers(writer, generator):
    for name, (make, facts) in CASES.items():
        _write_case(writer, generator, name, make, facts, STEPS)
    for name, (make, facts) in LONG_CASES.items():
        _write_case(writer, generator, name, make, facts, LONG)
    own = torch.Generator().manual_seed(12)
    for name, (make, facts) in MATRIX_CASES.items():
        _write_case(writer, own, name, make, facts, MATRIX, {**SHAPES, "p2": (3, 70)})


def _write_case(writer, generator, name, make, facts, steps, shapes=None):
    shapes = shapes or SHAPES
    params = {key: uniform(generator, *shape) for key, shape in shapes.items()}
    # Sizes vary over the steps: clipping by norm is at times idle. Some gradients are 0.
    grads = {key: uniform(generator, STEPS, *shape) for key, shape in shapes.items()}
    size = as_float32_values(
        torch.tensor([2.0, 0.05, 1.0, 3.0, 0.1, 1.0, 0.3, 2.0, 0.01, 1.0], dtype=torch.float64)
    )
    for grad in grads.values():
        grad.mul_(size.reshape(-1, *[1] * (grad.dim() - 1)))
        grad[:, 0] *= 0.0
        grad.copy_(as_float32_values(grad))
    lr = as_float32_values(
        0.02 + 0.05 * torch.rand(steps, generator=generator, dtype=torch.float64)
    )
    # Powers of two and signs: the products are exact.
    powers = [(-1.0) ** (i // 10 * (i % 3)) * 2.0 ** (i // 10 * (i % 5) % 3 - 1) for i in range(steps)]
    factor = torch.ones(steps, dtype=torch.float64)
    if steps > STEPS:
        factor = torch.tensor(powers, dtype=torch.float64)
    tensors = {"lr": lr}
    if steps > STEPS:
        tensors["factor"] = factor
    for key in shapes:
        tensors[f"{key}.initial"], tensors[f"{key}.grads"] = params[key].clone(), grads[key]
    if make is None:
        step = _decoupled_sgd(
            facts["momentum"], facts.get("nesterov", False), facts["weight_decay"]
        )
    else:
        step = _torch_optimizer(make, params, facts.get("clip_norm"), facts.get("clip_value"))
    norms, ema = [], {key: value.clone() for key, value in params.items()}
    for i in range(steps):
        now = {key: grad[i % STEPS] * factor[i] for key, grad in grads.items()}
        norms.append(math.sqrt(sum(float((g * g).sum()) for g in now.values())))
        moments = step(params, now, float(lr[i]))
        for key in shapes:
            ema[key] = 0.9 * ema[key] + (1 - 0.9) * params[key]
            if i not in (0, steps - 1):
                continue
            tensors[f"{key}.step{i + 1}"] = params[key].clone()
            tensors[f"{key}.ema{i + 1}"] = ema[key].clone()
            for number, moment in enumerate(moments.get(key, []), start=1):
                kept = moment - facts.get("initial", 0.0) if name.startswith("adagrad") else moment
                tensors[f"{key}.moment{number}.step{i + 1}"] = kept.clone()
    tensors["grad_norm"] = torch.tensor(norms, dtype=torch.float64)
    writer.save(
        f"optimizer_{name}", tensors, settings=json.dumps(facts, sort_keys=True), ema_decay=0.9
    )


def _one_cycle(done, length, base, pct_start=0.3, three_phase=False, linear=False, div=25, final=1e4):
    """Smith, Topin 2017: from base / div up to base, then down to base / (div final)."""
    first, ends = base / div, [pct_start * length - 1]
    levels = [first, base]
    if three_phase:
        ends.append(2 * pct_start * length - 2)
        levels.append(first)
    ends.append(length - 1)
    levels.append(first / final)
    begin = 0
    for i, end in enumerate(ends):
        if done <= end or i == len(ends) - 1:
            part = (done - begin) / (end - begin)
            low, high = levels[i + 1], levels[i]
            if linear:
                return high + (low - high) * part
            return low + (high - low) / 2 * (1 + math.cos(math.pi * part))
        begin = end
    raise ValueError(done)


def _schedule(kind, epochs, steps, warmup, start, by_epoch, base, options):
    """Learning rate of every step, by the formulas of docs/numerics.md. Warm-up in epochs."""
    unit = 1 if by_epoch else steps
    total, ramp = epochs * unit, min(warmup, epochs) * unit

    def rate(position):
        if position < ramp:
            return start + (base - start) * (position + 1) / ramp
        done, length = position - ramp, total - ramp
        if kind == "constant":
            return base
        if kind == "cosine":
            end = options.get("eta_min", 0.0)
            divisor = max(1, length - 1 if by_epoch else length)
            return end + (base - end) * (1 + math.cos(math.pi * done / divisor)) / 2
        if kind == "step":
            return base * options["gamma"] ** (done // (options["step_size"] * unit))
        if kind == "multi_step":
            epoch = position // unit
            return base * options["gamma"] ** sum(m <= epoch for m in options["milestones"])
        if kind == "exponential":
            return base * options["gamma"] ** (done // unit)
        if kind == "polynomial":
            left = 1 - done / (length + 1)
            return options["end_lr"] + (base - options["end_lr"]) * left ** options["power"]
        if kind == "wsd":
            begin = math.floor(length * options["decay_start"])
            if done < begin:
                return base
            return base + (options["end_lr"] - base) * (done - begin) / max(1, length - begin)
        if kind == "cosine_warm_restarts":
            end, cycle = options.get("eta_min", 0.0), options["T_0"] * unit
            while done >= cycle:
                done, cycle = done - cycle, cycle * options["T_mult"]
            return end + (base - end) * (1 + math.cos(math.pi * done / cycle)) / 2
        if kind == "linear":
            reach = options["total_iters"] * unit
            rise = options["end_factor"] - options["start_factor"]
            return base * (options["start_factor"] + rise * min(done, reach) / reach)
        if kind == "one_cycle":
            return _one_cycle(done, length, base, **options)
        if kind == "lambda":
            return base / (1 + done)
        raise ValueError(kind)

    return [rate(step // steps if by_epoch else step) for step in range(epochs * steps)]


SCHEDULES = {
    "constant": ("constant", 4, 3, 0, 0.0, True, {}),
    "constant_warmup": ("constant", 6, 3, 2, 0.01, True, {}),
    "cosine": ("cosine", 7, 3, 0, 0.0, True, {}),
    "cosine_one_epoch": ("cosine", 1, 4, 0, 0.0, True, {}),
    "cosine_warmup": ("cosine", 9, 2, 3, 0.0, True, {"eta_min": 0.001}),
    "cosine_by_step": ("cosine", 5, 4, 0, 0.0, False, {}),
    "cosine_warmup_by_step": ("cosine", 5, 4, 2, 0.005, False, {"eta_min": 0.002}),
    "warmup_longer_than_run": ("cosine", 3, 2, 5, 0.0, True, {}),
    "step": ("step", 9, 2, 0, 0.0, True, {"step_size": 3, "gamma": 0.3}),
    "multi_step": ("multi_step", 9, 2, 0, 0.0, True, {"milestones": [2, 5], "gamma": 0.2}),
    "multi_step_warmup": ("multi_step", 9, 2, 2, 0.0, True, {"milestones": [2, 5], "gamma": 0.2}),
    "exponential": ("exponential", 6, 2, 0, 0.0, True, {"gamma": 0.8}),
    "polynomial": ("polynomial", 6, 3, 1, 0.0, True, {"end_lr": 1e-4, "power": 2}),
    "polynomial_by_step": ("polynomial", 4, 3, 1, 0.0, False, {"end_lr": 1e-4, "power": 0.9}),
    "wsd_by_step": ("wsd", 5, 4, 1, 0.0, False, {"decay_start": 0.6, "end_lr": 0.001}),
    "warm_restarts": (
        "cosine_warm_restarts",
        10,
        2,
        0,
        0.0,
        True,
        {"T_0": 3, "T_mult": 2, "eta_min": 1e-3},
    ),
    "warm_restarts_by_step": (
        "cosine_warm_restarts",
        6,
        3,
        1,
        0.0,
        False,
        {"T_0": 2, "T_mult": 1},
    ),
    "linear": ("linear", 8, 2, 0, 0.0, True, {"start_factor": 0.25, "end_factor": 1, "total_iters": 5}),
    "linear_down_by_step": (
        "linear",
        4,
        3,
        1,
        0.0,
        False,
        {"start_factor": 1, "end_factor": 0.1, "total_iters": 2},
    ),
    "one_cycle": ("one_cycle", 5, 6, 0, 0.0, False, {}),
    "one_cycle_three_phase": (
        "one_cycle",
        5,
        6,
        0,
        0.0,
        False,
        {"pct_start": 0.4, "three_phase": True, "linear": True, "div": 10, "final": 100},
    ),
    "one_cycle_warmup_by_epoch": ("one_cycle", 12, 2, 2, 0.01, True, {"linear": True}),
    "one_cycle_short": ("one_cycle", 1, 3, 0, 0.0, False, {}),
    "lambda": ("lambda", 5, 2, 0, 0.0, True, {}),
    "lambda_warmup_by_step": ("lambda", 5, 2, 1, 0.0, False, {}),
    "step_warmup": ("step", 9, 2, 2, 0.0, True, {"step_size": 2, "gamma": 0.5}),
    "constant_warmup_by_step": ("constant", 4, 3, 2, 0.01, False, {}),
    "step_warmup_by_step": ("step", 7, 3, 2, 0.0, False, {"step_size": 2, "gamma": 0.5}),
    "multi_step_warmup_by_step": ("multi_step", 7, 3, 1, 0.0, False, {"milestones": [2, 5], "gamma": 0.2}),
    "exponential_warmup": ("exponential", 6, 2, 2, 0.02, True, {"gamma": 0.8}),
    "exponential_warmup_by_step": ("exponential", 5, 3, 1, 0.0, False, {"gamma": 0.8}),
    "wsd_warmup": ("wsd", 9, 2, 2, 0.0, True, {"decay_start": 0.5, "end_lr": 0.001}),
    "warm_restarts_warmup": ("cosine_warm_restarts", 9, 2, 2, 0.0, True, {"T_0": 2, "T_mult": 2}),
    "linear_warmup": ("linear", 9, 2, 2, 0.0, True, {"start_factor": 0.25, "end_factor": 1, "total_iters": 5}),
}


def _check_with_torch(name, rates, base):
    """The table equals LambdaLR's, or PyTorch's own schedule where one exists (no warm-up)."""
    kind, epochs, steps, warmup, _, by_epoch, options = SCHEDULES[name]
    per = steps if by_epoch else 1
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=base)
    if warmup == 0 and kind == "cosine" and epochs > 1:
        length = epochs - 1 if by_epoch else epochs * steps
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(
            optimizer, length, options.get("eta_min", 0.0)
        )
    elif warmup == 0 and kind == "step":
        schedule = torch.optim.lr_scheduler.StepLR(
            optimizer, options["step_size"], options["gamma"]
        )
    elif warmup == 0 and kind == "multi_step":
        schedule = torch.optim.lr_scheduler.MultiStepLR(
            optimizer, options["milestones"], options["gamma"]
        )
    elif warmup == 0 and kind == "exponential":
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, options["gamma"])
    elif warmup == 0 and kind == "cosine_warm_restarts":
        schedule = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(
            optimizer, options["T_0"], options["T_mult"], options["eta_min"]
        )
    elif warmup == 0 and kind == "linear":
        schedule = torch.optim.lr_scheduler.LinearLR(optimizer, **options)
    elif warmup == 0 and kind == "one_cycle":
        schedule = torch.optim.lr_scheduler.OneCycleLR(
            optimizer,
            base,
            total_steps=len(rates) // per,
            pct_start=options.get("pct_start", 0.3),
            anneal_strategy="linear" if options.get("linear") else "cos",
            cycle_momentum=False,
            div_factor=options.get("div", 25),
            final_div_factor=options.get("final", 1e4),
            three_phase=options.get("three_phase", False),
        )
    elif warmup == 0 and kind == "lambda":
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda i: 1 / (1 + i))
    else:
        schedule = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda i: rates[min(i * per, len(rates) - 1)] / base
        )
    for position in range(0, len(rates), per):
        got = optimizer.param_groups[0]["lr"]
        assert abs(got - rates[position]) < 1e-12 * base, (name, position, got, rates[position])
        optimizer.step()
        if position + per < len(rates):  # OneCycleLR refuses more steps than it has
            schedule.step()


def schedules(writer, _):
    base, tensors = 0.1, {}
    for name, (kind, epochs, steps, warmup, start, by_epoch, options) in SCHEDULES.items():
        rates = _schedule(kind, epochs, steps, warmup, start, by_epoch, base, options)
        _check_with_torch(name, rates, base)
        tensors[name] = torch.tensor(rates, dtype=torch.float64)
    writer.save("schedules", tensors, base_lr=base)


PLATEAUS = {
    "min_rel": {"patience": 2, "factor": 0.5},
    "max_abs": {"mode": "max", "patience": 1, "threshold": 0.02, "threshold_mode": "abs"},
    "cooldown": {"patience": 1, "factor": 0.3, "cooldown": 3, "min_lr": 0.004},
    "max_rel": {"mode": "max", "patience": 0, "factor": 0.9, "threshold": 0.05},
}


def plateaus(writer, generator):
    """Rates that ReduceLROnPlateau gives after each of 40 values of a metric."""
    base, tensors = 0.1, {}
    for name, options in PLATEAUS.items():
        metric = torch.rand(40, generator=generator, dtype=torch.float64) / 5
        metric = (metric + torch.linspace(1, 0.3, 40, dtype=torch.float64).clamp(min=0.6)).float()
        if options.get("mode") == "max":
            metric = 1.5 - metric
        optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=base)
        schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, **options)
        rates = []
        for value in metric.double().tolist():
            optimizer.step()
            schedule.step(value)
            rates.append(optimizer.param_groups[0]["lr"])
        assert len(set(rates)) > 3, name
        tensors[f"{name}.metric"] = metric
        tensors[f"{name}.rates"] = torch.tensor(rates, dtype=torch.float64)
    writer.save("plateaus", tensors, base_lr=base)


def loss_scale(writer, _):
    """Scale before each step: halved on overflow, floor 1; growing: doubled after n good steps."""
    bad = [0, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0] + [1] * 14 + [0, 0]
    tensors = {"found_inf": torch.tensor(bad, dtype=torch.int32)}
    for name, interval in (("fixed", 0), ("growing", 3)):
        scale, good, scales, updates, done = 8192.0, 0, [], [], 0
        for flag in bad:
            scales.append(scale)
            if flag:
                scale, good = max(scale / 2, 1.0), 0
            else:
                good, done = good + 1, done + 1
                if interval and good == interval:
                    scale, good = scale * 2, 0
            updates.append(done)
        tensors[f"{name}.scale"] = torch.tensor(scales, dtype=torch.float64)
        tensors[f"{name}.updates"] = torch.tensor(updates, dtype=torch.int64)
    writer.save("loss_scale", tensors, growth_interval=3)


def write(writer, generator):
    optimizers(writer, generator)
    schedules(writer, generator)
    plateaus(writer, torch.Generator().manual_seed(11))
    loss_scale(writer, generator)
