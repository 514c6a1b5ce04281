// SPDX-License-Identifier: Apache-2.0
// The gradient of a 1x1 convolution with a stride, kept as the pixels that it read, against the
// whole map whose other pixels are zero.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "renaissance/task/simple_task.h"
#include "support/compare.h"
#include "support/compiled_model.h"
#include "support/device.h"
#include "support/shared_values.h"
#include "zoo/models.h"

namespace tr::test {
namespace {

constexpr TaskDevice kGpu{DeviceKind::CUDA, 0};
using Ints = std::vector<std::int64_t>;
using StridedGradientTest = DeviceTest<DeviceKind::CUDA>;

std::vector<Tensor> run(const std::string& op, const std::vector<Tensor>& in,
                        const Attrs& attrs = {}) {
  return run_op(op, in, attrs, kGpu);
}

struct StridedCase {
  Shape map;
  Ints stride;

  Shape pixels() const {
    return {map[0], (map[1] - 1) / stride[0] + 1, (map[2] - 1) / stride[1] + 1, map[3]};
  }
  /// The whole map with 16-bit values of `pixels`.
  Tensor spread(const Tensor& pixels) const {
    Tensor whole = Tensor::zeros(map, pixels.dtype());
    const Shape& from = pixels.shape();
    const auto row = std::size_t(map[3]) * sizeof(std::uint16_t);
    const auto* source = static_cast<const std::byte*>(pixels.raw());
    auto* target = static_cast<std::byte*>(whole.raw());
    for (std::int64_t p = 0; p < from[0] * from[1] * from[2]; ++p) {
      const std::int64_t w = p % from[2] * stride[1], h = p / from[2] % from[1] * stride[0];
      const std::int64_t to = (p / (from[1] * from[2]) * map[1] + h) * map[2] + w;
      std::copy_n(source + std::size_t(p) * row, row, target + std::size_t(to) * row);
    }
    return whole;
  }
};

const std::vector<StridedCase>& strided_cases() {
  // Odd sizes, a last pixel that is read and one that is not, one pixel a map, one line; a block
  // of threads with several pixels and with part of one's channels; more than one slice of sums.
  static const std::vector<StridedCase> cases = {
      {{4, 7, 9, 8}, {2, 2}},    {{3, 8, 6, 72}, {2, 2}},   {{3, 7, 9, 72}, {3, 3}},
      {{5, 2, 3, 64}, {4, 5}},   {{2, 9, 10, 256}, {1, 2}}, {{2, 9, 10, 24}, {3, 1}},
      {{2, 5, 1, 1040}, {2, 2}}, {{16, 33, 31, 24}, {2, 2}}};
  return cases;
}

/// Some are -0, which a sum with 0 turns into 0.
Tensor with_negative_zeros(Tensor values) {
  auto* bits = static_cast<std::uint16_t*>(values.raw());
  for (std::int64_t i = 0; i < values.num_elements(); i += 7) bits[i] = 0x8000;
  return values;
}

template <typename Check>
void for_cases(Check check) {
  for (const DType dtype : {DType::FP16, DType::BF16}) {
    for (const StridedCase& c : strided_cases()) {
      SCOPED_TRACE(c.map.str() + " " + std::string(name_of(dtype)) + ", stride " +
                   std::to_string(c.stride[0]) + ", " + std::to_string(c.stride[1]));
      check(c, dtype);
    }
  }
}

/// What a norm's gradient is made of, behind a residual sum.
struct Operands {
  Tensor x, other, dy, weight, bias, mask, pixels;
  std::vector<Tensor> own, others;  // mean, rstd ...

