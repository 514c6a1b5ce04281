// SPDX-License-Identifier: Apache-2.0
#include "algo/fill_param.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "algo/matrix_init.h"
#include "core/check.h"
#include "core/det_math.h"
#include "core/fnv.h"
#include "core/format.h"
#include "core/philox.h"

namespace tr {
namespace {

/// What a weight is drawn from, its constants in double until the last step.
struct Distribution {
  enum class Shape { CONSTANT, UNIFORM, NORMAL, TRUNCATED, ORTHOGONAL, DIRAC, SPARSE };
  Shape shape = Shape::CONSTANT;
  double size = 0;  // the constant, the uniform bound, the standard deviation, the scale
};

/// A kind and its parameter.
struct Choice {
  InitKind kind = InitKind::NONE;
  float param = 0;
};

bool needs_fan(InitKind kind) {
  constexpr InitKind kinds[] = {InitKind::KAIMING_NORMAL, InitKind::KAIMING_UNIFORM,
                                InitKind::XAVIER_NORMAL,  InitKind::XAVIER_UNIFORM,
                                InitKind::TRUNC_NORMAL,   init::kLecunNormal,
                                init::kLecunUniform};
  return std::find(std::begin(kinds), std::end(kinds), kind) != std::end(kinds);
}
bool needs_matrix(InitKind kind) {
  return kind == init::kOrthogonal || kind == init::kDirac || kind == init::kSparse;
}

void check_fits(const ParamSpec& spec, const std::string& name, InitKind kind) {
  TR_CHECK(!needs_fan(kind) || (spec.fan_in > 0 && spec.fan_out > 0),
           "{}: it has no fans, which {} needs; expected a kind with a size of its own", name,
           name_of(kind));
  TR_CHECK(!needs_matrix(kind) || spec.type.shape.rank() >= 2,
           "{}: it has shape {}, expected two axes or more for {}", name, spec.type.shape,
           name_of(kind));
}

Distribution distribution_of(const Choice& choice, const Initializer::Options& o,
                             const ParamSpec& spec) {
  using S = Distribution::Shape;
  const double in = double(spec.fan_in), out = double(spec.fan_out), scale = double(o.scale);
  const double fan = o.fan == FanMode::FAN_IN    ? in
                     : o.fan == FanMode::FAN_OUT ? out
                                                 : (in + out) / 2;
  const double a = double(o.nonlinearity);
  const double gain = scale * std::sqrt(2 / (1 + a * a));
  const double param = double(choice.param);
  if (choice.kind == init::kFixedTruncNormal) return {S::TRUNCATED, param};
  if (choice.kind == init::kFixedUniform) return {S::UNIFORM, param};
  if (choice.kind == init::kLecunNormal) return {S::NORMAL, scale / std::sqrt(fan)};
  if (choice.kind == init::kLecunUniform) return {S::UNIFORM, scale * std::sqrt(3 / fan)};
  if (choice.kind == init::kOrthogonal) return {S::ORTHOGONAL, scale};
  if (choice.kind == init::kDirac) return {S::DIRAC, 1};
  if (choice.kind == init::kSparse) return {S::SPARSE, 0.01 * scale};
  switch (choice.kind) {
    case InitKind::NONE:
    case InitKind::ZEROS: return {S::CONSTANT, 0};
    case InitKind::CONSTANTS: return {S::CONSTANT, param};
    case InitKind::KAIMING_NORMAL: return {S::NORMAL, gain / std::sqrt(fan)};
    case InitKind::KAIMING_UNIFORM: return {S::UNIFORM, gain * std::sqrt(3 / fan)};
    case InitKind::XAVIER_NORMAL: return {S::NORMAL, scale * std::sqrt(2 / (in + out))};
    case InitKind::XAVIER_UNIFORM: return {S::UNIFORM, scale * std::sqrt(6 / (in + out))};
    case InitKind::TRUNC_NORMAL: return {S::TRUNCATED, std::sqrt(scale / fan)};
    case InitKind::FIXED_NORMAL: return {S::NORMAL, param};
    case InitKind::STANDARD:
    case InitKind::ZERO_GAMMA: break;
  }
  throw_as<InternalError>("Initializer: kind {} is not one of a weight", int(choice.kind));
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

/// In memory order, as `choice` says.
void fill_by(const ParamSpec& spec, const Initializer::Options& o, const Choice& choice,
             const DrawAddress& address, Tensor& tensor) {
  float* const out = tensor.data<float>();
  const std::int64_t count = tensor.num_elements();
  const Distribution d = distribution_of(choice, o, spec);
  const Shape& shape = spec.type.shape;
  switch (d.shape) {
    case Distribution::Shape::CONSTANT: std::fill_n(out, count, float(d.size)); return;
    case Distribution::Shape::UNIFORM: return fill_uniform(out, count, address, float(d.size));
    case Distribution::Shape::NORMAL: return fill_normal(out, count, address, float(d.size), 0);
    case Distribution::Shape::TRUNCATED: return fill_normal(out, count, address, float(d.size), 2);
    case Distribution::Shape::ORTHOGONAL:
      fill_normal(out, count, address, 1, 0);
      return orthogonalise(out, matrix_size(shape), float(d.size));
    case Distribution::Shape::DIRAC:
      return fill_dirac(out, shape, std::max<std::int64_t>(1, std::int64_t(choice.param)));
    case Distribution::Shape::SPARSE:
      fill_normal(out, count, address, float(d.size), 0);
      return thin_out(out, matrix_size(shape), choice.param, address);
  }
}

}  // namespace

const Initializer::Rule* rule_of(const Initializer& initializer, std::string_view name) {
  const std::vector<Initializer::Rule>& rules = initializer.options().rules;
  const auto last = std::find_if(rules.rbegin(), rules.rend(), [&](const Initializer::Rule& rule) {
    return name.starts_with(rule.prefix);
  });
  return last == rules.rend() ? nullptr : &*last;
}

void fill_param(const ParamSpec& spec, const std::string& name, const Initializer& initializer,
                std::uint64_t seed, Tensor& out) {
  TR_CHECK(out.type() == spec.type && spec.type.dtype == DType::FP32,
           "{}: the tensor is {}, expected {} in fp32", name, out.type(), spec.type);
  const Initializer::Options& o = initializer.options();
  const Initializer::Rule* rule = rule_of(initializer, name);
  const auto fill = [&](const Choice& choice) {
    check_fits(spec, name, choice.kind);
    fill_by(spec, o, choice, {seed, DrawPurpose::INIT, fnv1a64(name), 0}, out);
  };
  if (rule != nullptr && rule->path.empty() && spec.kind != ParamKind::BUFFER)
    return fill({rule->kind, rule->param});
  if (spec.kind == ParamKind::WEIGHT) {
    const bool is_fc = spec.type.shape.rank() == 2;
    const Choice choice = is_fc ? Choice{o.fc_kind, o.fc_param} : Choice{o.conv_kind, o.conv_param};
    return fill(choice);
  }
  const double value = spec.branch_end && o.zero_gamma ? 0 : spec.fill;
  std::fill_n(out.data<float>(), out.num_elements(), float(value));
}

}  // namespace tr
