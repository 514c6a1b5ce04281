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


def write(writer, generator):
    for part in (gan, teacher, weighted):
        part(writer, generator)
