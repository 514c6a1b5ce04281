// SPDX-License-Identifier: Apache-2.0
// Ops that are wrong on purpose: each must fail the claim that it breaks, and the sound one none.
#include <atomic>

#include "backend/kernel.h"
#include "core/cpu_info.h"
#include "core/format.h"
#include "graph/computation_graph.h"
#include "graph/op_def.h"
#include "op/op_harness.h"
#include "renaissance/core/error.h"

namespace tr::test {
namespace {

using Types = std::span<const TensorType>;

OpDef doubling(const std::string& name) {
  OpDef def;
  def.name = name;
  def.inputs = {"x"};
  def.outputs = {"y"};
  def.infer = [](const Attrs&, Types in) {
    if (!is_floating(in[0].dtype)) throw InvalidArgument("x is int32, expected a floating dtype");
    return std::vector<TensorType>{in[0]};
  };
  def.gradient = [](GraphBuilder& builder, const Node&, std::span<const TensorId> dout) {
    return std::vector<TensorId>{builder.add("add", {dout[0], dout[0]})};
  };
  return def;
}

template <typename F>
void map(const KernelArgs& args, F f) {
  const float* x = args.in<float>(0);
  float* y = args.out<float>(0);
  for (std::int64_t i = 0; i < args.in_type(0).shape.num_elements(); ++i) y[i] = f(x[i]);
}

void launch_sound(const KernelArgs& args) {
  map(args, [](float x) { return 2 * x; });
}

void launch_inexact(const KernelArgs& args) {
  map(args, [](float x) { return 2.00001f * x; });
}

void launch_by_threads(const KernelArgs& args) {
  const float last_bit = 1 + 1.2e-7f * float(args.pool().num_threads());
  map(args, [=](float x) { return 2 * x * last_bit; });
}

void launch_far_by_threads(const KernelArgs& args) {
  const float factor = 2 + 1e-3f * float(args.pool().num_threads());
  map(args, [=](float x) { return factor * x; });
}

void launch_with_memory(const KernelArgs& args) {
  static std::atomic<int> launches{0};
  const float last_bit = 1 + 1.2e-7f * float(launches.fetch_add(1));
  map(args, [=](float x) { return 2 * x * last_bit; });
}

OpDef with_gradient(OpDef def, decltype(OpDef::gradient) gradient) {
  def.gradient = std::move(gradient);
  return def;
}

OpDef without_check(OpDef def) {
  def.infer = [](const Attrs&, Types in) { return std::vector<TensorType>{in[0]}; };
  return def;
}

const OpRegistration kSound{doubling("test_sound")};
const OpRegistration kInexact{doubling("test_inexact")};
const OpRegistration kByThreads{doubling("test_by_threads")};
const OpRegistration kFarByThreads{doubling("test_far_by_threads")};
const OpRegistration kWithMemory{doubling("test_with_memory")};
const OpRegistration kCareless{without_check(doubling("test_careless"))};
const OpRegistration kWrongGradient{with_gradient(
    doubling("test_wrong_gradient"), [](GraphBuilder& builder, const Node&, auto dout) {
      return std::vector<TensorId>{builder.add("identity", {dout[0]})};
    })};
const OpRegistration kLostGradient{with_gradient(
    doubling("test_lost_gradient"),
    [](GraphBuilder&, const Node&, auto) { return std::vector<TensorId>{kNoTensor}; })};
const KernelRegistration kSoundKernel{"test_sound", DeviceKind::CPU, launch_sound};
const KernelRegistration kInexactKernel{"test_inexact", DeviceKind::CPU, launch_inexact};
const KernelRegistration kByThreadsKernel{"test_by_threads", DeviceKind::CPU, launch_by_threads};
const KernelRegistration kFarKernel{"test_far_by_threads", DeviceKind::CPU, launch_far_by_threads};
const KernelRegistration kWithMemoryKernel{"test_with_memory", DeviceKind::CPU, launch_with_memory};
const KernelRegistration kCarelessKernel{"test_careless", DeviceKind::CPU, launch_sound};
const KernelRegistration kGradientKernel{"test_wrong_gradient", DeviceKind::CPU, launch_sound};
const KernelRegistration kLostKernel{"test_lost_gradient", DeviceKind::CPU, launch_sound};

struct Verdicts {
  bool forward, gradient, threads, parts, refuses;
  friend bool operator==(const Verdicts&, const Verdicts&) = default;
};

Verdicts verdicts(const std::string& op) {
  const OpCase c = doubling_case(op);
  const DType dtype = DType::FP32;
  return {bool(forward_matches_reference(c, dtype)),
          bool(gradient_matches_finite_differences(c, dtype)),
          bool(same_bytes_for_thread_counts(c, dtype)), bool(parts_equal_whole(c, dtype)),
          bool(refuses_wrong_input(c))};
}

void PrintTo(const Verdicts& v, std::ostream* out) {
  *out << fmt::format("forward {}, gradient {}, threads {}, parts {}, refuses {}", v.forward,
                      v.gradient, v.threads, v.parts, v.refuses);
}

TEST(NegativeControl, ASoundOpHoldsEveryClaim) {
  EXPECT_EQ(verdicts("test_sound"), (Verdicts{true, true, true, true, true}));
}

TEST(NegativeControl, AResultOffByOnePartInAHundredThousandIsSeen) {
  EXPECT_EQ(verdicts("test_inexact"), (Verdicts{false, true, true, true, true}));
}

TEST(NegativeControl, AWrongGradientIsSeen) {
  EXPECT_EQ(verdicts("test_wrong_gradient"), (Verdicts{true, false, true, true, true}));
}

TEST(NegativeControl, AMissingGradientIsSeen) {
  EXPECT_EQ(verdicts("test_lost_gradient"), (Verdicts{true, false, true, true, true}));
}

TEST(NegativeControl, ALastBitThatDependsOnThreadsIsSeen) {
  EXPECT_FALSE(verdicts("test_by_threads").threads);
}

TEST(NegativeControl, ALastBitThatDependsOnTheLaunchIsSeen) {
  EXPECT_FALSE(verdicts("test_with_memory").parts);
}

TEST(NegativeControl, AnEagerLaunchThatDiffersFromTheCapturedOneIsSeen) {
  EXPECT_TRUE(captured_equals_eager(doubling_case("test_sound"), DType::FP32, {}));
  EXPECT_FALSE(captured_equals_eager(doubling_case("test_with_memory"), DType::FP32, {}));
}

TEST(NegativeControl, ADeviceWhoseBytesOrValuesDifferIsSeen) {
  const TaskDevice other{DeviceKind::CPU, default_num_threads() + 1};
  EXPECT_TRUE(equals_cpu(doubling_case("test_sound"), DType::FP32, other, true));
  EXPECT_FALSE(equals_cpu(doubling_case("test_by_threads"), DType::FP32, other, true));
  EXPECT_FALSE(equals_cpu(doubling_case("test_far_by_threads"), DType::FP32, other, false));
}

TEST(NegativeControl, AMissingCheckIsSeen) {
  EXPECT_EQ(verdicts("test_careless"), (Verdicts{true, true, true, true, false}));
}

}  // namespace
}  // namespace tr::test
