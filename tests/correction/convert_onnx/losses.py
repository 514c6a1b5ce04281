# SPDX-License-Identifier: Apache-2.0
"""ONNX's losses: scores [N, C, D1 ...] are rows [N D1 ..., C] here."""

import numpy as np

from .case import PLAIN, NotApplied


def _loss(case, node, scores_are_logits):
    node.allow("reduction", "ignore_index")
    x, labels = node.inputs[:2]
    own = case.shape(x)
    if len(own) < 2:
        raise NotApplied("scores without a batch")
    classes, spatial = own[1], own[2:]
    label = case.array(labels).reshape(-1)
    ignored = node.attr("ignore_index")
    case.sums(np.prod(own))
    logp = case.plain(x)
    if scores_are_logits:
        names = [(node.outputs[1], PLAIN)] if len(node.outputs) > 1 and node.outputs[1] else ()
        logp = case.step("log_softmax_axis", [logp], {"axis": 1}, names)[0]
    if spatial:
        rank = len(own)
        logp = case.step("permute", [logp], {"axes": [0, *range(2, rank), 1]})[0]
        logp = case.step("reshape", [logp], {"shape": [int(label.size), classes]})[0]
    weight = case.array(node.inputs[2]) if len(node.inputs) > 2 and node.inputs[2] else None
    if node.attr("reduction", "mean") == "none":
        _each(case, node, logp, (label, ignored, weight), [own[0], *spatial])
    else:
        _together(case, node, logp, (label, ignored, weight), classes)


def _each(case, node, logp, target, shape):
    """The loss of each row: minus the label's number, times its weight, 0 where it is ignored."""
    label, ignored, weight = target
    counts = np.ones(label.shape, bool) if ignored is None else label != ignored
    safe = np.where(counts, label, 0)
    if ((safe < 0) | (safe >= case.shape(node.inputs[0])[1])).any():
        raise NotApplied("labels outside of the classes")
    factors = -(weight[safe] if weight is not None else np.ones(safe.shape)) * counts
    picked = case.step("gather", [logp, case.feed(safe[:, None], integers=True)], {"axis": 1})[0]
    loss = case.step("mul", [picked, case.feed(factors.astype(np.float32)[:, None])])[0]
    case.step("reshape", [loss], {"shape": shape}, [(node.outputs[0], PLAIN)])


def _together(case, node, logp, target, classes):
    label, ignored, weight = target
    labels, mean = case.feed(label, integers=True), node.attr("reduction", "mean") == "mean"
    last = [(node.outputs[0], PLAIN)]
    if ignored is None and weight is None:
        total = case.step("nll", [logp, labels], {}, () if mean else last)[0]
    else:
        weights = case.feed(np.ones(classes, np.float32) if weight is None else weight)
        attrs = {} if ignored is None else {"ignore_index": int(ignored)}
        inputs = [logp, labels, weights]
        if mean:
            inputs.append(case.step("class_norm", [labels, weights], attrs)[0])
        total = case.step("weighted_nll", inputs, attrs, () if mean else last)[0]
    if mean:
        case.step("affine", [total], {"scale": 1.0 / label.size, "shift": 0.0}, last)


def softmax_cross_entropy(case, node):
    _loss(case, node, True)


def negative_log_likelihood(case, node):
    _loss(case, node, False)


CONVERTERS = {
    "NegativeLogLikelihoodLoss": negative_log_likelihood,
    "SoftmaxCrossEntropyLoss": softmax_cross_entropy,
}
