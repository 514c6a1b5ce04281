// SPDX-License-Identifier: Apache-2.0
// Steps of a residual network with norms, sums and rectifiers fused and one by one, on the CPU.
#include <algorithm>

#include "support/compare.h"
#include "support/compiled_model.h"
#include "support/shared_values.h"
#include "zoo/models.h"

namespace tr::test {
namespace {

constexpr std::int64_t kBatch = 5, kSize = 9;

std::unique_ptr<CompiledModel> trained(bool fuse, std::optional<DType> low, int threads = 1) {
  CompiledModel::Options options{.batch = kBatch, .picture = {kSize, kSize, 3}};
  options.offers = [fuse](const std::string&, const Attrs&) { return fuse; };
  options.graph.low_dtype = low;
  options.device.num_threads = threads;
  const BluePrint network =
      zoo::resnet({.blocks = {1, 2}, .width = 5, .small_images = true}, /*num_classes=*/10);
  auto model = std::make_unique<CompiledModel>(network, options);
  for (const Param& param : model->params()) {
    model->write(param, shared_param(param.name, param.spec));
  }
  model->set_rates(0.05f, 0, 0);
  const Tensor pictures = shared_units("pictures", {kBatch, kSize, kSize, 3});
  for (int step = 0; step < 2; ++step) {
    model->step(pictures.to(low.value_or(DType::FP32)), shared_labels("labels", kBatch, 10));
  }
  return model;
}

std::int64_t count_of(const CompiledModel& model, const std::string& op) {
  const auto& nodes = model.compiled().lowered.front().nodes;
  return std::count_if(nodes.begin(), nodes.end(), [&](const auto& n) { return n.op == op; });
}

TEST(FusedNorm, GivesTheBytesOfItsPartsInFp32) {
  const auto fused = trained(true, {}), parts = trained(false, {});
  // Stem and first norms of three blocks; their second ones with the sum.
  EXPECT_EQ(count_of(*fused, "bn_act"), 7);
  EXPECT_EQ(count_of(*fused, "bn_act_backward"), 7);
  EXPECT_EQ(count_of(*fused, "relu"), 0);
  EXPECT_EQ(count_of(*parts, "bn_act"), 0);
  // It reads whole maps: the gradient of the short way with a stride is not made compact.
  for (const LoweredNode& node : fused->compiled().lowered.front().nodes) {
    if (node.op == "bn_act_backward") {
      EXPECT_EQ(node.attrs.ints("more_stride"), (std::vector<std::int64_t>{1, 1})) << node.layer;
    }
  }
  for (const Param& param : fused->params()) {
    EXPECT_TRUE(same_bytes(fused->read(param), parts->read(param), param.name));
  }
}

TEST(FusedNorm, GivesTheSameBytesForThreadCounts) {
  for (const auto& low : {std::optional<DType>(), std::optional(DType::FP16)}) {
    const auto one = trained(true, low), three = trained(true, low, 3);
    for (const Param& param : one->params()) {
      EXPECT_TRUE(same_bytes(three->read(param), one->read(param), param.name));
    }
  }
}

// In 16 bits a fused node rounds once where its parts round twice: two steps apart by some
// roundings.
TEST(FusedNorm, LiesWithinRoundingsOfItsPartsIn16Bits) {
  for (const DType low : {DType::FP16, DType::BF16}) {
    const auto fused = trained(true, low), parts = trained(false, low);
    for (const Param& param : fused->params()) {
      const Tensor want = parts->read(param);
      double largest = 0;
      for (std::int64_t i = 0; i < want.num_elements(); ++i) {
        largest = std::max(largest, std::abs(want.at(i)));
      }
      const double u = unit_roundoff(low);
      EXPECT_TRUE(is_close(fused->read(param), want, {16 * u, 16 * u * largest}, param.name))
          << name_of(low);
    }
  }
}

}  // namespace
}  // namespace tr::test
