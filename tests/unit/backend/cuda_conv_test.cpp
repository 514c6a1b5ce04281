// SPDX-License-Identifier: Apache-2.0
// Convolutions on a GPU against sums in double; batch norm fused with its neighbours against the
// same ops one by one, byte for byte.
#include <gtest/gtest.h>

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

struct ConvCase {
  std::string name;
  Shape x;
  std::int64_t out = 1;
  Ints kernel = {3, 3}, stride = {1, 1}, padding = {1, 1}, dilation = {1, 1};
  std::int64_t groups = 1;
  bool bias = false;
  bool dx = true;  // false: the first of cuDNN's engines for it errs by four roundings

  Attrs attrs() const {
    return {{"out_channels", out},  {"kernel", kernel}, {"stride", stride}, {"padding", padding},
            {"dilation", dilation}, {"groups", groups}, {"bias", bias}};
  }
};

void PrintTo(const ConvCase& c, std::ostream* out) { *out << c.name; }

/// y, dx, dweight and dbias by their definition, in double.
struct Reference {
  ConvGeometry g;
  Array y, dx, dweight, dbias;

  Reference(const ConvGeometry& geometry, const Tensor& x, const Tensor& weight, const Tensor& bias,
            const Tensor& dy)
      : g(geometry),
        y(Array(g.y_shape())),
        dx(Array(g.x_shape())),
        dweight(Array(g.weight_shape())),
        dbias(Array(Shape{g.out_channels})) {
    const std::int64_t in = g.channels / g.groups, out = g.out_channels / g.groups;
    for (std::int64_t place = 0; place < y.shape.num_elements(); ++place) {
      const std::int64_t o = place % g.out_channels, pixel = place / g.out_channels;
      const std::int64_t ow = pixel % g.out_width, oh = pixel / g.out_width % g.out_height;
      const std::int64_t n = pixel / g.out_width / g.out_height;
      double sum = bias.empty() ? 0 : bias.at(o);
      dbias[o] += dy.at(place);
      for (std::int64_t cell = 0; cell < g.kernel[0] * g.kernel[1]; ++cell) {
        const std::int64_t r = cell / g.kernel[1], s = cell % g.kernel[1];
        const std::int64_t h = oh * g.stride[0] - g.padding[0] + r * g.dilation[0];
        const std::int64_t w = ow * g.stride[1] - g.padding[1] + s * g.dilation[1];
        if (h < 0 || h >= g.height || w < 0 || w >= g.width) continue;
        for (std::int64_t c = 0; c < in; ++c) {
          const std::int64_t xi =
              ((n * g.height + h) * g.width + w) * g.channels + o / out * in + c;
          const std::int64_t wi = (o * g.kernel[0] * g.kernel[1] + cell) * in + c;
          sum += x.at(xi) * weight.at(wi);
          dx[xi] += dy.at(place) * weight.at(wi);
          dweight[wi] += dy.at(place) * x.at(xi);
        }
      }
      y[place] = sum;
    }
  }
};

