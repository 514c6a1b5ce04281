# SPDX-License-Identifier: Apache-2.0
"""Goldens of runs with more than one loss, optimizer or set of moving parameters."""

import torch
import torch.nn.functional as F
from torch import nn

from generate.writer import uniform


def _sequence(*layers):
    return nn.Sequential(*layers).to(torch.float64)


def _initialise(net, generator):
    for param in net.parameters():
        bound = (3 / param.shape[1]) ** 0.5 if param.dim() == 2 else 0.1
        param.data = uniform(generator, *param.shape, low=-bound, high=bound)


def _weights(prefix, nets):
    return {
        f"{prefix}.{name}.{key}": value.clone()
        for name, net in nets.items()
        for key, value in net.state_dict().items()
    }


def _batches(samples, size):
    return [slice(begin, begin + size) for begin in range(0, samples, size)]


def gan(writer, generator):
    """50 steps: the critic on real and made samples, then the generator through the new critic."""
    make = _sequence(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 6))
    critic = _sequence(nn.Linear(6, 16), nn.SiLU(), nn.Linear(16, 1))
    nets = {"generator": make, "critic": critic}
    for net in nets.values():
        _initialise(net, generator)
    real, noise = uniform(generator, 400, 6, low=0, high=2), uniform(generator, 400, 4)
    tensors = {"field.image": real, "field.noise": noise, **_weights("initial", nets)}
    of_critic = torch.optim.Adam(critic.parameters(), lr=0.01, betas=(0.5, 0.999))
    of_maker = torch.optim.SGD(make.parameters(), lr=0.05, momentum=0.9)
    one, zero = torch.ones(8, 1, dtype=torch.float64), torch.zeros(8, 1, dtype=torch.float64)
    losses = []
    for batch in _batches(400, 8):
        made = make(noise[batch])
        of_critic.zero_grad()
        first = F.binary_cross_entropy_with_logits(critic(real[batch]), one)
        first = first + F.binary_cross_entropy_with_logits(critic(made.detach()), zero)
        first.backward()
        of_critic.step()
        of_maker.zero_grad()
        second = F.binary_cross_entropy_with_logits(critic(make(noise[batch])), one)
        second.backward()
        of_maker.step()
        losses.append((first + second).detach())
    tensors.update({"losses": torch.stack(losses), **_weights("final", nets)})
    writer.save("control_gan", tensors, steps=50)


def teacher(writer, generator):
    """Distillation: cross entropy plus 0.7 times KL at temperature 2 from a teacher that stands still."""
    nets = {
        "teacher": _sequence(nn.Linear(8, 12), nn.Tanh(), nn.Linear(12, 5)),
        "student": _sequence(nn.Linear(8, 5)),
    }
    for net in nets.values():
        _initialise(net, generator)
    x = uniform(generator, 400, 8, low=-2, high=2)
    label = torch.randint(0, 5, (400,), generator=generator)
    tensors = {"field.image": x, "field.label": label.int(), **_weights("initial", nets)}
    optimizer = torch.optim.SGD(nets["student"].parameters(), lr=0.05, momentum=0.9)
    losses = []
    for batch in _batches(400, 10):
        with torch.no_grad():
            wanted = F.log_softmax(nets["teacher"](x[batch]) / 2, 1)
        y = nets["student"](x[batch])
        optimizer.zero_grad()
        kl = F.kl_div(F.log_softmax(y / 2, 1), wanted, reduction="batchmean", log_target=True)
        loss = F.cross_entropy(y, label[batch]) + 0.7 * 4 * kl
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    tensors.update({"losses": torch.stack(losses), **_weights("final", nets)})
    writer.save("control_teacher", tensors, steps=40)


def weighted(writer, generator):
    """Class weights and a label that does not count, in half of the samples."""
    nets = {"net": _sequence(nn.Linear(8, 12), nn.Tanh(), nn.Linear(12, 5))}
    _initialise(nets["net"], generator)
    x = uniform(generator, 400, 8, low=-2, high=2)
    label = torch.randint(0, 5, (400,), generator=generator)
    label[1::2] = -7
    weight = torch.tensor([0.5, 1.0, 2.0, 0.25, 3.0], dtype=torch.float64)
    tensors = {"field.image": x, "field.label": label.int(), **_weights("initial", nets)}
    optimizer = torch.optim.AdamW(nets["net"].parameters(), lr=0.01, weight_decay=0)
    losses = []
    for batch in _batches(400, 10):
        optimizer.zero_grad()
        loss = F.cross_entropy(nets["net"](x[batch]), label[batch], weight, ignore_index=-7)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    tensors.update({"losses": torch.stack(losses), **_weights("final", nets)})
    writer.save("control_weighted", tensors, steps=40)


