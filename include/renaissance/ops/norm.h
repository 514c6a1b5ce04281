// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <source_location>

#include "renaissance/core/export.h"
#include "renaissance/graph/blueprint.h"

namespace tr {

/// Batch normalisation over all axes but the last.
///
///   training:   y = (x - mean) * rstd * weight + bias,  rstd = 1 / sqrt(var + eps)
///               with the batch's mean and biased variance;
///               running = (1 - momentum) * running + momentum * batch   (unbiased variance),
///               which a skipped step leaves as it was
///   otherwise:  y from the running statistics
///
/// @param momentum     weight of the new batch, in (0, 1]
/// @param eps          added to the variance, > 0
/// @param ends_branch  marks the norm before a residual sum: Initializer::zero_gamma begins its
///                     weight at 0
/// x [N, ..., C]; parameters weight and bias [C] (no weight decay), buffers running_mean and
/// running_var [C], all fp32. Saves x, and mean and rstd, fp32 [C].
/// @throws InvalidArgument  at compile(): momentum or eps out of range; one value a channel in
///   training.
/// Source: Ioffe, Szegedy 2015, arXiv:1502.03167. Agrees with torch.nn.BatchNorm1d and 2d.
TR_API BluePrint bn(float momentum = 0.1f, float eps = 1e-5f, bool ends_branch = false,
                    std::source_location where = std::source_location::current());

/// bn that normalises with its running statistics in training too and leaves them as they are:
/// weight and bias still learn. For fine-tuning with batches too small for statistics of their own,
/// one value a channel included. @param eps  added to the variance, > 0
/// Parameters and names are those of bn. Saves x.
/// Agrees with torch.nn.BatchNorm2d in eval() mode.
TR_API BluePrint bn_frozen(float eps = 1e-5f,
                           std::source_location where = std::source_location::current());

}  // namespace tr
