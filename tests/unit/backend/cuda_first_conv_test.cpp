// SPDX-License-Identifier: Apache-2.0
// A network's first convolution, fused with the norm behind it, against the same ops one by one in
// fp32, which round nothing to 16 bits in between.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "graph/op_def.h"
#include "ops/conv_geometry.h"
#include "renaissance/task/simple_task.h"
#include "support/compare.h"
#include "support/device.h"

namespace tr::test {
namespace {

constexpr TaskDevice kGpu{DeviceKind::CUDA, 0};
using Ints = std::vector<std::int64_t>;

struct FirstCase {
  std::string name;
  Shape picture;
  std::int64_t out = 64;
  Ints stride = {1, 1}, padding = {1, 1};
  std::int64_t side = 3;
  double mean = 0;  // of x, in its deviations: cancels

  Attrs attrs() const {
    return {{"out_channels", out},
            {"kernel", Ints{side, side}},
            {"stride", stride},
            {"padding", padding}};
  }
};

void PrintTo(const FirstCase& c, std::ostream* out) { *out << c.name; }

std::vector<Tensor> run(const std::string& op, const std::vector<Tensor>& in,
                        const Attrs& attrs = {}) {
  return run_op(op, in, attrs, kGpu);
}

class FirstConvTest : public DeviceTest<DeviceKind::CUDA, testing::TestWithParam<FirstCase>> {
 protected:
  struct Operands {
    Tensor picture, x, weight, bias, mean, rstd;
  };

  static Operands operands(DType dtype) {
    const FirstCase& c = GetParam();
    Operands o;
    o.picture = Tensor::uniform(c.picture, -1, 1.5f, 1, dtype);
    const ConvGeometry g = conv_geometry(
        complete_attrs(OpRegistry::instance().get("conv"), c.attrs()), o.picture.type());
    o.x = Tensor::uniform(g.y_shape(), float(c.mean - 1), float(c.mean + 1), 2, dtype);
    const Shape channel = {c.out};
    o.weight = Tensor::uniform(channel, 0.5f, 1.5f, 3);
    o.bias = Tensor::uniform(channel, -1, 1, 4);
    const std::vector<Tensor> bn =
        run("bn", {o.x, o.weight, o.bias, Tensor::zeros(channel), Tensor::full(channel, 1)});
    o.mean = bn[1];
    o.rstd = bn[2];
    return o;
  }
  static void check(const std::vector<Tensor>& got, const std::vector<Tensor>& norm,
                    const Tensor& dconv, DType dconv_dtype, double scale) {
    const std::int64_t rows = norm[0].num_elements() / norm[0].shape().back();
    EXPECT_TRUE(is_close(got[0], dconv, tolerance(dconv_dtype, rows, scale), "dconv_weight"));
    EXPECT_TRUE(is_close(got[1], norm[1], tolerance(DType::FP32, rows, 3), "dweight"));
    EXPECT_TRUE(is_close(got[2], norm[2], tolerance(DType::FP32, rows), "dbias"));
  }
};

Tensor wide(const Tensor& t) { return t.to(DType::FP32); }

class ThreeByThree : public FirstConvTest {
 protected:
  /// What the fused forward pass reads. Weights whose sum over the window is far from 0, and the
  /// picture's mean, make x's mean `c.mean` of its deviations and more.
  struct Block {
    Tensor picture, conv_weight, weight, bias, running_mean, running_var;

