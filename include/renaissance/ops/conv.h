// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <source_location>

#include "renaissance/core/export.h"
#include "renaissance/graph/blueprint.h"

namespace tr {

/// Height and width; one number stands for both: conv(64, 3) and conv(64, {3, 5}).
struct Size2d {
  std::int64_t height = 1;
  std::int64_t width = 1;

  constexpr Size2d(std::int64_t both) : height(both), width(both) {}  // NOLINT: implicit by design
  constexpr Size2d(std::int64_t h, std::int64_t w) : height(h), width(w) {}
};

struct ConvOptions {
  bool bias = false;  // the articles' convolutions have none: batch norm follows
  Size2d dilation = 1;
  std::int64_t groups = 1;
};

/// Cross-correlation of an image with zero padding.
///
///   y[n, p, q, o] = b[o] + sum over r, s, i of x[n, h, w, i] * W[o, r, s, i]
///   with h = p * stride + r * dilation - padding, w likewise
///   P = floor((H + 2 padding - dilation (R - 1) - 1) / stride) + 1
///
/// @param x  [N, H, W, C]; result [N, P, Q, out_channels]
/// Parameters: weight [O, R, S, C / groups] ([O, C / groups, R, S] in files), bias [O] on request.
/// Saves x, reads W again.
/// @throws InvalidArgument  a number is out of range, groups do not divide C and out_channels, or
///   the kernel exceeds the padded image; the last two at compile().
/// Agrees with torch.nn.Conv2d, whose bias is on by default; ours is off.
TR_API BluePrint conv(std::int64_t out_channels, Size2d kernel, Size2d stride = 1,
                      Size2d padding = 0, ConvOptions options = {},
                      std::source_location where = std::source_location::current());

/// Depthwise: as many groups and output channels as x has channels.
/// Agrees with torch.nn.Conv2d(C, C, k, groups=C).
TR_API BluePrint conv_dw(Size2d kernel, Size2d stride = 1, Size2d padding = 0,
                         ConvOptions options = {},
                         std::source_location where = std::source_location::current());

/// conv with options.groups = groups.
TR_API BluePrint group_conv(std::int64_t out_channels, std::int64_t groups, Size2d kernel,
                            Size2d stride = 1, Size2d padding = 0, ConvOptions options = {},
                            std::source_location where = std::source_location::current());

/// 1x1 convolution to `factor` times the channels of x: the widening of an inverted residual, whose
/// input width is not known where it is written. @throws InvalidArgument  factor < 1.
TR_API BluePrint conv_expand(std::int64_t factor,
                             std::source_location where = std::source_location::current());

}  // namespace tr
