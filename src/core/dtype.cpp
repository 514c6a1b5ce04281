// SPDX-License-Identifier: Apache-2.0
#include "renaissance/core/dtype.h"

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "core/check.h"
#include "core/nearest_name.h"

namespace tr {
namespace {

constexpr std::array<std::pair<DType, std::string_view>, 8> kNames{{{DType::FP32, "fp32"},
                                                                    {DType::FP16, "fp16"},
                                                                    {DType::BF16, "bf16"},
                                                                    {DType::UINT8, "uint8"},
                                                                    {DType::INT8, "int8"},
                                                                    {DType::INT32, "int32"},
                                                                    {DType::INT64, "int64"},
                                                                    {DType::BOOL, "bool"}}};

}  // namespace

std::string_view name_of(DType dtype) {
  for (const auto& [value, name] : kNames) {
    if (value == dtype) return name;
  }
  throw_as<InternalError>("dtype: value {} names no element type", int(dtype));
}

DType dtype_from_name(std::string_view name) {
  std::vector<std::string> known;
  for (const auto& [value, known_name] : kNames) {
    if (known_name == name) return value;
    known.emplace_back(known_name);
  }
  throw_as<InvalidArgument>("{}", unknown_name_message("dtype", name, known));
}

}  // namespace tr
