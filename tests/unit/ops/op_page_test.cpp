// SPDX-License-Identifier: Apache-2.0
// docs/ops.md is what the definitions and kernels say: made here from the registry and the good
// shape cases, compared with the page.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "backend/kernel.h"
#include "core/format.h"
#include "op_cases.h"
#include "renaissance/core/error.h"
#include "renaissance/core/types.h"

namespace tr::test {
namespace {

constexpr DType kFloats[] = {DType::FP32, DType::FP16, DType::BF16};

std::string list_of(const std::vector<std::string>& names, int num_optional = 0) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const bool optional = i + std::size_t(num_optional) >= names.size();
    text += (i == 0 ? "" : ", ") + (optional ? "[" + names[i] + "]" : names[i]);
  }
  return text;
}

std::string escaped(std::string text) {
  for (std::size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) {
    text.insert(at, "\\");
  }
  return text;
}

std::string types_text(const std::vector<TensorType>& types) {
  std::string text;
  for (const TensorType& type : types) text += (text.empty() ? "" : ", ") + to_string(type);
  return text;
}

std::string attrs_text(const OpDef& def) {
  std::string text;
  for (const AttrSpec& spec : def.attrs) {
    text += (text.empty() ? "`" : ", `") + spec.name + "`" + (spec.required ? " (required)" : "");
  }
  return text;
}

/// Whether the op and a kernel of the device take these inputs.
bool runs(const OpDef& def, DeviceKind device, const Attrs& attrs,
          const std::vector<TensorType>& in) {
  try {
    const std::vector<TensorType> out = def.infer(attrs, in);
    for (const KernelDef* kernel : kernels_of(def.name, device)) {
      if (!kernel->refuse || kernel->refuse({attrs, in, out}).empty()) return true;
    }
  } catch (const Error&) {
    return false;
  }
  return false;
}

/// The case's inputs with `dtype` in place of that of its first floating input: in all inputs of
/// that dtype, in those of the very type, in the first alone.
std::vector<std::vector<TensorType>> substituted(const ShapeCase& c, DType dtype) {
  std::vector<std::vector<TensorType>> tries;
  for (const TensorType& first : c.in) {
    if (!is_floating(first.dtype)) continue;
    std::vector<TensorType> all = c.in, same = c.in, one = c.in;
    bool found = false;
    for (std::size_t i = 0; i < c.in.size(); ++i) {
      if (c.in[i].dtype == first.dtype) all[i].dtype = dtype;
      if (c.in[i] == first) {
        same[i].dtype = dtype;
        if (!found) one[i].dtype = dtype;
        found = true;
      }
    }
    tries.insert(tries.end(), {all, same, one});
  }
  return tries;
}

/// The case's inputs as they are, and with every floating dtype in them.
std::vector<std::vector<TensorType>> variants_of(const ShapeCase& c) {
  std::vector<std::vector<TensorType>> all = {c.in};
  for (const DType dtype : kFloats) {
    const auto tries = substituted(c, dtype);
    all.insert(all.end(), tries.begin(), tries.end());
  }
  return all;
}

std::string dtypes_text(const OpDef& def, DeviceKind device, const std::vector<ShapeCase>& cases) {
  if (!def.views.empty()) return "view";
  if (kernels_of(def.name, device).empty()) return "none";
  std::string text;
  bool floats = false;
  for (const DType dtype : kFloats) {
    bool taken = false;
    for (const ShapeCase& c : cases) {
      for (const auto& in : substituted(c, dtype)) {
        floats = true;
        taken = taken || runs(def, device, complete_attrs(def, c.attrs), in);
      }
    }
    if (taken) text += (text.empty() ? "" : " ") + std::string(name_of(dtype));
  }
  if (!floats) return "yes";
  return text.empty() ? "by shape" : text;
}

bool is_made_by_the_compiler(const OpDef& def) {
  for (const char* end : {"_backward", "_da", "_db", "_dx", "_dweight"}) {
    if (def.name.ends_with(end)) return true;
  }
  return def.fused;
}

std::string row_of(const OpDef& def, const std::vector<ShapeCase>& cases, bool with_gpu) {
  const ShapeCase& example = cases.front();
  const int optional = def.num_optional_inputs;
  std::string row = fmt::format("| `{}` | {} → {} | {} | {} | {} → {} | {} |", def.name,
                                list_of(def.inputs, optional), list_of(def.outputs),
                                attrs_text(def), escaped(def.doc), types_text(example.in),
                                types_text(example.out), dtypes_text(def, DeviceKind::CPU, cases));
  if (with_gpu) row += " " + dtypes_text(def, DeviceKind::CUDA, cases) + " |";
  return row + "\n";
}

