// SPDX-License-Identifier: Apache-2.0
// Ops on images against what PyTorch computes (generate/images.py), in every dtype: outputs,
// gradients, running statistics. One program for each device: TR_TEST_DEVICE is its DeviceKind.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/format.h"
#include "renaissance/task/simple_task.h"
#include "support/attrs.h"
#include "support/compare.h"
#include "support/device.h"
#include "support/golden.h"

namespace tr::test {
namespace {

constexpr TaskDevice kHere{DeviceKind::TR_TEST_DEVICE, 0};
constexpr DType kDTypes[] = {DType::FP32, DType::FP16, DType::BF16};

/// One case of a file, run in one dtype.
struct Golden {
  const SafetensorsFile& file;
  std::string name;
  std::string op;
  DType dtype;
  Attrs attrs;

  bool has(const std::string& part) const { return file.contains(name + "." + part); }
  Tensor at(const std::string& part) const { return file.at(name + "." + part); }
  /// Values are exact in every dtype.
  Tensor low(const std::string& part) const { return at(part).to(dtype); }

  std::vector<Tensor> run(const std::vector<Tensor>& inputs) const {
    return run_op(op, inputs, attrs, kHere);
  }
  std::vector<Tensor> gradients(const std::vector<Tensor>& inputs, std::size_t outputs) const {
    std::vector<Tensor> douts(outputs);
    douts[0] = low("dy");
    return grad_op(op, inputs, attrs, douts, kHere);
  }
  void expect(const Tensor& got, const std::string& part, std::int64_t summed,
              double scale = 1) const {
    EXPECT_TRUE(is_close(got, at(part), tolerance(got.dtype(), summed, scale), part));
  }
};

/// Calls check(Golden) for every case of the file in every dtype.
template <typename Check>
void for_cases(const std::string& file_name, const std::string& op, Check&& check) {
  const SafetensorsFile file = golden(file_name);
  const nlohmann::json attrs = nlohmann::json::parse(file.metadata.at("attrs"));
  ASSERT_FALSE(attrs.empty());
  for (const auto& [name, values] : attrs.items()) {
    for (const DType dtype : kDTypes) {
      SCOPED_TRACE(fmt::format("{} {} {}", file_name, name, name_of(dtype)));
      check(Golden{file, name, op, dtype, attrs_of(values)});
    }
  }
}

class ImageGolden : public DeviceTest<kHere.kind> {};

TEST_F(ImageGolden, ConvolutionsEqualPyTorch) {
  for (const std::string file :
       {"conv_kernels", "conv_channels", "conv_thousand", "conv_dilated", "conv_groups"}) {
    for_cases(file, "conv", [](const Golden& g) {
      std::vector<Tensor> inputs = {g.low("x"), g.low("weight")};
      if (g.has("bias")) inputs.push_back(g.at("bias"));
      const std::vector<Tensor> outputs = g.run(inputs);
      const Shape& w = inputs[1].shape();
      const std::int64_t cells = w[1] * w[2], outputs_of_group = w[0] / g.attrs.i64("groups");
      const std::int64_t rows = outputs[0].num_elements() / w[0];
      // A GPU adds the bias to a result of 16 bits, as autocast does: one rounding more.
      Tolerance of_y = tolerance(g.dtype, cells * w[3]);
      if (kHere.kind == DeviceKind::CUDA && g.has("bias")) of_y.rtol *= 2;
      EXPECT_TRUE(is_close(outputs[0], g.at("y"), of_y, "y"));
      const std::vector<Tensor> grads = g.gradients(inputs, outputs.size());
      g.expect(grads[0], "dx", cells * outputs_of_group);
      // A GPU's library writes gradients of weights in the operands' dtype.
      const DType made = kHere.kind == DeviceKind::CUDA ? g.dtype : DType::FP32;
      EXPECT_TRUE(is_close(grads[1], g.at("dweight"), tolerance(made, rows), "dweight"));
      if (g.has("bias")) g.expect(grads[2], "dbias", rows);
    });
  }
}

TEST_F(ImageGolden, BatchNormEqualsPyTorch) {
  for (const std::string op : {"bn", "bn_frozen"}) {
    for_cases(op, op, [&](const Golden& g) {
      const std::vector<Tensor> inputs = {g.low("x"), g.at("weight"), g.at("bias"),
                                          g.at("running_mean"), g.at("running_var")};
      const std::vector<Tensor> outputs = g.run(inputs);
      const std::int64_t rows = inputs[0].num_elements() / inputs[1].num_elements();
      double rstd = 1.5;  // of frozen statistics: at most 1 / sqrt(0.5)
      if (op == "bn") {
        for (std::int64_t c = 0; c < outputs[2].num_elements(); ++c) {
          rstd = std::max(rstd, outputs[2].at(c));
        }
      }
      g.expect(outputs[0], "y", rows, 8 * rstd);
      const std::size_t next = op == "bn" ? 3 : 1;
      g.expect(outputs[next], "next_mean", rows);
      g.expect(outputs[next + 1], "next_var", rows);
      const std::vector<Tensor> grads = g.gradients(inputs, outputs.size());
      g.expect(grads[0], "dx", rows, 8 * rstd);
      g.expect(grads[1], "dweight", rows, 8 * rstd);
      g.expect(grads[2], "dbias", rows);
    });
  }
}

TEST_F(ImageGolden, FrozenStatisticsNormaliseAsInEvaluation) {
  for_cases("bn_frozen", "bn_eval", [](const Golden& g) {
    const std::vector<Tensor> inputs = {g.low("x"), g.at("weight"), g.at("bias"),
                                        g.at("running_mean"), g.at("running_var")};
    g.expect(g.run(inputs)[0], "y", 1, 12);
  });
}

TEST_F(ImageGolden, PoolingEqualsPyTorch) {
  for (const std::string op : {"maxpool", "avgpool", "adaptive_avgpool", "gap"}) {
    for_cases(op, op, [&](const Golden& g) {
      const std::vector<Tensor> inputs = {g.low("x")};
      const std::vector<Tensor> outputs = g.run(inputs);
      const std::int64_t cells = g.at("x").num_elements() + g.at("y").num_elements();
      const std::int64_t summed = op == "maxpool" ? 1 : cells;
      g.expect(outputs[0], "y", summed);
      // At most as many windows hold a cell as there are windows of a channel.
      g.expect(g.gradients(inputs, outputs.size())[0], "dx", cells);
    });
  }
}

TEST_F(ImageGolden, ProductsAndPaddingEqualPyTorch) {
  for_cases("mul", "mul", [](const Golden& g) {
    const std::vector<Tensor> inputs = {g.low("a"), g.low("b")};
    g.expect(g.run(inputs)[0], "y", 1);
    const std::vector<Tensor> grads = g.gradients(inputs, 1);
    g.expect(grads[0], "da", 1);
    g.expect(grads[1], "db", inputs[0].num_elements() / inputs[1].num_elements());
  });
  for_cases("channel_padding", "channel_padding", [](const Golden& g) {
    const std::vector<Tensor> inputs = {g.low("x")};
    EXPECT_TRUE(same_bytes(g.run(inputs)[0], g.low("y"), "y"));
    EXPECT_TRUE(same_bytes(g.gradients(inputs, 1)[0], g.low("dx"), "dx"));
  });
}

// Negative control: the nearest wrong settings are seen.
TEST_F(ImageGolden, NearMissesAreSeen) {
  const auto y_is_close = [](const std::string& file, const std::string& name,
                             const std::string& op, const Attrs& change) {
    const SafetensorsFile goldens = golden(file);
    Attrs attrs = attrs_of(nlohmann::json::parse(goldens.metadata.at("attrs")).at(name));
    for (const auto& [key, value] : change.values()) attrs.set(key, value);
    const Tensor got = run_op(op, {goldens.at(name + ".x")}, attrs, kHere)[0];
    return bool(is_close(got, goldens.at(name + ".y"), tolerance(DType::FP32, 64)));
  };
  EXPECT_TRUE(y_is_close("avgpool", "stem_counted", "avgpool", {}));
  EXPECT_FALSE(y_is_close("avgpool", "stem_counted", "avgpool", {{"count_include_pad", false}}));
  EXPECT_FALSE(y_is_close("avgpool", "ceil_inside", "avgpool", {{"count_include_pad", true}}));
  EXPECT_FALSE(y_is_close("maxpool", "ceil", "maxpool", {{"ceil_mode", false}}));
}

}  // namespace
}  // namespace tr::test
