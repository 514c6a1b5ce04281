# SPDX-License-Identifier: Apache-2.0
"""Goldens of losses: scores x, target, the mean loss times the samples, and the gradient of that."""

import torch
import torch.nn.functional as F
from torchvision.ops import sigmoid_focal_loss

from generate.writer import uniform

# Our op, the case's name, the attributes as text, PyTorch's function of (x, target), the target's range.
PAIRS = [
    ("l1", "plain", F.l1_loss, (-4, 4)),
    ("huber", "delta_1", F.huber_loss, (-4, 4)),
    ("huber", "delta_2.5", lambda x, t: F.huber_loss(x, t, delta=2.5), (-4, 4)),
    ("smooth_l1", "beta_0.5", lambda x, t: F.smooth_l1_loss(x, t, beta=0.5), (-4, 4)),
    ("smooth_l1", "beta_0", lambda x, t: F.smooth_l1_loss(x, t, beta=0.0), (-4, 4)),
    ("focal", "alpha_0.25_gamma_2", lambda x, t: _focal(x, t, 0.25, 2), (0, 1)),
    ("focal", "alpha_-1_gamma_0.5", lambda x, t: _focal(x, t, -1, 0.5), (0, 1)),
]


def _focal(x, target, alpha, gamma):
    return sigmoid_focal_loss(x, target, alpha, gamma, reduction="mean")


def _save(tensors, name, x, loss, **more):
    (dx,) = torch.autograd.grad(loss, [x])
    for key, value in {"x": x, "loss_sum": loss, "dx": dx, **more}.items():
        tensors[f"{name}.{key}"] = value


def pairs(generator, tensors):
    for op, case, function, (low, high) in PAIRS:
        x = uniform(generator, 9, 7, low=-4, high=4).requires_grad_()
        target = uniform(generator, 9, 7, low=low, high=high)
        if op == "focal":
            target[:5] = target[:5].round()  # hard targets too
        _save(tensors, f"{op}/{case}", x, 9 * function(x, target), target=target)


def kl_div(generator, tensors):
    x = F.log_softmax(uniform(generator, 9, 7, low=-4, high=4), 1).detach().requires_grad_()
    target = F.softmax(uniform(generator, 9, 7, low=-4, high=4), 1)
    target[0] = torch.eye(7, dtype=torch.float64)[3]
    loss = 9 * F.kl_div(x, target, reduction="batchmean")
    _save(tensors, "kl_div/probabilities", x, loss, target=target)
    x = x.detach().requires_grad_()
    logs = F.log_softmax(uniform(generator, 9, 7, low=-4, high=4), 1)
    loss = 9 * F.kl_div(x, logs, reduction="batchmean", log_target=True)
    _save(tensors, "kl_div/log_target", x, loss, target=logs)


def pos_weight(generator, tensors):
    for case, places in {"each": 7, "one": 1}.items():
        x = uniform(generator, 9, 7, low=-4, high=4).requires_grad_()
        target, weight = uniform(generator, 9, 7, low=0), uniform(generator, places, low=0.5, high=4)
        target[:5] = target[:5].round()
        loss = 9 * F.binary_cross_entropy_with_logits(x, target, pos_weight=weight)
        _save(tensors, f"pos_weight/{case}", x, loss, target=target, weight=weight)


def cross_entropy(generator, tensors):
    for smoothing in (0.0, 0.1):
        for case in ("weights", "ignore", "both", "soft"):
            x = uniform(generator, 11, 6, low=-4, high=4).requires_grad_()
            labels = torch.randint(0, 6, (11,), generator=generator, dtype=torch.int32)
            weight = uniform(generator, 6, low=0.25, high=3)
            options = {"label_smoothing": smoothing, "reduction": "mean"}
            more = {"labels": labels}
            if case == "soft":
                more["labels"] = F.softmax(uniform(generator, 11, 6, low=-2, high=2), 1)
            if case in ("ignore", "both"):
                labels[::3] = -100
                options["ignore_index"] = -100
            if case != "ignore":
                options["weight"] = more["weight"] = weight
            target = more["labels"]
            target = target.long() if target.dtype == torch.int32 else target
            _save(
                tensors,
                f"cross_entropy/{case}_{smoothing:g}",
                x,
                11 * F.cross_entropy(x, target, **options),
                **more,
            )


def class_report(writer, generator):
    """Predictions by class, and scores by their definitions, the same as scikit-learn's where it is there."""
    classes, samples = 6, 90
    x = uniform(generator, samples, classes, low=-2, high=2)
    labels = torch.randint(0, classes - 1, (samples,), generator=generator)  # the last has no sample
    x[torch.arange(samples), labels] += 1.5
    x[:, 2] -= 9  # never predicted
    predicted = x.argmax(1)
    matrix = torch.zeros(classes, classes, dtype=torch.int32)
    for label, prediction in zip(labels.tolist(), predicted.tolist()):
        matrix[label, prediction] += 1
    right, made, has = (m.double() for m in (matrix.diagonal(), matrix.sum(0), matrix.sum(1)))
    scores = torch.stack([right / made, right / has, 2 * right / (made + has)], 1).nan_to_num(0)
    try:
        from sklearn.metrics import precision_recall_fscore_support
    except ImportError:
        pass
    else:
        theirs = precision_recall_fscore_support(
            labels, predicted, labels=list(range(classes)), zero_division=0
        )
        for i in range(3):
            assert abs(scores[:, i] - torch.tensor(theirs[i])).max() < 1e-12
    tensors = {"x": x, "labels": labels.int(), "matrix": matrix, "scores": scores}
    tensors["macro"] = scores.mean(0)
    tensors["accuracy"] = right.sum() / samples
    for k in (1, 3, 4):
        top = x.topk(k, 1).indices
        tensors[f"top_{k}"] = (top == labels[:, None]).any(1).sum().int()
    writer.save("class_report", tensors)


def write(writer, generator):
    tensors = {}
    for part in (pairs, kl_div, pos_weight, cross_entropy):
        part(generator, tensors)
    writer.save("losses", tensors)
    class_report(writer, generator)