class CudaConvTest : public DeviceTest<DeviceKind::CUDA, testing::TestWithParam<ConvCase>> {
 protected:
  void check(DType dtype) {
    SCOPED_TRACE(std::string(name_of(dtype)));
    const ConvCase& c = GetParam();
    const Tensor x = Tensor::uniform(c.x, -1, 1, 1, dtype);
    const ConvGeometry g =
        conv_geometry(complete_attrs(OpRegistry::instance().get("conv"), c.attrs()), x.type());
    const Tensor weight = Tensor::uniform(g.weight_shape(), -1, 1, 2, dtype);
    const Tensor dy = Tensor::uniform(g.y_shape(), -1, 1, 3, dtype);
    const Tensor bias = c.bias ? Tensor::uniform({c.out}, -1, 1, 4) : Tensor();
    const Reference want(g, x, weight, bias, dy);
    std::vector<Tensor> inputs = {x, weight};
    if (c.bias) inputs.push_back(bias);
    const std::int64_t cells = g.kernel[0] * g.kernel[1];
    // A bias is added to the stored product: one more rounding of a number of its size.
    const double scale = c.bias ? 4 : 1;
    const Tensor y = run_op("conv", inputs, c.attrs(), kGpu).front();
    EXPECT_TRUE(is_close(y, want.y, tolerance(dtype, cells * g.channels / g.groups, scale), "y"));
    EXPECT_TRUE(same_bytes(run_op("conv", inputs, c.attrs(), kGpu).front(), y, "y again"));
    const std::vector<Tensor> grads = grad_op("conv", inputs, c.attrs(), {dy}, kGpu);
    if (c.dx) {
      EXPECT_TRUE(
          is_close(grads[0], want.dx, tolerance(dtype, cells * g.out_channels / g.groups), "dx"));
    }
    // Comes out of the library in the operands' dtype.
    const std::int64_t pixels = g.batch * g.out_height * g.out_width;
    EXPECT_TRUE(is_close(grads[1], want.dweight, tolerance(dtype, pixels), "dweight"));
    if (c.bias) {
      EXPECT_TRUE(is_close(grads[2], want.dbias, tolerance(DType::FP32, pixels), "dbias"));
    }
    const std::vector<Tensor> again = grad_op("conv", inputs, c.attrs(), {dy}, kGpu);
    EXPECT_TRUE(same_bytes(again[0], grads[0], "dx again"));
    EXPECT_TRUE(same_bytes(again[1], grads[1], "dweight again"));
  }
};

TEST_P(CudaConvTest, Fp16) { check(DType::FP16); }
TEST_P(CudaConvTest, Bf16) { check(DType::BF16); }
TEST_P(CudaConvTest, Fp32) { check(DType::FP32); }

INSTANTIATE_TEST_SUITE_P(
    Grid, CudaConvTest,
    testing::Values(
        ConvCase{"pointwise", {2, 7, 7, 64}, 32, {1, 1}, {1, 1}, {0, 0}},
        ConvCase{"pointwise_strided", {2, 8, 8, 64}, 32, {1, 1}, {2, 2}, {0, 0}},
        ConvCase{"three", {2, 9, 9, 16}, 24},
        ConvCase{"three_strided", {2, 9, 9, 16}, 24, {3, 3}, {2, 2}},
        ConvCase{"three_biased", {2, 9, 9, 16}, 24, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 1, true},
        ConvCase{"first", {2, 12, 12, 3}, 64},
        ConvCase{"first_wide", {3, 17, 13, 3}, 128, {3, 3}, {2, 2}, {0, 0}},
        ConvCase{"stem", {2, 18, 18, 3}, 64, {7, 7}, {2, 2}, {3, 3}},
        ConvCase{
            "stem_wide", {2, 11, 256, 3}, 128, {7, 7}, {2, 2}, {3, 3}, {1, 1}, 1, false, false},
        ConvCase{"stem_odd", {3, 9, 233, 3}, 64, {7, 7}, {2, 2}, {2, 0}},
        ConvCase{"stride_three", {1, 10, 10, 8}, 8, {3, 3}, {3, 3}, {0, 0}},
        ConvCase{"even", {1, 9, 9, 8}, 8, {2, 2}, {2, 2}, {0, 0}},
        ConvCase{"oblong", {1, 9, 11, 8}, 8, {4, 2}, {1, 2}, {2, 0}},
        ConvCase{"dilated", {1, 11, 11, 8}, 16, {3, 3}, {1, 1}, {2, 2}, {2, 2}},
        ConvCase{"groups", {2, 6, 6, 32}, 32, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 4},
        ConvCase{"depthwise", {2, 8, 8, 32}, 32, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 32},
        ConvCase{"depthwise_strided", {2, 9, 9, 32}, 32, {3, 3}, {2, 2}, {1, 1}, {1, 1}, 32},
        ConvCase{"odd_channels", {2, 6, 6, 7}, 33}, ConvCase{"one_channel", {2, 6, 6, 1}, 1},
        ConvCase{"thousand", {1, 3, 3, 16}, 1000, {1, 1}, {1, 1}, {0, 0}}),
    [](const auto& info) { return info.param.name; });

