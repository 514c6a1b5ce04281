// SPDX-License-Identifier: Apache-2.0
#include "renaissance/ops/composite.h"

#include "core/check.h"
#include "renaissance/ops/elementwise.h"
#include "renaissance/ops/linear.h"
#include "renaissance/ops/norm.h"
#include "renaissance/ops/pooling.h"
#include "renaissance/ops/shape.h"

namespace tr {
namespace {

using Place = std::source_location;

/// conv that keeps the size at stride 1 (odd kernels), then bn.
std::vector<BluePrint> conv_bn(std::int64_t out, std::int64_t kernel, std::int64_t stride,
                               bool ends_branch, Place where) {
  return {conv(out, kernel, stride, kernel / 2, {}, where), bn(0.1f, 1e-5f, ends_branch, where)};
}

void append(std::vector<BluePrint>& row, const std::vector<BluePrint>& more) {
  row.insert(row.end(), more.begin(), more.end());
}

bool is_downsampling(BlockStyle style) {
  return style == RESNET_1_3_1_DS || style == RESNET_3_3_DS || style == MB_E1_K3_DS ||
         style == MB_E6_K3_DS;
}

std::int64_t stride_of(BlockStyle style, const BlockOptions& options) {
  const std::int64_t stride =
      options.stride == 0 ? (is_downsampling(style) ? 2 : 1) : options.stride;
  TR_CHECK(stride >= 1, "block: stride is {}, expected at least 1", stride);
  TR_CHECK(stride == 1 || is_downsampling(style),
           "block: stride is {} in a style without _DS, expected 1 (the shortcut is x itself)",
           stride);
  return stride;
}

/// residual, then the rectifier that ResNet puts after the sum.
BluePrint resnet_block(std::vector<BluePrint> body, std::int64_t out, std::int64_t stride,
                       BlockStyle style, Place where) {
  const BluePrint main = seq(std::move(body));
  const BluePrint sum =
      is_downsampling(style)
          ? residual(main, seq({conv(out, 1, stride, 0, {}, where), bn(0.1f, 1e-5f, false, where)}))
          : residual(main);
  return seq(sum, relu(where));
}

}  // namespace

BluePrint cbr(std::int64_t out_channels, Size2d kernel, Size2d stride, Size2d padding,
              float momentum, float eps, Place where) {
  return seq(conv(out_channels, kernel, stride, padding, {}, where),
             bn(momentum, eps, false, where), relu(where));
}

BluePrint conv_bn_relu(std::int64_t out_channels, Size2d kernel, Size2d stride, Size2d padding,
                       float momentum, float eps, Place where) {
  return cbr(out_channels, kernel, stride, padding, momentum, eps, where);
}

BluePrint cbrp(std::int64_t out_channels, Size2d conv_kernel, Size2d conv_stride,
               Size2d conv_padding, Size2d pool_kernel, Size2d pool_stride, Size2d pool_padding,
               Place where) {
  return seq(conv(out_channels, conv_kernel, conv_stride, conv_padding, {}, where),
             bn(0.1f, 1e-5f, false, where), relu(where),
             maxpool(pool_kernel, pool_stride, pool_padding, {}, where));
}

BluePrint gap_fc(std::int64_t out_features, bool bias, Place where) {
  return seq(gap(where), flatten(where), fc(out_features, bias, where));
}

BluePrint squeeze_excite(std::int64_t channels, std::int64_t squeeze_channels,
                         const BluePrint& activation, const BluePrint& scale_activation,
                         Place where) {
  const ConvOptions with_bias{.bias = true};
  const Value x = input();
  Value s = gap(where).named("avgpool")(x);
  s = activation(conv(squeeze_channels, 1, 1, 0, with_bias, where).named("fc1")(s));
  s = scale_activation(conv(channels, 1, 1, 0, with_bias, where).named("fc2")(s));
  return model(x, layer("mul", {{"keep_shape", true}}, 2, where)(x, s));
}

BluePrint squeeze_excite(std::int64_t channels, std::int64_t squeeze_channels, Place where) {
  return squeeze_excite(channels, squeeze_channels, relu(where), sigmoid(where), where);
}

BluePrint block(std::int64_t mid_channels, std::int64_t out_channels, BlockStyle style,
                BlockOptions options, Place where) {
  TR_CHECK(style == RESNET_1_3_1 || style == RESNET_1_3_1_DS,
           "block: mid_channels is given ({}), expected style RESNET_1_3_1 or RESNET_1_3_1_DS",
           mid_channels);
  const std::int64_t stride = stride_of(style, options);
  std::vector<BluePrint> body = conv_bn(mid_channels, 1, 1, false, where);
  body.push_back(relu(where));
  append(body, conv_bn(mid_channels, 3, stride, false, where));
  body.push_back(relu(where));
  append(body, conv_bn(out_channels, 1, 1, true, where));
  return resnet_block(std::move(body), out_channels, stride, style, where);
}

BluePrint block(std::int64_t out_channels, BlockStyle style, BlockOptions options, Place where) {
  TR_CHECK(
      style != RESNET_1_3_1 && style != RESNET_1_3_1_DS,
      "block: mid_channels is missing, expected block(mid_channels, {}, style) for a bottleneck",
      out_channels);
  const std::int64_t stride = stride_of(style, options);
  if (style != RESNET_3_3 && style != RESNET_3_3_DS) {
    const std::int64_t expand = style == MB_E1_K3 || style == MB_E1_K3_DS ? 1 : 6;
    return mbconv(expand, out_channels, stride, !is_downsampling(style), where);
  }
  std::vector<BluePrint> body = conv_bn(out_channels, 3, stride, false, where);
  body.push_back(relu(where));
  append(body, conv_bn(out_channels, 3, 1, true, where));
  return resnet_block(std::move(body), out_channels, stride, style, where);
}

BluePrint mbconv(std::int64_t expand, std::int64_t out_channels, std::int64_t stride, bool shortcut,
                 Place where) {
  TR_CHECK(expand >= 1, "mbconv: expand is {}, expected at least 1", expand);
  TR_CHECK(stride == 1 || stride == 2, "mbconv: stride is {}, expected 1 or 2", stride);
  const bool has_shortcut = shortcut && stride == 1;
  std::vector<BluePrint> body;
  if (expand > 1) {
    append(body, {conv_expand(expand, where), bn(0.1f, 1e-5f, false, where), relu6(where)});
  }
  append(body, {conv_dw(3, stride, 1, {}, where), bn(0.1f, 1e-5f, false, where), relu6(where)});
  append(body, conv_bn(out_channels, 1, 1, has_shortcut, where));
  const BluePrint main = seq(std::move(body));
  return has_shortcut ? residual(main) : main;
}

}  // namespace tr