class _Confident(nn.Module):
    """Cross entropy of each sample less a tenth of the entropy of its prediction."""

    def forward(self, scores, label):
        logp = F.log_softmax(scores, 1)
        entropy = -(logp.exp() * logp).sum(1)
        return (-logp.gather(1, label[:, None]).squeeze(1) - 0.1 * entropy).mean()


class _RootMeanSquare(nn.Module):
    """A batch's root mean square error, which is no mean over samples, and the outputs' size."""

    def forward(self, y, target):
        return torch.sqrt(F.mse_loss(y, target)) + 0.05 * y.abs().mean()


def _own(writer, name, loss_of, fields, target, batch, optimizer_of):
    net = _sequence(nn.Linear(8, 12), nn.Tanh(), nn.Linear(12, 5))
    nets = {"net": net}
    _initialise(net, fields["generator"])
    x = fields["image"]
    tensors = {"field.image": x, **target, **_weights("initial", nets)}
    wanted = next(iter(target.values()))
    optimizer = optimizer_of(net.parameters())
    losses = []
    for part in _batches(len(x), batch):
        optimizer.zero_grad()
        loss = loss_of(net(x[part]), wanted[part])
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    tensors.update({"losses": torch.stack(losses), **_weights("final", nets)})
    writer.save(name, tensors, steps=len(losses))


def cycle(writer, generator):
    """OneCycleLR that moves the momentum of SGD, or AdamW's beta1, with its rate; three phases in Adam's run."""
    runs = {
        "sgd": (lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.5, nesterov=True), False),
        "adamw": (lambda p: torch.optim.AdamW(p, lr=0.1, weight_decay=0.01), True),
    }
    for name, (optimizer_of, three_phase) in runs.items():
        net = _sequence(nn.Linear(8, 12), nn.Tanh(), nn.Linear(12, 5))
        _initialise(net, generator)
        x = uniform(generator, 400, 8, low=-2, high=2)
        label = torch.randint(0, 5, (400,), generator=generator)
        tensors = {"field.image": x, "field.label": label.int(), **_weights("initial", {"net": net})}
        optimizer = optimizer_of(
            [{"params": [p for p in net.parameters() if p.dim() > 1]},
             {"params": [p for p in net.parameters() if p.dim() < 2], "weight_decay": 0}]
        )
        schedule = torch.optim.lr_scheduler.OneCycleLR(
            optimizer, 0.05, total_steps=40, base_momentum=0.8, max_momentum=0.95, three_phase=three_phase
        )
        losses, momenta = [], []
        for step, part in enumerate(_batches(400, 10)):
            group = optimizer.param_groups[0]
            momenta.append(group["betas"][0] if "betas" in group else group["momentum"])
            optimizer.zero_grad()
            loss = F.cross_entropy(net(x[part]), label[part])
            loss.backward()
            optimizer.step()
            if step < 39:
                schedule.step()
            losses.append(loss.detach())
        tensors["losses"] = torch.stack(losses)
        tensors["momenta"] = torch.tensor(momenta, dtype=torch.float64)
        tensors.update(_weights("final", {"net": net}))
        writer.save(f"control_cycle_{name}", tensors, steps=40)


def own_samples(writer, generator):
    """A loss module of the user's with one number a sample; the last batch is smaller."""
    x = uniform(generator, 405, 8, low=-2, high=2)
    label = torch.randint(0, 5, (405,), generator=generator)
    _own(
        writer,
        "control_own_samples",
        lambda y, t: _Confident()(y, t.long()),
        {"image": x, "generator": generator},
        {"field.label": label.int()},
        10,
        lambda params: torch.optim.SGD(params, lr=0.05, momentum=0.9),
    )


def own_batch(writer, generator):
    """A loss module of the user's with one number a batch."""
    x = uniform(generator, 400, 8, low=-2, high=2)
    _own(
        writer,
        "control_own_batch",
        _RootMeanSquare(),
        {"image": x, "generator": generator},
        {"field.target": uniform(generator, 400, 5)},
        10,
        lambda params: torch.optim.AdamW(params, lr=0.01, weight_decay=0),
    )


def write(writer, generator):
    for part in (gan, teacher, weighted, own_samples, own_batch, cycle):
        part(writer, generator)