class CudaNormTest : public DeviceTest<DeviceKind::CUDA> {
 protected:
  static Tensor values(const Shape& shape, int seed, DType dtype = DType::FP32) {
    return Tensor::uniform(shape, -1.5f, 2, std::uint64_t(seed), dtype);
  }
};

TEST_F(CudaNormTest, AConvolutionLeavesItsSumsBehind) {
  struct Case {
    std::int64_t in, side, stride, out;
    DType dtype = DType::FP16;
  };
  constexpr DType kBf16 = DType::BF16;
  // By cuDNN, by the kernels for first layers, by the one for 1x1 windows.
  for (const Case& c : {Case{32, 3, 1, 64},
                        {3, 3, 1, 64},
                        {3, 7, 2, 64},
                        {3, 7, 2, 64, kBf16},
                        {64, 1, 1, 64},
                        {72, 1, 1, 256},
                        {256, 1, 1, 192, kBf16}}) {
    SCOPED_TRACE(std::to_string(c.in) + " channels to " + std::to_string(c.out));
    const Attrs attrs = {{"out_channels", c.out},
                         {"kernel", Ints{c.side, c.side}},
                         {"stride", Ints{c.stride, c.stride}},
                         {"padding", Ints{c.side / 2, c.side / 2}}};
    const Tensor x = values({4, 14 * c.stride, 14 * c.stride, c.in}, 1, c.dtype);
    const Tensor weight = Tensor::uniform({c.out, c.side, c.side, c.in}, -0.2f, 0.2f, 2, c.dtype);
    const std::vector<Tensor> got = run_op("conv_statistics", {x, weight}, attrs, kGpu);
    const std::vector<Tensor> again = run_op("conv_statistics", {x, weight}, attrs, kGpu);
    EXPECT_TRUE(same_bytes(again[0], got[0], "y again"));
    if (c.in != 32) {  // cuDNN's may not repeat
      EXPECT_TRUE(same_bytes(again[1], got[1], "sums again"));
    }
    const Tensor plain = run_op("conv", {x, weight}, attrs, kGpu).front();
    EXPECT_TRUE(is_close(got[0], plain, tolerance(c.dtype, c.side * c.side * c.in, 2), "y"));
    // Each term may be the stored value or the sum before it was rounded.
    const double u = unit_roundoff(c.dtype);
    for (std::int64_t o = 0; o < c.out; ++o) {
      double sum = 0, size = 0, squares = 0;
      for (std::int64_t i = o; i < plain.num_elements(); i += c.out) {
        sum += plain.at(i);
        size += std::abs(plain.at(i));
        squares += plain.at(i) * plain.at(i);
      }
      EXPECT_NEAR(got[1].at(o), sum, 2 * u * size) << "channel " << o;
      EXPECT_NEAR(got[1].at(c.out + o), squares, 4 * u * squares) << "channel " << o;
    }
  }
}

/// What the fused forms are compared with, from the ops one by one.
struct Parts {
  Tensor x, weight, bias, mean, var, dy, more, residual;
  std::vector<Tensor> bn;

  Parts(const Shape& shape, DType dtype) {
    const Shape channel = {shape.back()};
    x = Tensor::uniform(shape, -1, 3, 1, dtype);
    weight = Tensor::uniform(channel, 0.5f, 1.5f, 2);
    bias = Tensor::uniform(channel, -1, 1, 3);
    mean = Tensor::uniform(channel, -1, 1, 4);
    var = Tensor::uniform(channel, 0.5f, 2, 5);
    dy = Tensor::uniform(shape, -1, 1, 6, dtype);
    more = Tensor::uniform(shape, -1, 1, 7, dtype);
    residual = Tensor::uniform(shape, -2, 2, 8, dtype);
    bn = run("bn", {x, weight, bias, mean, var});
  }
  static std::vector<Tensor> run(const std::string& op, const std::vector<Tensor>& in,
                                 const Attrs& attrs = {}) {
    return run_op(op, in, attrs, kGpu);
  }
  std::vector<Tensor> bn_backward(const Tensor& d) const {
    return run("bn_backward", {d, x, weight, bn[1], bn[2]});
  }
};

const Attrs kRelu = {{"activation", std::string("relu")}};

