// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "backend/executor.h"
#include "backend/kernel.h"
#include "graph/op_def.h"
#include "renaissance/core/log.h"
#include "support/compare.h"

namespace tr::test {
namespace {

void no_work(const KernelArgs&) {}

OpDef unary_op(const std::string& name) {
  return {.name = name,
          .inputs = {"x"},
          .outputs = {"y"},
          .infer = [](const Attrs&, std::span<const TensorType> in) {
            return std::vector<TensorType>{in[0]};
          }};
}

// Ops of our own: with two kernels, best first, and with one that needs a licence.
const OpRegistration kOp{unary_op("backend_test_op")}, kTf32Op{unary_op("backend_tf32_test_op")},
    kLooseOp{unary_op("backend_loose_test_op")};

KernelDef kernel(const std::string& name, const std::string& refusal) {
  KernelDef def;
  def.op = "backend_test_op";
  def.name = name;
  def.launch = no_work;
  def.refuse = [refusal](const KernelQuery& query) {
    return query.in[0].dtype == DType::FP32 ? "" : refusal;
  };
  def.workspace_bytes = [](const KernelQuery& query) { return query.in[0].shape.num_elements(); };
  return def;
}
const KernelRegistration kSecond{kernel("cpu.backend_test_op.second", "it wants fp32"), 1};
const KernelRegistration kFirst{kernel("cpu.backend_test_op.first", "it is busy"), 2};

KernelDef tf32_kernel(const std::string& name) {
  KernelDef def;
  def.op = "backend_tf32_test_op";
  def.name = name;
  def.launch = no_work;
  return def;
}
const KernelRegistration kExact{tf32_kernel("cpu.backend_tf32_test_op.exact"), 1};
const KernelRegistration kLoose{[] {
  KernelDef def;
  def.op = "backend_loose_test_op";
  def.name = "cpu.backend_loose_test_op";
  def.launch = no_work;
  def.repeatable = false;
  return def;
}()};
const KernelRegistration kCut{tf32_kernel("cpu.backend_tf32_test_op.exact_tf32"), 2};

const std::vector<TensorType> kFloat = {{Shape{4, 5}, DType::FP32}};
const std::vector<TensorType> kInt = {{Shape{4, 5}, DType::INT32}};

TEST(KernelRegistryTest, BestFirst) {
  const auto kernels = kernels_of("backend_test_op", DeviceKind::CPU);
  ASSERT_EQ(kernels.size(), 2u);
  EXPECT_EQ(kernels[0]->name, "cpu.backend_test_op.first");
  EXPECT_TRUE(kernels_of("backend_test_op", DeviceKind::CUDA).empty());
}

TEST(KernelRegistryTest, RefusesWrongRegistrations) {
  EXPECT_TRUE(refuses([] { KernelRegistration(kernel("cpu.backend_test_op.first", "")); },
                      {"registered twice", "cpu.backend_test_op.first"}));
  KernelDef neither = kernel("cpu.backend_test_op.neither", "");
  neither.launch = nullptr;
  EXPECT_TRUE(refuses([&] { KernelRegistration{neither}; }, {"exactly one of launch and prepare"}));
}

TEST(KernelOracleTest, ChoosesByPriorityAndRecordsIt) {
  TuningTable tuning;
  const auto oracle = make_kernel_oracle(DeviceKind::CPU, tuning);
  const KernelChoice choice = oracle->choose("backend_test_op", {}, kFloat, kFloat);
  EXPECT_EQ(choice.kernel, "cpu.backend_test_op.first");
  EXPECT_EQ(choice.workspace_bytes, 20);
  ASSERT_EQ(tuning.entries().size(), 1u);
  EXPECT_EQ(tuning.entries().begin()->second, choice.kernel);
}

TEST(KernelOracleTest, TheTableWins) {
  TuningTable tuning;
  make_kernel_oracle(DeviceKind::CPU, tuning)->choose("backend_test_op", {}, kFloat, kFloat);
  tuning.set(tuning.entries().begin()->first, "cpu.backend_test_op.second");
  const auto oracle = make_kernel_oracle(DeviceKind::CPU, tuning);
  EXPECT_EQ(oracle->choose("backend_test_op", {}, kFloat, kFloat).kernel,
            "cpu.backend_test_op.second");
}

TEST(KernelOracleTest, Tf32NeedsALicence) {
  TuningTable tuning;
  const auto chosen = [&](bool tf32) {
    return make_kernel_oracle(DeviceKind::CPU, tuning, {.tf32 = tf32})
        ->choose("backend_tf32_test_op", {}, kFloat, kFloat)
        .kernel;
  };
  const std::string exact = "cpu.backend_tf32_test_op.exact";
  EXPECT_EQ(chosen(false), exact);
  EXPECT_EQ(chosen(true), exact + "_tf32") << "a choice stored without the licence does not bind";
  EXPECT_EQ(chosen(false), exact);
}

TEST(KernelOracleTest, UnrepeatableKernelsNeedALicence) {
  TuningTable tuning;
  const auto strict = make_kernel_oracle(DeviceKind::CPU, tuning);
  const auto loose = make_kernel_oracle(DeviceKind::CPU, tuning, {.unrepeatable = true});
  EXPECT_FALSE(strict->knows("backend_loose_test_op"));
  EXPECT_FALSE(strict->fuses("backend_loose_test_op", {}, kFloat));
  EXPECT_TRUE(loose->fuses("backend_loose_test_op", {}, kFloat));
  EXPECT_EQ(loose->choose("backend_loose_test_op", {}, kFloat, kFloat).kernel,
            "cpu.backend_loose_test_op");
}

TEST(KernelOracleTest, StaleEntryIsLoggedAndReplaced) {
  TuningTable tuning;
  make_kernel_oracle(DeviceKind::CPU, tuning)->choose("backend_test_op", {}, kFloat, kFloat);
  tuning.set(tuning.entries().begin()->first, "cpu.backend_test_op.gone");
  std::string logged;
  const LogSink former = set_log_sink([&](LogLevel, std::string_view text) { logged += text; });
  const KernelChoice choice =
      make_kernel_oracle(DeviceKind::CPU, tuning)->choose("backend_test_op", {}, kFloat, kFloat);
  set_log_sink(former);
  EXPECT_EQ(choice.kernel, "cpu.backend_test_op.first");
  EXPECT_NE(logged.find("no such kernel"), std::string::npos) << logged;
  EXPECT_EQ(tuning.entries().begin()->second, choice.kernel);
}

TEST(KernelOracleTest, RefusalNamesEveryReason) {
  TuningTable tuning;
  const auto oracle = make_kernel_oracle(DeviceKind::CPU, tuning);
  EXPECT_TRUE(
      refuses([&] { oracle->choose("backend_test_op", {}, kInt, kInt); },
              {"no cpu kernel takes", "int32 [4, 5]", "cpu.backend_test_op.first: it is busy",
               "cpu.backend_test_op.second: it wants fp32"}));
  EXPECT_TRUE(refuses([&] { oracle->choose("conv_of_nobody", {}, kFloat, kFloat); },
                      {"conv_of_nobody", "no cpu kernel"}));
  EXPECT_TRUE(oracle->knows("backend_test_op"));
  EXPECT_FALSE(oracle->knows("conv_of_nobody"));
}

TEST(KernelOracleTest, OffersFusionsThatItsKernelsTake) {
  TuningTable tuning;
  const auto oracle = make_kernel_oracle(DeviceKind::CPU, tuning);
  const std::vector<TensorType> in = {{Shape{2, 3}}, {Shape{4, 3}}, {Shape{4}}};
  EXPECT_TRUE(oracle->fuses("fc", {{"activation", std::string("relu")}}, in));
  EXPECT_FALSE(oracle->fuses("fc", {{"activation", std::string("no_such")}}, in));
}

std::set<std::string> ops_without_kernel() {
  std::ifstream file(TR_BACKEND_FOLDER "/ops_without_kernel.txt");
  std::set<std::string> names;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty() && line[0] != '#') names.insert(line);
  }
  return names;
}