  Operands(const StridedCase& c, DType dtype)
      : x(Tensor::uniform(c.map, -1, 3, 1, dtype)),
        other(Tensor::uniform(c.map, -2, 2, 2, dtype)),
        dy(with_negative_zeros(Tensor::uniform(c.map, -1, 1, 3, dtype))),
        weight(Tensor::uniform({c.map.back()}, 0.5f, 1.5f, 4)),
        bias(Tensor::uniform({c.map.back()}, -1, 1, 5)),
        pixels(with_negative_zeros(Tensor::uniform(c.pixels(), -1, 1, 6, dtype))) {
    const Tensor zeros = Tensor::zeros({c.map.back()}), ones = Tensor::full({c.map.back()}, 1);
    own = run("bn_statistics", {x, zeros, ones});
    others = run("bn_statistics", {other, zeros, ones});
    mask = run("bn_act", {x, weight, bias, zeros, ones, other},
               {{"activation", std::string("relu")}, {"mask", true}})[5];
  }
};

void expect_same(const std::vector<Tensor>& got, const std::vector<Tensor>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    EXPECT_TRUE(same_bytes(got[i], want[i], "output " + std::to_string(i)));
  }
}

TEST_F(StridedGradientTest, ANormAddsSomePixelsAsItAddsTheirMap) {
  for_cases([](const StridedCase& c, DType dtype) {
    const Operands o(c, dtype);
    Attrs attrs = {{"activation", std::string("relu")}, {"residual", true}};
    const auto gradients = [&](const Tensor& more) {
      return run("bn_act_backward", {o.dy, o.x, o.weight, o.bias, o.own[0], o.own[1], more, o.mask},
                 attrs);
    };
    const std::vector<Tensor> want = gradients(c.spread(o.pixels));
    attrs.set("more_stride", c.stride);
    expect_same(gradients(o.pixels), want);
  });
}

TEST_F(StridedGradientTest, TwoNormsOfOneSumDoLikewise) {
  for_cases([](const StridedCase& c, DType dtype) {
    const Operands o(c, dtype);
    const auto gradients = [&](const Tensor& more, const Attrs& attrs) {
      return run("bn_join_backward",
                 {o.dy, o.x, o.weight, o.own[0], o.own[1], o.mask, o.other, o.weight, o.others[0],
                  o.others[1], more},
                 attrs);
    };
    expect_same(gradients(o.pixels, {{"more_stride", c.stride}}),
                gradients(c.spread(o.pixels), {}));
  });
}

/// Whole numbers from -`most` to `most`: sums of few products are exact in any order.
Tensor whole_numbers(const Shape& shape, int most, int seed, DType dtype) {
  Tensor values = Tensor::uniform(shape, -0.49f - float(most), 0.49f + float(most),
                                  std::uint64_t(seed), DType::FP32);
  for (std::int64_t i = 0; i < values.num_elements(); ++i) {
    values.data<float>()[i] = std::nearbyint(values.data<float>()[i]);
  }
  return values.to(dtype);
}

TEST_F(StridedGradientTest, TheConvolutionAtStrideOneGivesThePixels) {
  for_cases([](const StridedCase& c, DType dtype) {
    const std::int64_t out = 72;
    const Tensor weight = whole_numbers({out, 1, 1, c.map.back()}, 1, 1, dtype);
    const Tensor dy = whole_numbers(c.pixels().with_dim(3, out), 2, 2, dtype);
    Attrs attrs = {{"out_channels", out}, {"kernel", Ints{1, 1}}, {"stride", c.stride}};
    const Tensor map = Tensor::zeros(c.map, dtype), pixels = Tensor::zeros(c.pixels(), dtype);
    const Tensor want = run("conv_dx", {dy, weight, map}, attrs)[0];
    attrs.set("stride", Ints{1, 1});
    const Tensor got = run("conv_dx", {dy, weight, pixels}, attrs)[0];
    EXPECT_TRUE(is_close(c.spread(got), want, Tolerance{0, 0}, "dx"));
  });
}

std::unique_ptr<CompiledModel> trained(const zoo::ResNetRow& row, bool compact, DType dtype) {
  constexpr std::int64_t kBatch = 6;
  CompiledModel::Options options{.batch = kBatch, .picture = {15, 13, 3}, .device = kGpu};
  options.graph.low_dtype = dtype;
  options.offers = [compact](const std::string&, const Attrs& attrs) {
    return compact || !attrs.contains("more_stride") || attrs.ints("more_stride") == Ints{1, 1};
  };
  auto model = std::make_unique<CompiledModel>(zoo::resnet(row, /*num_classes=*/10), options);
  for (const Param& param : model->params()) {
    model->write(param, shared_param(param.name, param.spec));
  }
  model->set_rates(0.05f, 0, 0);
  const Tensor pictures = shared_units("pictures", {kBatch, 15, 13, 3}).to(dtype);
  for (int step = 0; step < 2; ++step) {
    model->step(pictures, shared_labels("labels", kBatch, 10));
  }
  return model;
}

std::int64_t count_strided(const CompiledModel& model, const std::string& op) {
  const auto& nodes = model.compiled().lowered.front().nodes;
  return std::count_if(nodes.begin(), nodes.end(), [&](const LoweredNode& node) {
    return node.op == op && node.attrs.ints("more_stride") == Ints{2, 2};
  });
}

// The convolution's engine is another one, whose sums are rounded to 16 bits in other places.
TEST_F(StridedGradientTest, AResidualNetworkTrainsAlike) {
  const zoo::ResNetRow plain = {.blocks = {1, 1, 1}, .width = 16, .small_images = true};
  zoo::ResNetRow bottleneck = plain;
  bottleneck.bottleneck = true;
  for (const DType dtype : {DType::FP16, DType::BF16}) {
    for (const zoo::ResNetRow& row : {plain, bottleneck}) {
      SCOPED_TRACE(std::string(name_of(dtype)) + (row.bottleneck ? ", bottleneck" : ""));
      const auto got = trained(row, true, dtype), want = trained(row, false, dtype);
      // Stages but the first begin with a projection, behind which two norms end in one sum.
      EXPECT_EQ(count_strided(*got, "bn_act_backward"), row.bottleneck ? 0 : 1);
      EXPECT_EQ(count_strided(*got, "bn_join_backward"), row.bottleneck ? 2 : 1);
      EXPECT_EQ(count_strided(*want, "bn_act_backward"), 0);
      for (const Param& param : got->params()) {
        const Tensor expected = want->read(param);
        double largest = 0;
        for (std::int64_t i = 0; i < expected.num_elements(); ++i) {
          largest = std::max(largest, std::abs(expected.at(i)));
        }
        const double u = unit_roundoff(dtype);
        EXPECT_TRUE(is_close(got->read(param), expected, {16 * u, 16 * u * largest}, param.name));
      }
    }
  }
}

}  // namespace
}  // namespace tr::test