void expect_same(const std::vector<Tensor>& got, const std::vector<Tensor>& want, std::size_t count,
                 const std::string& what) {
  for (std::size_t i = 0; i < count; ++i) {
    EXPECT_TRUE(same_bytes(got[i], want[i], what + ", output " + std::to_string(i)));
  }
}

TEST_F(CudaNormTest, NormAndRectifierAreTheTwoOps) {
  for (const DType dtype : {DType::FP32, DType::FP16, DType::BF16}) {
    for (const Shape& shape : {Shape{4, 6, 6, 64}, Shape{3, 5, 7, 7}, Shape{33, 40},
                               Shape{2, 16, 16, 1040}, Shape{16, 32, 32, 24}}) {
      SCOPED_TRACE(shape.str() + " " + std::string(name_of(dtype)));
      const Parts p(shape, dtype);
      const std::vector<Tensor> fused =
          p.run("bn_act", {p.x, p.weight, p.bias, p.mean, p.var}, kRelu);
      std::vector<Tensor> want = p.bn;
      want[0] = p.run("relu", {p.bn[0]}).front();
      expect_same(fused, want, 5, "forward");
      const Tensor d = p.run("relu_backward", {p.dy, want[0]}).front();
      expect_same(p.run("bn_act_backward", {p.dy, p.x, p.weight, p.bias, p.bn[1], p.bn[2]}, kRelu),
                  p.bn_backward(d), 3, "backward");
    }
  }
}

TEST_F(CudaNormTest, AResidualSumAndItsMask) {
  Attrs mask = kRelu, residual = kRelu;
  mask.set("mask", true);
  residual.set("residual", true);
  for (const DType dtype : {DType::FP16, DType::BF16}) {
    for (const Shape& shape : {Shape{4, 6, 6, 64}, Shape{2, 16, 16, 1040}, Shape{16, 32, 32, 24}}) {
      SCOPED_TRACE(shape.str() + " " + std::string(name_of(dtype)));
      const Parts p(shape, dtype);
      const std::vector<Tensor> in = {p.x, p.weight, p.bias, p.mean, p.var, p.residual};
      const std::vector<Tensor> fused = p.run("bn_act", in, mask);
      EXPECT_TRUE(same_bytes(p.run("bn_act", in, kRelu)[0], fused[0], "with and without a mask"));
      // The sum is rounded once instead of twice.
      const Tensor sum = p.run("relu", {p.run("add", {p.bn[0], p.residual})[0]}).front();
      EXPECT_TRUE(is_close(fused[0], sum, tolerance(dtype, 2, 8), "y"));
      for (const Tensor& more : {p.more, Tensor()}) {
        const Tensor dy = more.empty() ? p.dy : p.run("add", {p.dy, more}).front();
        const Tensor d = p.run("relu_backward", {dy, fused[0]}).front();
        const std::vector<Tensor> back =
            p.run("bn_act_backward",
                  {p.dy, p.x, p.weight, p.bias, p.bn[1], p.bn[2], more, fused[5]}, residual);
        expect_same(back, p.bn_backward(d), 3, "backward");
        EXPECT_TRUE(same_bytes(back[3], d, "gradient of the residual"));
      }
    }
  }
}

TEST_F(CudaNormTest, AResidualThatIsNormalisedOnTheWay) {
  Attrs mask = kRelu;
  mask.set("mask", true);
  for (const DType dtype : {DType::FP16, DType::BF16}) {
    SCOPED_TRACE(std::string(name_of(dtype)));
    const Parts p({8, 12, 12, 48}, dtype);
    const std::vector<Tensor> statistics = p.run("bn_statistics", {p.residual, p.mean, p.var});
    const std::vector<Tensor> other = p.run("bn", {p.residual, p.weight, p.bias, p.mean, p.var});
    expect_same(statistics, {other[1], other[2], other[3], other[4]}, 4, "statistics");
    const std::vector<Tensor> got =
        p.run("bn_act",
              {p.x, p.weight, p.bias, p.mean, p.var, p.residual, Tensor(), p.weight, p.bias,
               statistics[0], statistics[1]},
              mask);
    const std::vector<Tensor> want =
        p.run("bn_act", {p.x, p.weight, p.bias, p.mean, p.var, other[0]}, mask);
    EXPECT_TRUE(is_close(got[0], want[0], tolerance(dtype, 2, 8), "y"));
  }
}