    std::vector<Tensor> inputs() const {
      return {picture, conv_weight, weight, bias, running_mean, running_var};
    }
  };
  static Block block(DType dtype) {
    const FirstCase& c = GetParam();
    const Shape channel = {c.out};
    return {Tensor::uniform(c.picture, float(c.mean - 1), float(c.mean + 1.5), 1, dtype),
            Tensor::uniform({c.out, 3, 3, 3}, -0.3f, 0.4f, 2, dtype),
            Tensor::uniform(channel, 0.5f, 1.5f, 3),
            Tensor::uniform(channel, -1, 1, 4),
            Tensor::uniform(channel, -1, 1, 5),
            Tensor::uniform(channel, 0.5f, 2, 6)};
  }
};

const Attrs kRelu = {{"activation", std::string("relu")}};

/// Bits of a mask as bytes.
std::vector<bool> bits_of(const Tensor& mask, std::int64_t count) {
  std::vector<bool> bits;
  const auto* bytes = mask.data<std::uint8_t>();
  for (std::int64_t i = 0; i < count; ++i) bits.push_back(bytes[i / 8] >> (i % 8) & 1);
  return bits;
}

TEST_P(ThreeByThree, Forward) {
  const FirstCase& c = GetParam();
  for (const DType dtype : {DType::FP16, DType::BF16}) {
    SCOPED_TRACE(std::string(name_of(dtype)));
    const Block b = block(dtype);
    const std::vector<Tensor> got = run("conv_bn_act", b.inputs(), c.attrs());
    const std::vector<Tensor> again = run("conv_bn_act", b.inputs(), c.attrs());
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(same_bytes(again[i], got[i], "again"));
    const Tensor x = run("conv", {wide(b.picture), wide(b.conv_weight)}, c.attrs()).front();
    const std::vector<Tensor> expected =
        run("bn_act", {x, b.weight, b.bias, b.running_mean, b.running_var}, kRelu);
    const std::int64_t rows = x.num_elements() / c.out;
    // Products of windows cancel where the picture's mean is large.
    const double scale = 4 * (1 + c.mean * c.mean);
    EXPECT_TRUE(is_close(got[0], expected[0].to(dtype), tolerance(dtype, 27, scale), "y"));
    const char* names[] = {"y", "mean", "rstd", "next_mean", "next_var"};
    for (std::size_t i = 1; i < 5; ++i) {
      EXPECT_TRUE(is_close(got[i], expected[i], tolerance(DType::FP32, rows, scale), names[i]));
    }
    const std::vector<bool> bits = bits_of(got[5], x.num_elements());
    const Tensor y = wide(got[0]);
    for (std::int64_t i = 0; i < x.num_elements(); ++i) {
      ASSERT_EQ(bits[std::size_t(i)], y.data<float>()[i] > 0) << i;
    }
  }
}

TEST_P(ThreeByThree, Gradient) {
  const FirstCase& c = GetParam();
  for (const DType dtype : {DType::FP16, DType::BF16}) {
    SCOPED_TRACE(std::string(name_of(dtype)));
    const Block b = block(dtype);
    const std::vector<Tensor> forward = run("conv_bn_act", b.inputs(), c.attrs());
    const Tensor dy = Tensor::uniform(forward[0].shape(), -1, 1, 7, dtype);
    const std::vector<Tensor> in = {dy,         forward[5], b.weight,      forward[1],
                                    forward[2], forward[6], b.conv_weight, b.picture};
    const std::vector<Tensor> got = run("conv_bn_act_dweight", in, c.attrs());
    const std::vector<Tensor> again = run("conv_bn_act_dweight", in, c.attrs());
    for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(same_bytes(again[i], got[i], "again"));
    const Tensor x = run("conv", {wide(b.picture), wide(b.conv_weight)}, c.attrs()).front();
    // What the rectifier let through is as the forward pass says: near 0 the two differ.
    const Tensor dz = run("relu_backward", {wide(dy), wide(forward[0])}).front();
    const std::vector<Tensor> norm = run("bn_backward", {dz, x, b.weight, forward[1], forward[2]});
    const Tensor dconv = run("conv_dweight", {norm[0], wide(b.picture)}, c.attrs()).front();
    // Three sums that cancel, of terms up to weight / deviation times the picture's values.
    const auto* rstd = forward[2].data<float>();
    const double steepest = *std::max_element(rstd, rstd + c.out);
    check(got, norm, dconv, DType::FP32,
          std::max(8 * (1 + c.mean * c.mean), 3 * 1.5 * steepest * (1.5 + c.mean)));
  }
}

// Sums of products that cancel to nothing.
TEST(FirstConvAlone, AFlatPictureHasNoVariance) {
  if (const std::string reason = why_no_device(DeviceKind::CUDA); !reason.empty()) {
    GTEST_SKIP() << reason;
  }
  const Attrs attrs = {{"out_channels", std::int64_t{64}}, {"kernel", Ints{3, 3}}};
  const Tensor picture = Tensor::full({4, 20, 20, 3}, 2.5, DType::FP16);
  const Shape channel = {64};
  const std::vector<Tensor> got =
      run("conv_bn_act",
          {picture, Tensor::uniform({64, 3, 3, 3}, -1, 1, 2, DType::FP16), Tensor::full(channel, 1),
           Tensor::zeros(channel), Tensor::zeros(channel), Tensor::zeros(channel)},
          attrs);
  for (std::int64_t i = 0; i < 64; ++i) {
    EXPECT_NEAR(got[2].data<float>()[i], 1 / std::sqrt(1e-5), 1e-2) << "rstd, no padding";
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, ThreeByThree,
                         testing::Values(FirstCase{"Small", {2, 12, 12, 3}},
                                         FirstCase{"OnePixel", {3, 1, 1, 3}},
                                         FirstCase{"Odd", {3, 17, 13, 3}, 128, {2, 2}, {0, 0}},
                                         FirstCase{"Oblong", {2, 33, 70, 3}, 192, {1, 2}, {2, 0}},
                                         FirstCase{"Far", {4, 32, 32, 3}, 64, {1, 1}, {1, 1}, 3, 5},
                                         FirstCase{"Narrow", {5, 7, 2, 3}, 64, {1, 1}, {2, 2}},
                                         FirstCase{"Column", {3, 9, 1, 3}, 128},
                                         FirstCase{"NoPadding", {1, 5, 5, 3}, 64, {1, 1}, {0, 0}},
                                         FirstCase{"Apart", {2, 23, 31, 3}, 64, {4, 5}, {1, 1}},
                                         FirstCase{"ManyTiles", {16, 64, 65, 3}}),
                         [](const auto& info) { return info.param.name; });

class Stem : public FirstConvTest {};

TEST_P(Stem, WithoutItsDx) {
  const FirstCase& c = GetParam();
  const Attrs pool = {{"kernel", Ints{3, 3}}, {"stride", Ints{2, 2}}, {"padding", Ints{1, 1}}};
  Attrs attrs = c.attrs();
  for (const char* name : {"kernel", "stride", "padding"}) {
    attrs.set(std::string("pool_") + name, pool.ints(name));
  }
  for (const DType dtype : {DType::FP16, DType::BF16}) {
    SCOPED_TRACE(std::string(name_of(dtype)));
    const Operands o = operands(dtype);
    const Shape channel = {c.out};
    const std::vector<Tensor> forward =
        run("bn_maxpool", {o.x, o.weight, o.bias, Tensor::zeros(channel), Tensor::full(channel, 1)},
            pool);
    const Tensor dy = Tensor::uniform(forward[0].shape(), -1, 1, 6, dtype);
    const std::vector<Tensor> in = {dy,     o.x,    o.weight,   o.bias,
                                    o.mean, o.rstd, forward[5], o.picture};
    const std::vector<Tensor> got = run("bn_maxpool_conv_dweight", in, attrs);
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_TRUE(same_bytes(run("bn_maxpool_conv_dweight", in, attrs)[i], got[i], "again"));
    }
    const std::vector<Tensor> norm =
        run("bn_maxpool_backward", {dy, o.x, o.weight, o.bias, o.mean, o.rstd, forward[5]}, pool);
    const Tensor dconv = run("conv_dweight", {norm[0], o.picture}, c.attrs()).front();
    check(got, norm, dconv, DType::FP32, 4);
    for (std::size_t i = 1; i < 3; ++i) {
      EXPECT_TRUE(same_bytes(got[i], norm[i], "the norm's sums"));
    }
    EXPECT_TRUE(same_bytes(got[0], dconv, "dx is rounded as where it is stored"));
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, Stem,
                         testing::Values(FirstCase{"Small", {2, 18, 18, 3}, 64, {2, 2}, {3, 3}, 7},
                                         FirstCase{"Wide", {2, 11, 256, 3}, 128, {2, 2}, {3, 3}, 7},
                                         FirstCase{"Odd", {3, 9, 233, 3}, 64, {2, 2}, {2, 0}, 7}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tr::test
