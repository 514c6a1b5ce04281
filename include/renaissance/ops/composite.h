// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <source_location>

#include "renaissance/core/export.h"
#include "renaissance/graph/blueprint.h"
#include "renaissance/ops/conv.h"

namespace tr {

// Short forms of often written rows of layers. Each is exactly the seq() given in its comment.

/// seq(conv(out, k, s, p), bn(momentum, eps), relu())
TR_API BluePrint cbr(std::int64_t out_channels, Size2d kernel, Size2d stride = 1,
                     Size2d padding = 0, float momentum = 0.1f, float eps = 1e-5f,
                     std::source_location where = std::source_location::current());
/// Another name of cbr.
TR_API BluePrint conv_bn_relu(std::int64_t out_channels, Size2d kernel, Size2d stride = 1,
                              Size2d padding = 0, float momentum = 0.1f, float eps = 1e-5f,
                              std::source_location where = std::source_location::current());
/// seq(conv, bn, relu, maxpool)
TR_API BluePrint cbrp(std::int64_t out_channels, Size2d conv_kernel, Size2d conv_stride,
                      Size2d conv_padding, Size2d pool_kernel, Size2d pool_stride,
                      Size2d pool_padding,
                      std::source_location where = std::source_location::current());
/// seq(gap(), flatten(), fc(out, bias))
TR_API BluePrint gap_fc(std::int64_t out_features, bool bias,
                        std::source_location where = std::source_location::current());

/// Factors a channel, learnt from the channels' means: x * scale(fc2(activation(fc1(gap(x))))).
/// `channels` is that of x; fc1 and fc2 are 1x1 convolutions with bias, named as torchvision's.
/// Source: Hu et al. 2017, arXiv:1709.01507. Agrees with torchvision.ops.SqueezeExcitation.
TR_API BluePrint squeeze_excite(std::int64_t channels, std::int64_t squeeze_channels,
                                const BluePrint& activation, const BluePrint& scale_activation,
                                std::source_location where = std::source_location::current());
/// With relu and sigmoid.
TR_API BluePrint squeeze_excite(std::int64_t channels, std::int64_t squeeze_channels,
                                std::source_location where = std::source_location::current());

/// Kinds of block(). `_DS` halves height and width (stride 2) and, in ResNets, projects the
/// shortcut by a 1x1 convolution with bn; the others keep the size and take x itself as the
/// shortcut.
enum class BlockStyle {
  RESNET_1_3_1,  // bottleneck: 1x1 mid, 3x3 mid (stride here, as in torchvision), 1x1 out
  RESNET_1_3_1_DS,
  RESNET_3_3,  // basic: 3x3 out (stride here), 3x3 out
  RESNET_3_3_DS,
  MB_E1_K3,  // inverted residual: depthwise 3x3, 1x1 out
  MB_E1_K3_DS,
  MB_E6_K3,  // inverted residual: 1x1 to six times the channels, depthwise 3x3, 1x1 out
  MB_E6_K3_DS
};
using enum BlockStyle;

struct BlockOptions {
  std::int64_t stride =
      0;  // 0: 2 for _DS styles, else 1. A _DS style with stride 1 projects without halving
};

/// A bottleneck block: seq(residual(body[, shortcut]), relu()).
/// @throws InvalidArgument  the style is not RESNET_1_3_1 or RESNET_1_3_1_DS, or a plain style has
///   a stride above 1.
/// Source: He et al. 2015, arXiv:1512.03385.
TR_API BluePrint block(std::int64_t mid_channels, std::int64_t out_channels, BlockStyle style,
                       BlockOptions options = {},
                       std::source_location where = std::source_location::current());
/// A basic or inverted-residual block.
/// @throws InvalidArgument  the style is a bottleneck, which needs mid_channels.
TR_API BluePrint block(std::int64_t out_channels, BlockStyle style, BlockOptions options = {},
                       std::source_location where = std::source_location::current());

/// Inverted residual: [1x1 to expand * C, bn, relu6,] depthwise 3x3, bn, relu6, 1x1 to out, bn.
/// The shortcut x is added where stride is 1 and `shortcut` is true; x must then have out_channels
/// channels.
/// @throws InvalidArgument  expand < 1, or stride is neither 1 nor 2.
/// Source: MobileNetV2, Sandler et al. 2018, arXiv:1801.04381.
TR_API BluePrint mbconv(std::int64_t expand, std::int64_t out_channels, std::int64_t stride = 1,
                        bool shortcut = true,
                        std::source_location where = std::source_location::current());

}  // namespace tr