TEST_F(CudaNormTest, TheGradientsOfTwoNormsInOneSum) {
  Attrs residual = kRelu;
  residual.set("residual", true);
  for (const DType dtype : {DType::FP16, DType::BF16}) {
    for (const Shape& shape : {Shape{4, 6, 6, 64}, Shape{2, 16, 16, 1040}, Shape{16, 32, 32, 24}}) {
      SCOPED_TRACE(shape.str() + " " + std::string(name_of(dtype)));
      const Parts p(shape, dtype);
      const std::vector<Tensor> other = p.run("bn_statistics", {p.residual, p.mean, p.var});
      Attrs with_mask = kRelu;
      with_mask.set("mask", true);
      const Tensor mask =
          p.run("bn_act", {p.x, p.weight, p.bias, p.mean, p.var, p.residual}, with_mask)[5];
      for (const Tensor& more : {p.more, Tensor()}) {
        std::vector<Tensor> in = {p.dy, p.x,        p.weight, p.bn[1],  p.bn[2],
                                  mask, p.residual, p.bias,   other[0], other[1]};
        if (!more.empty()) in.push_back(more);
        const std::vector<Tensor> got = p.run("bn_join_backward", in);
        expect_same(p.run("bn_join_backward", in), got, 6, "again");
        const std::vector<Tensor> first =
            p.run("bn_act_backward", {p.dy, p.x, p.weight, p.bias, p.bn[1], p.bn[2], more, mask},
                  residual);
        const std::vector<Tensor> second =
            p.run("bn_backward", {first[3], p.residual, p.bias, other[0], other[1]});
        const std::int64_t rows = shape.num_elements() / shape.back();
        for (const std::size_t i : {0u, 1u, 2u}) {
          // Sums in another order; dx of coefficients that differ by that much.
          const Tolerance t = i == 0 ? tolerance(dtype, 1, 4) : tolerance(DType::FP32, rows, 9);
          EXPECT_TRUE(is_close(got[i], first[i], t, "own " + std::to_string(i)));
          EXPECT_TRUE(is_close(got[3 + i], second[i], t, "other " + std::to_string(i)));
        }
      }
    }
  }
}

TEST_F(CudaNormTest, PoolingWithTwoBitsAnElement) {
  const Attrs pool = {{"kernel", Ints{2, 2}}, {"stride", Ints{2, 2}}};
  for (const DType dtype : {DType::FP16, DType::BF16}) {
    for (const Shape& shape : {Shape{4, 6, 6, 64}, Shape{2, 16, 14, 1040}, Shape{16, 32, 32, 24}}) {
      SCOPED_TRACE(shape.str() + " " + std::string(name_of(dtype)));
      const Parts p(shape, dtype);
      const Tensor y = p.run("relu", {p.bn[0]}).front();
      const std::vector<Tensor> pooled = p.run("maxpool", {y}, pool);
      const std::vector<Tensor> fused = p.run("bn_pool", {p.x, p.weight, p.bias, p.mean, p.var});
      EXPECT_TRUE(same_bytes(fused[0], pooled[0], "y"));
      expect_same({fused[1], fused[2], fused[3], fused[4]}, {p.bn[1], p.bn[2], p.bn[3], p.bn[4]}, 4,
                  "statistics");
      const Tensor dy = Tensor::uniform(pooled[0].shape(), -1, 1, 9, dtype);
      const Tensor d = p.run("maxpool_backward", {dy, pooled[1], p.x}, pool).front();
      const std::vector<Tensor> want = p.bn_backward(p.run("relu_backward", {d, y}).front());
      const std::vector<Tensor> back =
          p.run("bn_pool_backward", {dy, p.x, p.weight, p.bias, p.bn[1], p.bn[2], fused[5]});
      // The sums skip the zeros: another order of the same terms.
      const std::int64_t rows = shape.num_elements() / shape.back();
      EXPECT_TRUE(is_close(back[0], want[0], tolerance(dtype, 1, 4), "dx"));
      EXPECT_TRUE(is_close(back[1], want[1], tolerance(DType::FP32, rows, 3), "dweight"));
      EXPECT_TRUE(is_close(back[2], want[2], tolerance(DType::FP32, rows), "dbias"));
    }
  }
}

