// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
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

// Normalisations of each sample by itself, the same in training and outside of it. Parameters are
// fp32 and have no weight decay; statistics are computed in fp32 and saved, 4 bytes each.
// @throws InvalidArgument  at compile(): eps <= 0, too few axes, groups that do not divide C.

/// y = (x - mean) * rstd * weight + bias over the last `num_axes` axes, rstd = 1 / sqrt(var + eps)
/// with the biased variance. Parameters weight and (unless `bias` is false) bias, of those axes.
/// Saves x, mean, rstd. Source: arXiv:1607.06450. Agrees with torch.nn.LayerNorm.
TR_API BluePrint layer_norm(float eps = 1e-5f, int num_axes = 1, bool bias = true,
                            std::source_location where = std::source_location::current());

/// y = x * rstd * weight over the last `num_axes` axes, rstd = 1 / sqrt(mean of x^2 + eps).
/// Saves x, rstd. Source: arXiv:1910.07467. Agrees with torch.nn.RMSNorm (whose eps is 1.2e-7).
TR_API BluePrint rms_norm(float eps = 1e-6f, int num_axes = 1,
                          std::source_location where = std::source_location::current());

/// layer_norm over height, width and each of `groups` runs of the channels of x [N, ..., C];
/// parameters weight and bias [C]. With as many groups as channels it is instance norm.
/// Saves x, mean, rstd. Source: arXiv:1803.08494. Agrees with torch.nn.GroupNorm.
TR_API BluePrint group_norm(std::int64_t groups, float eps = 1e-5f, bool bias = true,
                            std::source_location where = std::source_location::current());

}  // namespace tr