std::string table(bool made, const std::map<std::string, std::vector<ShapeCase>>& cases,
                  bool with_gpu) {
  std::string text =
      "| op | inputs → outputs | attributes | meaning, function of PyTorch | example | CPU |";
  text += with_gpu ? " GPU |\n|---|---|---|---|---|---|---|\n" : "\n|---|---|---|---|---|---|\n";
  for (const std::string& name : OpRegistry::instance().names()) {
    const OpDef& def = OpRegistry::instance().get(name);
    if (is_made_by_the_compiler(def) != made) continue;
    const auto found = cases.find(name);
    if (found != cases.end()) text += row_of(def, found->second, with_gpu);
  }
  return text;
}

/// Rows of the elementwise tables have one shape rule: that of relu stands for all of them.
std::map<std::string, std::vector<ShapeCase>> good_cases() {
  std::map<std::string, std::vector<ShapeCase>> good;
  for (const ShapeCase& c : all_cases()) {
    if (c.words.empty()) good[c.op].push_back(c);
  }
  for (const std::string& name : OpRegistry::instance().names()) {
    if (good.contains(name)) continue;
    const OpDef& def = OpRegistry::instance().get(name);
    ShapeCase c{"", name, {}, std::vector<TensorType>(def.inputs.size(), f32({4, 5})), {}, {}};
    for (const AttrSpec& spec : def.attrs) c.attrs.set(spec.name, spec.default_value);
    c.out = def.infer(complete_attrs(def, c.attrs), c.in);
    good[name].push_back(c);
  }
  return good;
}

std::string page(bool with_gpu) {
  const auto cases = good_cases();
  return "# Ops\n\n"
         "Every op of the library, made from its definition, its kernels and the tests' shape "
         "cases "
         "(`tests/unit/ops/op_page_test.cpp` holds this page equal to them and says how to make it "
         "anew). Inputs in brackets may be missing. The last columns name the dtypes that a kernel "
         "of the device takes; \"view\": the bytes of the input, no kernel is needed; \"yes\": "
         "integers; \"by shape\": another example's. `include/renaissance/ops/` has the functions "
         "that users call.\n\n"
         "## What models and losses are made of\n\n" +
         table(false, cases, with_gpu) +
         "\n## What the compiler makes: gradients and fused forms\n\n" +
         table(true, cases, with_gpu);
}

/// Without the last column of every table's rows.
std::string without_gpu(const std::string& text) {
  std::istringstream lines(text);
  std::string line, result;
  while (std::getline(lines, line)) {
    if (line.starts_with("|")) {
      std::size_t at = line.size() - 1;
      do {
        at = line.rfind('|', at - 1);
      } while (at > 0 && line[at - 1] == '\\');
      line = line.substr(0, at + 1);
    }
    result += line + "\n";
  }
  return result;
}

TEST(OpPage, IsWhatTheDefinitionsSay) {
  std::ifstream file(std::string(TR_DOCS_FOLDER) + "/ops.md");
  std::ostringstream text;
  text << file.rdbuf();
  const bool with_gpu = !kernels_of("relu", DeviceKind::CUDA).empty();
  const std::string made = page(with_gpu), found = with_gpu ? text.str() : without_gpu(text.str());
  if (made == found) return;
  const std::string where = testing::TempDir() + "ops.md";
  std::ofstream(where) << made;
  FAIL() << "docs/ops.md is not what the definitions say" << (with_gpu ? "; copy " + where : "");
}

/// What a GPU refuses though the CPU takes it, with the reason. Fused forms are made by lowering
/// where the device takes them.
const std::map<std::string, std::string> kCpuAlone = {
    {"bn_act", "a mask has 8 channels a byte there, and is of 16-bit values"},
    {"bn_act_backward", "likewise"}};

TEST(OpPage, AGpuTakesWhatTheCpuTakes) {
  if (kernels_of("relu", DeviceKind::CUDA).empty()) GTEST_SKIP() << "built without CUDA";
  const auto convolutions = kernels_of("conv", DeviceKind::CUDA);
  const bool has_cudnn = std::any_of(
      convolutions.begin(), convolutions.end(),
      [](const KernelDef* kernel) { return kernel->name.find("cudnn") != std::string::npos; });
  std::set<std::string> refused;
  for (const auto& [name, cases] : good_cases()) {
    const OpDef& def = OpRegistry::instance().get(name);
    if (!def.views.empty() || (name.starts_with("conv") && !has_cudnn)) continue;
    for (const ShapeCase& c : cases) {
      const Attrs attrs = complete_attrs(def, c.attrs);
      for (const auto& in : variants_of(c)) {
        if (!runs(def, DeviceKind::CPU, attrs, in) || runs(def, DeviceKind::CUDA, attrs, in))
          continue;
        refused.insert(name);
        EXPECT_TRUE(kCpuAlone.contains(name)) << name << " of " << types_text(in);
      }
    }
  }
  for (const auto& [name, reason] : kCpuAlone) {
    EXPECT_TRUE(refused.contains(name)) << name << " is taken now, and still listed: " << reason;
  }
}

}  // namespace
}  // namespace tr::test