bool is_pure_view(const OpDef& def) {
  return !def.views.empty() && def.views.size() == def.outputs.size();
}

TEST(CompletenessTest, EveryOpHasAKernelOrIsListed) {
  const std::set<std::string> listed = ops_without_kernel();
  ASSERT_FALSE(OpRegistry::instance().names().empty());
  for (const std::string& name : OpRegistry::instance().names()) {
    const bool has_kernel = !kernels_of(name, DeviceKind::CPU).empty();
    if (OpRegistry::instance().get(name).fused) continue;  // a device may do without
    const bool view = is_pure_view(OpRegistry::instance().get(name));
    EXPECT_TRUE(has_kernel || view || listed.contains(name)) << name << " has no CPU kernel";
    EXPECT_FALSE(has_kernel && listed.contains(name))
        << name << " has a kernel and is still listed";
  }
}

TEST(CompletenessTest, EveryKernelAndEveryLineHasAnOp) {
  for (const auto& [op, device] : all_kernel_keys()) {
    EXPECT_NE(OpRegistry::instance().find(op), nullptr) << op << " has a kernel and no definition";
  }
  for (const std::string& name : ops_without_kernel()) {
    EXPECT_NE(OpRegistry::instance().find(name), nullptr) << name << " is listed and not defined";
  }
}

}  // namespace
}  // namespace tr::test
