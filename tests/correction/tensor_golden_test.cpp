// SPDX-License-Identifier: Apache-2.0
// Ops on whole tensors against what PyTorch computes (tests/correction/generate/tensor_ops.py): the
// output, and input gradients for a given output gradient. One program for each device:
// TR_TEST_DEVICE is its DeviceKind.
#include <nlohmann/json.hpp>

#include "core/format.h"
#include "graph/op_def.h"
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

}  // namespace
}  // namespace tr::test
