// SPDX-License-Identifier: Apache-2.0
#include "renaissance/algo/initializer.h"

#include <algorithm>
#include <cmath>

#include "algo/fill_param.h"
#include "core/check.h"
#include "core/det_math.h"
#include "core/fnv.h"
#include "core/format.h"
#include "core/philox.h"

namespace tr {
namespace {

void check_weight_kind(const char* who, InitKind kind) {
  TR_CHECK(kind != InitKind::STANDARD && kind != InitKind::ZERO_GAMMA,
           "Initializer::{}: the kind is {}, which is one of bn(); expected a distribution", who,
           kind == InitKind::STANDARD ? "STANDARD" : "ZERO_GAMMA");
}

void check_param(const char* who, float param) {
  TR_CHECK(std::isfinite(param), "Initializer::{}: param is {}, expected a finite number", who,
           param);
}

}  // namespace

Initializer& Initializer::conv(InitKind kind, float param) {
  check_weight_kind("conv", kind);
  check_param("conv", param);
  options_.conv_kind = kind;
  options_.conv_param = param;
  return *this;
}

Initializer& Initializer::fc(InitKind kind, float param) {
  check_weight_kind("fc", kind);
  check_param("fc", param);
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
  check_param("nonlinearity", a);
  options_.nonlinearity = a;
  return *this;
}

namespace {

/// What a weight is drawn from, its constants in double until the last step.
struct Distribution {
  enum class Shape { CONSTANT, UNIFORM, NORMAL, TRUNCATED } shape = Shape::CONSTANT;
  double size = 0;  // the constant, the uniform bound, or the standard deviation
};

Distribution distribution_of(InitKind kind, float param, const Initializer::Options& o,
                             const ParamSpec& spec) {
  using S = Distribution::Shape;
  const double in = double(spec.fan_in), out = double(spec.fan_out), scale = double(o.scale);
  const double fan = o.fan == FanMode::FAN_IN    ? in
                     : o.fan == FanMode::FAN_OUT ? out
                                                 : (in + out) / 2;
  const double a = double(o.nonlinearity);
  const double gain = scale * std::sqrt(2 / (1 + a * a));
  switch (kind) {
    case InitKind::NONE:
    case InitKind::ZEROS: return {S::CONSTANT, 0};
    case InitKind::CONSTANTS: return {S::CONSTANT, double(param)};
    case InitKind::KAIMING_NORMAL: return {S::NORMAL, gain / std::sqrt(fan)};
    case InitKind::KAIMING_UNIFORM: return {S::UNIFORM, gain * std::sqrt(3 / fan)};
    case InitKind::XAVIER_NORMAL: return {S::NORMAL, scale * std::sqrt(2 / (in + out))};
    case InitKind::XAVIER_UNIFORM: return {S::UNIFORM, scale * std::sqrt(6 / (in + out))};
    case InitKind::TRUNC_NORMAL: return {S::TRUNCATED, std::sqrt(scale / fan)};
    case InitKind::FIXED_NORMAL: return {S::NORMAL, double(param)};
    case InitKind::STANDARD:
    case InitKind::ZERO_GAMMA: break;
  }
  throw_as<InternalError>("Initializer: kind {} is not one of a weight", int(kind));
}

/// Four elements share a block of draws.
void fill_uniform(float* out, std::int64_t count, DrawAddress address, float bound) {
  for (std::int64_t i = 0; i < count; i += 4) {
    address.b = std::uint64_t(i / 4);
    const std::array<std::uint32_t, 4> words = address.block(0).v;
    for (std::int64_t k = 0; k < std::min<std::int64_t>(4, count - i); ++k) {
      out[i + k] = (2 * uniform01(words[std::size_t(k)]) - 1) * bound;
    }
  }
}

/// Box-Muller; with `limit` > 0 numbers beyond it are drawn again. Each element has blocks of its
/// own, a block two tries.
float standard_normal(DrawAddress address, float limit) {
  for (std::uint32_t index = 0;; ++index) {
    const std::array<std::uint32_t, 4> words = address.block(index).v;
    for (std::size_t k = 0; k < 4; k += 2) {
      const float u = uniform01(words[k]) + 0x1p-24f;  // in (0, 1]
      const float angle = 6.2831853071795864769f * uniform01(words[k + 1]);
      const float z = std::sqrt(-2 * det::log(u)) * det::cos(angle);
      if (limit <= 0 || std::abs(z) <= limit) return z;
    }
  }
}

void fill_normal(float* out, std::int64_t count, DrawAddress address, float std, float limit) {
  for (std::int64_t i = 0; i < count; ++i) {
    address.b = std::uint64_t(i);
    out[i] = std * standard_normal(address, limit);
  }
}

void fill_weight(const ParamSpec& spec, const std::string& name, const Initializer::Options& o,
                 std::uint64_t seed, Tensor& tensor) {
  float* const out = tensor.data<float>();
  const std::int64_t count = tensor.num_elements();
  const bool is_fc = spec.type.shape.rank() == 2;
  const Distribution d =
      distribution_of(is_fc ? o.fc_kind : o.conv_kind, is_fc ? o.fc_param : o.conv_param, o, spec);
  const DrawAddress address{seed, DrawPurpose::INIT, fnv1a64(name), 0};
  switch (d.shape) {
    case Distribution::Shape::CONSTANT: std::fill_n(out, count, float(d.size)); return;
    case Distribution::Shape::UNIFORM: return fill_uniform(out, count, address, float(d.size));
    case Distribution::Shape::NORMAL: return fill_normal(out, count, address, float(d.size), 0);
    case Distribution::Shape::TRUNCATED: return fill_normal(out, count, address, float(d.size), 2);
  }
}

}  // namespace

void fill_param(const ParamSpec& spec, const std::string& name, const Initializer& initializer,
                std::uint64_t seed, Tensor& out) {
  TR_CHECK(out.type() == spec.type && spec.type.dtype == DType::FP32,
           "{}: the tensor is {}, expected {} in fp32", name, out.type(), spec.type);
  const Initializer::Options& options = initializer.options();
  if (spec.kind == ParamKind::WEIGHT) {
    fill_weight(spec, name, options, seed, out);
    return;
  }
  const double value = spec.branch_end && options.zero_gamma ? 0 : spec.fill;
  std::fill_n(out.data<float>(), out.num_elements(), float(value));
}

}  // namespace tr
