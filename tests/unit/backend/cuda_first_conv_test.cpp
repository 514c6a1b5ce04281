// SPDX-License-Identifier: Apache-2.0
// The gradient of a network's first convolution, fused with that of the norm behind it, against the
// same ops one by one in fp32, whose dx is not rounded to 16 bits.
#include <gtest/gtest.h>

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

class ThreeByThree : public FirstConvTest {};

TEST_P(ThreeByThree, WithoutItsDx) {
  const FirstCase& c = GetParam();
  const Attrs relu = {{"activation", std::string("relu")}};
  for (const DType dtype : {DType::FP16, DType::BF16}) {
    SCOPED_TRACE(std::string(name_of(dtype)));
    const Operands o = operands(dtype);
    const Tensor dy = Tensor::uniform(o.x.shape(), -1, 1, 6, dtype);
    const std::vector<Tensor> in = {dy, o.x, o.weight, o.bias, o.mean, o.rstd, o.picture};
    const std::vector<Tensor> got = run("bn_act_conv_dweight", in, c.attrs());
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_TRUE(same_bytes(run("bn_act_conv_dweight", in, c.attrs())[i], got[i], "again"));
    }
    const auto wide = [](const Tensor& t) { return t.to(DType::FP32); };
    const std::vector<Tensor> norm =
        run("bn_act_backward", {wide(dy), wide(o.x), o.weight, o.bias, o.mean, o.rstd}, relu);
    const Tensor dconv = run("conv_dweight", {norm[0], wide(o.picture)}, c.attrs()).front();
    // Three sums that cancel, of terms up to 1.5 times weight / deviation and the mean in them.
    check(got, norm, dconv, DType::FP32, 8 * (1 + c.mean));
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, ThreeByThree,
                         testing::Values(FirstCase{"Small", {2, 12, 12, 3}},
                                         FirstCase{"OnePixel", {3, 1, 1, 3}},
                                         FirstCase{"Odd", {3, 17, 13, 3}, 128, {2, 2}, {0, 0}},
                                         FirstCase{"Oblong", {2, 33, 70, 3}, 192, {1, 2}, {2, 0}},
                                         FirstCase{"Far", {4, 32, 32, 3}, 64, {1, 1}, {1, 1}, 3, 5},
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
