// SPDX-License-Identifier: Apache-2.0
#include "ops/conv_geometry.h"

#include "core/check.h"
#include "core/format.h"
#include "core/saturate.h"
#include "ops/rules.h"

namespace tr {
namespace {

constexpr const char* kAxisNames[2] = {"height", "width"};

/// Copies the pair `name` of the attributes. @throws InvalidArgument  not two numbers, or one below
/// `least`.
void read_pair(const Attrs& attrs, const char* name, std::int64_t least, std::int64_t (&out)[2]) {
  const std::vector<std::int64_t>& values = attrs.ints(name);
  TR_CHECK(values.size() == 2, "{} has {} numbers, expected 2 (height, width)", name,
           values.size());
  for (int i = 0; i < 2; ++i) {
    out[i] = values[std::size_t(i)];
    TR_CHECK(out[i] >= least && out[i] <= (1 << 20), "{} is {} along {}, expected {} to {}", name,
             out[i], kAxisNames[i], least, 1 << 20);
  }
}

}  // namespace

std::int64_t ConvGeometry::multiply_adds() const {
  return saturated_product({y_shape().num_elements(), kernel[0], kernel[1], channels / groups});
}

ConvGeometry conv_geometry(const Attrs& attrs, const TensorType& x) {
  ops::check_floating("x", x);
  ops::check_rank("x", x, 4, "[N, H, W, C]");
  ConvGeometry g{};
  g.batch = x.shape[0], g.height = x.shape[1], g.width = x.shape[2], g.channels = x.shape[3];
  read_pair(attrs, "kernel", 1, g.kernel);
  read_pair(attrs, "stride", 1, g.stride);
  read_pair(attrs, "padding", 0, g.padding);
  read_pair(attrs, "dilation", 1, g.dilation);

  const std::int64_t out = attrs.i64("out_channels"), groups = attrs.i64("groups");
  TR_CHECK(out >= 0 && groups >= 0, "out_channels is {} and groups {}, expected at least 1", out,
           groups);
  const std::int64_t multiplier = attrs.i64("multiplier");
  TR_CHECK(multiplier >= 1 && multiplier <= (1 << 20), "multiplier is {}, expected 1 to {}",
           multiplier, 1 << 20);
  g.out_channels = out > 0 ? out : multiplier * g.channels;
  g.groups = groups > 0 ? groups : g.channels;
  TR_CHECK(g.groups >= 1 && g.channels % g.groups == 0 && g.out_channels % g.groups == 0,
           "groups is {}, expected a divisor of the {} channels of x and of out_channels {}",
           g.groups, g.channels, g.out_channels);

  const std::int64_t size[2] = {g.height, g.width};
  std::int64_t result[2];
  for (int i = 0; i < 2; ++i) {
    const std::int64_t reach = g.dilation[i] * (g.kernel[i] - 1) + 1;
    const std::int64_t padded = size[i] + 2 * g.padding[i];
    TR_CHECK(padded >= reach,
             "kernel covers {} cells along {}, expected at most {} (x {} with padding {})", reach,
             kAxisNames[i], padded, x.shape, g.padding[i]);
    result[i] = (padded - reach) / g.stride[i] + 1;
  }
  g.out_height = result[0], g.out_width = result[1];
  return g;
}

PoolGeometry pool_geometry(const Attrs& attrs, const TensorType& x) {
  ops::check_floating("x", x);
  ops::check_rank("x", x, 4, "[N, H, W, C]");
  PoolGeometry g{};
  g.batch = x.shape[0], g.height = x.shape[1], g.width = x.shape[2], g.channels = x.shape[3];
  read_pair(attrs, "kernel", 1, g.kernel);
  read_pair(attrs, "stride", 1, g.stride);
  read_pair(attrs, "padding", 0, g.padding);

  const std::int64_t size[2] = {g.height, g.width};
  std::int64_t result[2];
  for (int i = 0; i < 2; ++i) {
    TR_CHECK(2 * g.padding[i] <= g.kernel[i],
             "padding is {} along {}, expected at most {} (half the kernel)", g.padding[i],
             kAxisNames[i], g.kernel[i] / 2);
    // Rounding up adds a window that ends outside; where none fits inside, it is the only one.
    const std::int64_t round = attrs.flag("ceil_mode") ? g.stride[i] - 1 : 0;
    const std::int64_t padded = size[i] + 2 * g.padding[i];
    TR_CHECK(padded + round >= g.kernel[i],
             "kernel is {} along {}, expected at most {} (x {} with padding {})", g.kernel[i],
             kAxisNames[i], padded + round, x.shape, g.padding[i]);
    result[i] = (padded - g.kernel[i] + round) / g.stride[i] + 1;
    // As in PyTorch: the last window must begin inside the image or its left padding.
    if ((result[i] - 1) * g.stride[i] >= size[i] + g.padding[i]) --result[i];
  }
  g.out_height = result[0], g.out_width = result[1];
  return g;
}

PoolGeometry prefixed_pool_geometry(const Attrs& attrs, const TensorType& x) {
  Attrs pool;
  for (const char* name : {"kernel", "stride", "padding"}) {
    pool.set(name, attrs.ints(std::string("pool_") + name));
  }
  pool.set("ceil_mode", attrs.flag("pool_ceil_mode"));
  return pool_geometry(pool, x);
}

AdaptiveGeometry adaptive_geometry(const Attrs& attrs, const TensorType& x) {
  ops::check_floating("x", x);
  ops::check_rank("x", x, 4, "[N, H, W, C]");
  std::int64_t size[2];
  read_pair(attrs, "size", 1, size);
  AdaptiveGeometry g{};
  g.batch = x.shape[0], g.height = x.shape[1], g.width = x.shape[2], g.channels = x.shape[3];
  g.out_height = size[0], g.out_width = size[1];
  return g;
}

}  // namespace tr
