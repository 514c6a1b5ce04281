// SPDX-License-Identifier: Apache-2.0
#include "renaissance/algo/initializer.h"

#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "core/check.h"
#include "core/format.h"
#include "core/nearest_name.h"

namespace tr {
namespace {

constexpr std::array<std::string_view, 18> kKindNames = {"none",
                                                         "zeros",
                                                         "constants",
                                                         "kaiming_normal",
                                                         "kaiming_uniform",
                                                         "xavier_normal",
                                                         "xavier_uniform",
                                                         "trunc_normal",
                                                         "fixed_normal",
                                                         "standard",
                                                         "zero_gamma",
                                                         "fixed_uniform",
                                                         "fixed_trunc_normal",
                                                         "lecun_normal",
                                                         "lecun_uniform",
                                                         "orthogonal",
                                                         "dirac",
                                                         "sparse"};
constexpr std::array<std::string_view, 3> kFanNames = {"fan_in", "fan_out", "fan_avg"};

/// Place of `name`. @throws InvalidArgument  with the nearest one.
template <std::size_t kCount>
std::size_t place_of(const char* what, const std::array<std::string_view, kCount>& names,
                     std::string_view name) {
  for (std::size_t i = 0; i < kCount; ++i) {
    if (names[i] == name) return i;
  }
  throw_as<InvalidArgument>(
      "{}", unknown_name_message(what, name, std::vector<std::string>(names.begin(), names.end())));
}

void check_kind(const char* who, InitKind kind, float param) {
  TR_CHECK(kind != InitKind::STANDARD && kind != InitKind::ZERO_GAMMA,
           "Initializer::{}: the kind is {}, which is one of bn(); expected a distribution", who,
           kind == InitKind::STANDARD ? "STANDARD" : "ZERO_GAMMA");
  TR_CHECK(std::isfinite(param), "Initializer::{}: param is {}, expected a finite number", who,
           param);
  TR_CHECK(kind != init::kSparse || (param >= 0 && param <= 1),
           "Initializer::{}: param is {}, expected 0 to 1 (part of a column that is 0)", who,
           param);
}

}  // namespace

std::string_view name_of(InitKind kind) { return kKindNames.at(std::size_t(kind)); }
InitKind init_kind_from_name(std::string_view name) {
  return InitKind(place_of("initialisation", kKindNames, name));
}
std::string_view name_of(FanMode mode) { return kFanNames.at(std::size_t(mode)); }
FanMode fan_mode_from_name(std::string_view name) {
  return FanMode(place_of("fan mode", kFanNames, name));
}

Initializer& Initializer::conv(InitKind kind, float param) {
  check_kind("conv", kind, param);
  options_.conv_kind = kind;
  options_.conv_param = param;
  return *this;
}

Initializer& Initializer::fc(InitKind kind, float param) {
  check_kind("fc", kind, param);
  options_.fc_kind = kind;
  options_.fc_param = param;
  return *this;
}

Initializer& Initializer::bn(InitKind kind) {
  TR_CHECK(kind == InitKind::STANDARD || kind == InitKind::ZERO_GAMMA,
           "Initializer::bn: the kind is none of bn's, expected STANDARD or ZERO_GAMMA");
  options_.zero_gamma = kind == InitKind::ZERO_GAMMA;
  return *this;
}

Initializer& Initializer::zero_gamma(bool on) {
  options_.zero_gamma = on;
  return *this;
}

Initializer& Initializer::fan(FanMode mode) {
  options_.fan = mode;
  return *this;
}

Initializer& Initializer::scale(float value) {
  TR_CHECK(value > 0 && std::isfinite(value),
           "Initializer::scale: it is {}, expected a positive number", value);
  options_.scale = value;
  return *this;
}

Initializer& Initializer::nonlinearity(float a) {
  TR_CHECK(std::isfinite(a), "Initializer::nonlinearity: a is {}, expected a finite number", a);
  options_.nonlinearity = a;
  return *this;
}

Initializer& Initializer::layer(const std::string& prefix, InitKind kind, float param) {
  check_kind("layer", kind, param);
  options_.rules.push_back({prefix, kind, param, {}, {}});
  return *this;
}

Initializer& Initializer::from_file(const std::string& path, const std::string& prefix,
                                    const std::string& prefix_in_file) {
  TR_CHECK(!path.empty(), "Initializer::from_file: the path is empty, expected a safetensors file");
  options_.rules.push_back({prefix, InitKind::NONE, 0, path, prefix_in_file});
  return *this;
}

Initializer& Initializer::rules(const std::vector<Rule>& all) {
  options_.rules.clear();
  for (const Rule& rule : all) {
    if (rule.path.empty()) {
      layer(rule.prefix, rule.kind, rule.param);
    } else {
      from_file(rule.path, rule.prefix, rule.prefix_in_file);
    }
  }
  return *this;
}

}  // namespace tr