TEST_F(CudaNormTest, PoolingByOverlappingWindows) {
  const Attrs stem = {{"kernel", Ints{3, 3}}, {"stride", Ints{2, 2}}, {"padding", Ints{1, 1}}};
  const Attrs oblong = {{"kernel", Ints{2, 3}}, {"stride", Ints{1, 2}}, {"padding", Ints{0, 1}}};
  for (const DType dtype : {DType::FP32, DType::FP16, DType::BF16}) {
    for (const Shape& shape : {Shape{4, 7, 9, 64}, Shape{2, 12, 12, 7}, Shape{8, 32, 32, 24}}) {
      for (const Attrs& pool : {stem, oblong}) {
        SCOPED_TRACE(shape.str() + " " + std::string(name_of(dtype)) + " " + pool.text());
        const Parts p(shape, dtype);
        const Tensor y = p.run("relu", {p.bn[0]}).front();
        const std::vector<Tensor> pooled = p.run("maxpool", {y}, pool);
        const std::vector<Tensor> fused =
            p.run("bn_maxpool", {p.x, p.weight, p.bias, p.mean, p.var}, pool);
        EXPECT_TRUE(same_bytes(fused[0], pooled[0], "y"));
        Tensor index = pooled[1].clone();
        if (pool.ints("kernel") == stem.ints("kernel")) {
          // The rectifier let nothing through: no cell gets the gradient.
          for (std::int64_t i = 0; i < index.num_elements(); ++i) {
            if (pooled[0].at(i) == 0) index.data<std::uint8_t>()[i] = 0xf0;
          }
        }
        EXPECT_TRUE(same_bytes(fused[5], index, "index"));
        const Tensor dy = Tensor::uniform(pooled[0].shape(), -1, 1, 9, dtype);
        const Tensor d = p.run("maxpool_backward", {dy, pooled[1], p.x}, pool).front();
        const std::vector<Tensor> want = p.bn_backward(p.run("relu_backward", {d, y}).front());
        const std::vector<Tensor> back = p.run(
            "bn_maxpool_backward", {dy, p.x, p.weight, p.bias, p.bn[1], p.bn[2], fused[5]}, pool);
        // Multiplications and additions are contracted in another way.
        const std::int64_t rows = shape.num_elements() / shape.back();
        EXPECT_TRUE(is_close(back[0], want[0], tolerance(dtype, 1, 4), "dx"));
        EXPECT_TRUE(is_close(back[1], want[1], tolerance(DType::FP32, rows, 3), "dweight"));
        EXPECT_TRUE(is_close(back[2], want[2], tolerance(DType::FP32, rows), "dbias"));
      }
    }
  }
}

TEST_F(CudaNormTest, GivenStatisticsStandForAPassOverX) {
  const Parts p({8, 12, 12, 40}, DType::FP16);
  Tensor sums = Tensor::zeros({2, 40});
  for (std::int64_t i = 0; i < p.x.num_elements(); ++i) {
    sums.data<float>()[i % 40] += float(p.x.at(i));
    sums.data<float>()[40 + i % 40] += float(p.x.at(i) * p.x.at(i));
  }
  const std::vector<Tensor> in = {p.x, p.weight, p.bias, p.mean, p.var, Tensor(), sums};
  const std::vector<Tensor> got = p.run("bn_act", in);
  const std::int64_t rows = p.x.num_elements() / 40;
  EXPECT_TRUE(is_close(got[0], p.bn[0], tolerance(DType::FP16, 2, 4), "y"));
  for (const std::size_t i : {1u, 2u, 3u, 4u}) {
    EXPECT_TRUE(is_close(got[i], p.bn[i], tolerance(DType::FP32, rows, 9), std::to_string(i)));
  }
}

}  // namespace
}  // namespace tr::test
