// SPDX-License-Identifier: Apache-2.0
// Single ops against what PyTorch computes: outputs, and input gradients for a given output
// gradient. One program for each device: TR_TEST_DEVICE is its DeviceKind.
#include "core/format.h"
#include "renaissance/task/simple_task.h"
#include "support/compare.h"
#include "support/device.h"
#include "support/golden.h"

namespace tr::test {
namespace {

constexpr TaskDevice kDevice{DeviceKind::TR_TEST_DEVICE, 0};

std::vector<Tensor> run_here(const std::string& op, const std::vector<Tensor>& inputs,
                             const Attrs& attrs = {}) {
  return run_op(op, inputs, attrs, kDevice);
}
std::vector<Tensor> grad_here(const std::string& op, const std::vector<Tensor>& inputs,
                              const Attrs& attrs, const std::vector<Tensor>& douts) {
  return grad_op(op, inputs, attrs, douts, kDevice);
}

class LinearGolden : public DeviceTest<kDevice.kind> {};
class ShapeGolden : public DeviceTest<kDevice.kind> {};
class LossGolden : public DeviceTest<kDevice.kind> {};

struct Activation {
  std::string golden;  // part of the file's name
  std::string op;
  Attrs attrs;
};

std::vector<Activation> activations() {
  std::vector<Activation> rows;
  for (const std::string& file : golden_names()) {
    const std::string prefix = "activation_";
    if (!file.starts_with(prefix)) continue;
    Activation row{file.substr(prefix.size()), file.substr(prefix.size()), {}};
    // "leaky_relu_0.2": a number after the last underscore is the attribute.
    const std::size_t at = row.op.rfind('_');
    if (at != std::string::npos &&
        row.op.find_first_not_of("0123456789.", at + 1) == std::string::npos) {
      row.attrs.set("alpha", std::stod(row.op.substr(at + 1)));
      row.op = row.op.substr(0, at);
    }
    rows.push_back(row);
  }
  return rows;
}

class ActivationGolden : public DeviceTest<kDevice.kind, testing::TestWithParam<Activation>> {};

TEST_P(ActivationGolden, ValuesAndGradientsEqualPyTorch) {
  const Activation& row = GetParam();
  const SafetensorsFile file = golden("activation_" + row.golden);
  const std::vector<Tensor> inputs = {file.at("x")};
  const Tolerance close = tolerance(DType::FP32, 1, 30);  // x reaches 30 and cancels in x - tanh(x)
  EXPECT_TRUE(is_close(run_here(row.op, inputs, row.attrs).front(), file.at("y"), close, "y"));
  const Tensor dx = grad_here(row.op, inputs, row.attrs, {file.at("dy")}).front();
  EXPECT_TRUE(is_close(dx, file.at("dx"), close, "dx"));
}

INSTANTIATE_TEST_SUITE_P(All, ActivationGolden, testing::ValuesIn(activations()),
                         [](const auto& info) {
                           std::string name = info.param.golden;
                           for (char& c : name) c = c == '.' ? '_' : c;
                           return name;
                         });

TEST_F(LinearGolden, FcEqualsPyTorch) {
  for (const bool bias : {true, false}) {
    const SafetensorsFile file = golden(bias ? "fc_bias" : "fc_no_bias");
    for (const std::string& name : cases_of(file)) {
      SCOPED_TRACE(name + (bias ? " with bias" : " without bias"));
      const auto tensor = [&](const std::string& part) { return file.at(name + "." + part); };
      std::vector<Tensor> inputs = {tensor("x"), tensor("weight")};
      if (bias) inputs.push_back(tensor("bias"));
      const Attrs attrs{{"bias", bias}};
      const std::int64_t features = tensor("x").shape().back(),
                         outputs = tensor("y").shape().back();
      const std::int64_t rows = tensor("y").num_elements() / outputs;
      EXPECT_TRUE(is_close(run_here("fc", inputs, attrs).front(), tensor("y"),
                           tolerance(DType::FP32, features), "y"));
      const std::vector<Tensor> grads = grad_here("fc", inputs, attrs, {tensor("dy")});
      EXPECT_TRUE(is_close(grads[0], tensor("dx"), tolerance(DType::FP32, outputs), "dx"));
      EXPECT_TRUE(is_close(grads[1], tensor("dweight"), tolerance(DType::FP32, rows), "dweight"));
      if (bias) {
        EXPECT_TRUE(is_close(grads[2], tensor("dbias"), tolerance(DType::FP32, rows), "dbias"));
      }
    }
  }
}

TEST_F(ShapeGolden, AddEqualsPyTorch) {
  const SafetensorsFile file = golden("add");
  for (const std::string& name : cases_of(file)) {
    SCOPED_TRACE(name);
    const auto tensor = [&](const std::string& part) { return file.at(name + "." + part); };
    const std::vector<Tensor> inputs = {tensor("a"), tensor("b")};
    EXPECT_TRUE(
        is_close(run_here("add", inputs).front(), tensor("y"), tolerance(DType::FP32), "y"));
    const std::vector<Tensor> grads = grad_here("add", inputs, {}, {tensor("dy")});
    const std::int64_t summed = inputs[0].num_elements() / inputs[1].num_elements();
    EXPECT_TRUE(same_bytes(grads[0], tensor("da"), "da"));
    EXPECT_TRUE(is_close(grads[1], tensor("db"), tolerance(DType::FP32, summed), "db"));
  }
}

TEST_F(ShapeGolden, ConcatEqualsPyTorch) {
  const SafetensorsFile file = golden("concat");
  const std::map<std::string, std::int64_t> axes = {
      {"last", 1}, {"three", 1}, {"middle", 1}, {"image", 3}};
  for (const std::string& name : cases_of(file)) {
    SCOPED_TRACE(name);
    const auto tensor = [&](const std::string& part) { return file.at(name + "." + part); };
    std::vector<Tensor> inputs;
    for (int i = 0; file.contains(fmt::format("{}.x{}", name, i)); ++i) {
      inputs.push_back(tensor(fmt::format("x{}", i)));
    }
    const Attrs attrs{{"axis", axes.at(name)}};
    EXPECT_TRUE(same_bytes(run_here("concat", inputs, attrs).front(), tensor("y"), "y"));
    const std::vector<Tensor> grads = grad_here("concat", inputs, attrs, {tensor("dy")});
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      EXPECT_TRUE(same_bytes(grads[i], tensor(fmt::format("dx{}", i)), fmt::format("dx{}", i)));
    }
  }
}

TEST_F(LossGolden, LogSoftmaxEqualsPyTorch) {
  const SafetensorsFile file = golden("log_softmax");
  for (const std::string& name : cases_of(file)) {
    SCOPED_TRACE(name);
    const Tensor x = file.at(name + ".x");
    const std::int64_t classes = x.shape().back();
    // x - max and log(sum) round to what x spans, up to 2e4.
    const Tolerance close = tolerance(DType::FP32, classes, name == "extreme" ? 20 : 2);
    EXPECT_TRUE(is_close(run_here("log_softmax", {x}).front(), file.at(name + ".y"), close, "y"));
    const Tensor dx = grad_here("log_softmax", {x}, {}, {file.at(name + ".dy")}).front();
    EXPECT_TRUE(is_close(dx, file.at(name + ".dx"), close, "dx"));
  }
}

struct LossCall {
  std::string op;
  Tensor target;
  Attrs attrs;
  double scale;  // what the scores span
};

void expect_loss(const SafetensorsFile& file, const std::string& name, const LossCall& call) {
  SCOPED_TRACE(call.op + " " + name);
  const Tensor x = file.at(name + ".x");
  const Tolerance close = tolerance(DType::FP32, x.num_elements(), call.scale);
  EXPECT_TRUE(is_close(run_here(call.op, {x, call.target}, call.attrs).front(),
                       file.at(name + ".loss_sum"), close, "loss"));
  const Tensor dx = grad_here(call.op, {x, call.target}, call.attrs, {Tensor::full({}, 1)}).front();
  // exp(log p) has the rounding of log p, which is as large as what the scores span.
  EXPECT_TRUE(is_close(dx, file.at(name + ".dx"), tolerance(DType::FP32, 1, call.scale / 2), "dx"));
}

TEST_F(LossGolden, CrossEntropyEqualsPyTorch) {
  const SafetensorsFile file = golden("cross_entropy");
  int checked = 0;
  for (const double smoothing : {0.0, 0.1, 1.0}) {
    for (const std::string kind : {"hard", "soft", "extreme"}) {
      const std::string name = fmt::format("{}.{:g}", kind, smoothing);
      expect_loss(file, name,
                  {"softmax_cross_entropy",
                   file.at(name + ".labels"),
                   {{"label_smoothing", smoothing}},
                   kind == "extreme" ? 120.0 : 8.0});
      ++checked;
    }
  }
  EXPECT_EQ(checked * 4, int(file.tensors.size()));
}

TEST_F(LossGolden, MseAndBceEqualPyTorch) {
  for (const std::string op : {"mse", "bce_with_logits"}) {
    const SafetensorsFile file = golden(op);
    for (const std::string& name : cases_of(file)) {
      expect_loss(file, name, {op, file.at(name + ".target"), {}, 36});
    }
  }
}

TEST_F(LossGolden, TopKCountsEqualAStableSort) {
  const SafetensorsFile file = golden("topk_correct");
  for (const std::string& name : cases_of(file)) {
    const Tensor got =
        run_here("topk_correct", {file.at(name + ".x"), file.at(name + ".labels")}).front();
    EXPECT_TRUE(same_bytes(got, file.at(name + ".correct"), name));
  }
}

}  // namespace
}  // namespace tr::test
