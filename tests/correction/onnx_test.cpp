// SPDX-License-Identifier: Apache-2.0
// The cases of the package onnx that make_onnx_cases.py converted (docs/onnx.md): each is a row of
// ops whose stored inputs give the stored outputs. One program for each device: TR_TEST_DEVICE is
// its DeviceKind.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "core/format.h"
#include "renaissance/task/simple_task.h"
#include "support/attrs.h"
#include "support/compare.h"
#include "support/device.h"
#include "support/golden.h"

namespace tr::test {
namespace {

using Json = nlohmann::json;

constexpr TaskDevice kHere{DeviceKind::TR_TEST_DEVICE, 0};

std::string onnx_folder() { return golden_folder() + "/../onnx"; }

std::vector<std::string> onnx_files() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(onnx_folder())) {
    names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

SafetensorsFile onnx_file(const std::string& name) {
  return load_safetensors(onnx_folder() + "/" + name + ".safetensors");
}

/// One case: its steps, run one by one, and what they must give.
class OnnxCase {
 public:
  OnnxCase(const SafetensorsFile& file, const std::string& name, Json about)
      : about_(std::move(about)) {
    for (const NamedTensor& entry : file.tensors) {
      if (!entry.name.starts_with(name + ".")) continue;
      const std::string part = entry.name.substr(name.size() + 1);
      const bool wanted = part.starts_with("want.");
      (wanted ? wanted_ : values_)[wanted ? part.substr(5) : part] = entry.tensor;
    }
  }

  void run() {
    for (const Json& step : about_.at("steps")) {
      std::vector<Tensor> inputs;
      for (const std::string input : step.at("in")) inputs.push_back(values_.at(input));
      const std::string op = step.at("op");
      const std::vector<Tensor> outputs = run_op(op, inputs, attrs_of(step.at("attrs")), kHere);
      for (std::size_t i = 0; i < step.at("out").size(); ++i) {
        values_[step.at("out")[i].get<std::string>()] = outputs.at(i);
      }
    }
  }

  testing::AssertionResult gives_what_is_wanted() const {
    if (wanted_.empty()) return testing::AssertionFailure() << "nothing is wanted";
    for (const auto& [name, want] : wanted_) {
      const Tensor& got = values_.at(name);
      if (got.type() != want.type())
        return testing::AssertionFailure()
               << name << fmt::format(" is {}, wanted is {}", got.type(), want.type());
      const testing::AssertionResult same = is_floating(want.dtype())
                                                ? is_close(got, want, close(want.dtype()), name)
                                                : same_bytes(got, want, name);
      if (!same) return same;
    }
    return testing::AssertionSuccess();
  }

 private:
  Tolerance close(DType dtype) const {
    Tolerance close = tolerance(dtype, about_.at("summed"), about_.at("scale"));
    close.atol += about_.at("rounding").get<double>();
    return close;
  }

  Json about_;
  std::map<std::string, Tensor> values_, wanted_;
};

class OnnxCases : public DeviceTest<kHere.kind, testing::TestWithParam<std::string>> {};

TEST_P(OnnxCases, GiveWhatOnnxGives) {
  const SafetensorsFile file = onnx_file(GetParam());
  const Json cases = Json::parse(file.metadata.at("cases"));
  ASSERT_FALSE(cases.empty());
  for (const auto& [name, about] : cases.items()) {
    SCOPED_TRACE(name);
    OnnxCase one(file, name, about);
    one.run();
    EXPECT_TRUE(one.gives_what_is_wanted());
  }
}

INSTANTIATE_TEST_SUITE_P(All, OnnxCases, testing::ValuesIn(onnx_files()),
                         [](const auto& info) { return info.param; });

TEST(OnnxCasesTable, CountsWhatIsRun) {
  std::map<std::string, int> in_files;
  for (const std::string& name : onnx_files()) {
    const SafetensorsFile file = onnx_file(name);
    EXPECT_LT(std::filesystem::file_size(onnx_folder() + "/" + name + ".safetensors"), 160u * 1024);
    EXPECT_EQ(file.metadata.at("script"), "tests/correction/make_onnx_cases.py");
    in_files[name.substr(0, name.rfind('_'))] += int(Json::parse(file.metadata.at("cases")).size());
  }
  std::ifstream page(golden_folder() + "/../../../docs/onnx.md");
  ASSERT_TRUE(page);
  const std::regex row("\\| (\\w+) \\| (\\d+) \\| (\\d+) \\|.*");
  std::map<std::string, int> in_table;
  for (std::string line; std::getline(page, line);) {
    std::smatch match;
    if (!std::regex_match(line, match, row) || match[1] == "together") continue;
    std::string name = match[1];
    std::transform(name.begin(), name.end(), name.begin(),
                   [](char c) { return char(std::tolower(c)); });
    if (std::stoi(match[3]) > 0) in_table[name] = std::stoi(match[3]);
  }
  EXPECT_EQ(in_files, in_table);
  EXPECT_GE(in_table.at("conv"), 20);
}

// Negative control: another stride, slope or epsilon than the case's is seen.
class OnnxNearMisses : public DeviceTest<kHere.kind> {};

TEST_F(OnnxNearMisses, AreSeen) {
  const auto passes = [](const std::string& file_name, const std::string& name,
                         const Json& changed) {
    const SafetensorsFile file = onnx_file(file_name);
    Json about = Json::parse(file.metadata.at("cases")).at(name);
    about.at("steps")[0].at("attrs").update(changed);
    OnnxCase one(file, name, about);
    one.run();
    return bool(one.gives_what_is_wanted());
  };
  EXPECT_TRUE(passes("leakyrelu_0", "test_leakyrelu", Json::object()));
  EXPECT_FALSE(passes("leakyrelu_0", "test_leakyrelu", {{"alpha", 0.11}}));
  EXPECT_FALSE(passes("batchnormalization_0", "test_batchnorm_epsilon", {{"eps", 1e-3}}));
  EXPECT_FALSE(passes("conv_0", "test_conv_with_strides_padding", {{"stride", {1, 1}}}));
}

}  // namespace
}  // namespace tr::test
