# SPDX-License-Identifier: Apache-2.0
"""200 steps of a small model under torch.autocast, fp16 with a growing torch.amp.GradScaler.

One batch of the fp16 run holds images that fp16 cannot: its step is skipped in every epoch.
"""

import torch
import torch.nn.functional as F
from torch import nn

from generate.trajectories import _data, _initialise
from generate.writer import as_float32_values

SAMPLES, BATCH, EPOCHS = 400, 8, 4
BAD_STEP = 17  # of each epoch, from 0
SCALE, GROWTH = 1024.0, 40


def _model():
    return nn.Sequential(
        nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 16), nn.SiLU(), nn.Linear(16, 5)
    )


def _train(initial, image, label, dtype, left_out=None):
    """`left_out`: a step of each epoch that changes nothing."""
    net = _model()
    net.load_state_dict({key: value.to(torch.float32) for key, value in initial.items()})
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    scaler = torch.amp.GradScaler(
        "cpu", init_scale=SCALE, growth_interval=GROWTH, enabled=dtype == torch.float16
    )
    losses, scales = [], []
    for step in range(EPOCHS * SAMPLES // BATCH):
        rows = slice(step * BATCH % SAMPLES, step * BATCH % SAMPLES + BATCH)
        scales.append(scaler.get_scale())
        with torch.autocast("cpu", dtype=dtype or torch.bfloat16, enabled=dtype is not None):
            output = net(image[rows])
        loss = F.cross_entropy(output.float(), label[rows])
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        if step % (SAMPLES // BATCH) != left_out:
            scaler.step(optimizer)
            scaler.update()
        losses.append(loss.detach())
    return torch.stack(losses), torch.tensor(scales), net.state_dict()


def _distance(a, b):
    """Root mean square difference of losses that are finite."""
    known = torch.isfinite(a) & torch.isfinite(b)
    return float((a - b)[known].square().mean().sqrt())


def write(writer, generator):
    fields, target = _data(generator, SAMPLES, (12,), "hard")
    net = _model().to(torch.float64)
    _initialise(net, generator)
    initial = {key: value.detach().clone() for key, value in net.state_dict().items()}
    image = as_float32_values(fields[0]).to(torch.float32)
    for name, dtype in (("bf16", torch.bfloat16), ("fp16", torch.float16)):
        given = image.clone()
        if dtype == torch.float16:
            given[BAD_STEP * BATCH : (BAD_STEP + 1) * BATCH] *= 1e6
        losses, scales, final = _train(initial, given, target, dtype)
        bad = BAD_STEP if dtype == torch.float16 else None
        full, _, _ = _train(initial, image, target, None, bad)
        tensors = {
            "field.image": given,
            "field.label": target.to(torch.int32),
            "losses": losses,
            "scales": scales,
        }
        tensors.update({f"initial.{key}": value for key, value in initial.items()})
        tensors.update({f"final.{key}": value for key, value in final.items()})
        skipped = int((~torch.isfinite(losses)).sum())
        writer.save(
            f"autocast_{name}",
            tensors,
            skipped=skipped,
            growth_interval=GROWTH,
            rms_from_fp32=_distance(losses, full),
        )
        print(
            f"  autocast_{name}: loss {losses[0]:.4f} -> {losses[-1]:.4f}, skipped {skipped}, "
            f"last scale {scales[-1]:.0f}, rms from fp32 {_distance(losses, full):.2e}"
        )
