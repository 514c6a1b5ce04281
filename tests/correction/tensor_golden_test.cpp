// SPDX-License-Identifier: Apache-2.0
// Ops on whole tensors against what PyTorch computes (tests/correction/generate/tensor_ops.py): the
// output, and input gradients for a given output gradient. One program for each device:
// TR_TEST_DEVICE is its DeviceKind.
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "core/format.h"
#include "graph/arch_plan.h"
#include "graph/op_def.h"
#include "renaissance/ops/sequence.h"
#include "renaissance/task/simple_task.h"
#include "support/attrs.h"
#include "support/compare.h"
#include "support/device.h"
#include "support/golden.h"

namespace tr::test {
namespace {

constexpr TaskDevice kHere{DeviceKind::TR_TEST_DEVICE, 0};

struct Call {
  std::string op;
  Attrs attrs;
  std::vector<Tensor> inputs;
};

Call call_of(const SafetensorsFile& file, const std::string& name) {
  const nlohmann::json about = nlohmann::json::parse(file.metadata.at(name));
  Call call{about.at("op"), attrs_of(about.at("attrs")), {}};
  for (int i = 0; file.contains(fmt::format("{}.in{}", name, i)); ++i) {
    call.inputs.push_back(file.at(fmt::format("{}.in{}", name, i)));
  }
  return call;
}

class TensorGolden : public DeviceTest<kHere.kind, testing::TestWithParam<std::string>> {};

TEST_P(TensorGolden, ValuesAndGradientsEqualPyTorch) {
  const SafetensorsFile file = golden("op_" + GetParam());
  const std::vector<std::string> cases = cases_of(file);
  EXPECT_GE(cases.size(), 8u);
  for (const std::string& name : cases) {
    SCOPED_TRACE(name);
    const Call call = call_of(file, name);
    // Sums have at most a hundred terms; slopes of x^-1.5 and e^x reach 30 there.
    const Tolerance close = tolerance(DType::FP32, 100, 30);
    const Tensor y = run_op(call.op, call.inputs, call.attrs, kHere).front();
    const Tensor& want = file.at(name + ".y");
    if (y.dtype() == DType::BOOL) {
      EXPECT_TRUE(same_bytes(y.to(DType::UINT8), want, "y"));
      continue;
    }
    EXPECT_TRUE(is_close(y, want, close, "y"));
    if (!file.contains(name + ".dy")) continue;
    std::vector<Tensor> douts(1, file.at(name + ".dy"));
    const std::vector<Tensor> grads = grad_op(call.op, call.inputs, call.attrs, douts, kHere);
    for (std::size_t i = 0; i < grads.size(); ++i) {
      const std::string gradient = fmt::format("{}.d{}", name, i);
      ASSERT_EQ(file.contains(gradient), !grads[i].empty()) << gradient;
      if (grads[i].empty()) continue;
      EXPECT_TRUE(is_close(grads[i], file.at(gradient), close, gradient));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, TensorGolden,
                         testing::Values("math", "binary", "selection", "reduction", "layout",
                                         "product", "gated", "norm"));

using LayerFunction = BluePrint (*)(int axis);
const std::map<std::string, LayerFunction> kLayers = {
    {"softmin", [](int axis) { return softmin(axis); }},
    {"glu", [](int axis) { return glu(axis); }},
    {"swiglu", [](int axis) { return swiglu(axis); }},
    {"geglu", [](int axis) { return geglu(axis); }},
    {"reglu", [](int axis) { return reglu(axis); }}};

class LayerGolden : public DeviceTest<kHere.kind> {};

// Layers that are named in C++ and are several ops, or one with attributes: op after op, and back.
TEST_F(LayerGolden, NamedLayersEqualPyTorch) {
  const SafetensorsFile file = golden("op_layers");
  std::set<std::string> seen;
  for (const std::string& name : cases_of(file)) {
    SCOPED_TRACE(name);
    const Call call = call_of(file, name);
    seen.insert(call.op);
    const BluePrint layer = kLayers.at(call.op)(int(call.attrs.i64("axis")));
    const Tensor& x = call.inputs.front();
    const ArchPlan plan = expand(layer, {{"image", {x.shape().drop_first(), DType::FP32}}});
    std::vector<Tensor> values = {x};
    for (const ArchLayer& part : plan.layers) {
      ASSERT_EQ(part.inputs, (std::vector<int>{int(values.size()) - 1})) << "no row of ops";
      values.push_back(run_op(part.op, {values.back()}, part.attrs, kHere).front());
    }
    const Tolerance close = tolerance(DType::FP32, 8, 3);
    EXPECT_TRUE(is_close(values.back(), file.at(name + ".y"), close, "y"));
    Tensor dy = file.at(name + ".dy");
    for (std::size_t i = plan.layers.size(); i-- > 0;) {
      const std::vector<Tensor> douts = {dy};
      dy = grad_op(plan.layers[i].op, {values[i]}, plan.layers[i].attrs, douts, kHere).front();
    }
    EXPECT_TRUE(is_close(dy, file.at(name + ".d0"), close, "dx"));
  }
  EXPECT_EQ(seen.size(), kLayers.size());
}

}  // namespace
}  // namespace tr::test
