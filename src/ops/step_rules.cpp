// SPDX-License-Identifier: Apache-2.0
#include "ops/step_rules.h"

#include "core/check.h"
#include "core/format.h"
#include "graph/memory_plan.h"
#include "graph/step_tables.h"

namespace tr::ops {
namespace {

void check_moments(Types in, std::size_t first, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    if (given(in, first + i)) {
      check_range(fmt::format("moment{}", i + 1), in[first + i], &in[kWeights]);
    }
  }
}

}  // namespace

void check_fraction(const Attrs& attrs, const char* name) {
  const double value = attrs.f64(name);
  TR_CHECK(value >= 0 && value < 1, "{} is {}, expected 0 <= {} < 1", name, value, name);
}

void check_num_moments(Types in, std::size_t first, std::size_t places, std::size_t wanted) {
  check_moments(in, first, places);
  for (std::size_t i = 0; i < places; ++i) {
    const bool is_given = given(in, first + i);
    TR_CHECK(is_given == (i < wanted), "moment{} is {}, expected the first {} of {} moments", i + 1,
             is_given ? "given" : "missing", wanted, places);
  }
}

void check_counters(const TensorType& type) {
  check_same("counters", type, {Shape{kNumCounters}, DType::INT64}, "the step's counters");
}

void check_step_floats(const TensorType& type) {
  TR_CHECK(type.dtype == DType::FP32 && type.shape.rank() == 2 &&
               type.shape[1] >= step_floats_columns(1) &&
               (type.shape[1] - kFloatHeader) % kGroupColumns == 0,
           "step_floats is {}, expected fp32 [capacity, {} + {} a parameter group]", type,
           int(kFloatHeader), int(kGroupColumns));
}

void check_results(const TensorType& type) {
  TR_CHECK(type.shape.rank() == 2 && type.shape[1] == kResultColumns && type.dtype == DType::FP32,
           "results is {}, expected fp32 [capacity, {}]", type, int(kResultColumns));
}

void check_segments(const TensorType& type) {
  TR_CHECK(type.dtype == DType::UINT8 && type.shape.rank() == 1 &&
               type.shape[0] % std::int64_t(sizeof(Segment)) == 0,
           "segments is {}, expected uint8 [a multiple of {}] (rows of Segment)", type,
           sizeof(Segment));
}

void check_draws(Types in, std::size_t first) {
  TR_CHECK(in[0].shape.rank() >= 1, "x has shape [], expected [N, ...]");
  if (in.size() == first) return;
  check_counters(in[first]);
  const bool both = in.size() == first + 2;
  TR_CHECK(both && in[first + 1].shape.rank() == 2 && in[first + 1].shape[1] == kStepInts,
           "{} inputs, expected {}, counters and step_ints [capacity, {}]", in.size(),
           first == 1 ? "x" : "dy, x", int(kStepInts));
}

void check_optional_scalar(std::string_view name, Types in, std::size_t index, DType dtype) {
  if (index < in.size() && in[index] != TensorType{}) check_scalar(name, in[index], dtype);
}

void check_range(std::string_view name, const TensorType& type, const TensorType* like) {
  TR_CHECK(type.shape.rank() == 1 && type.dtype == DType::FP32,
           "{} is {}, expected fp32 [elements]", name, type);
  if (like != nullptr)
    check_shape(name, type, like->shape, "all ranges of parameters are equally long");
}

void check_growth_interval(const Attrs& attrs) {
  const std::int64_t interval = attrs.i64("growth_interval");
  TR_CHECK(interval >= 0, "growth_interval is {}, expected at least 0 (0: never grows)", interval);
}

void check_update_inputs(const Attrs& attrs, Types in) {
  check_range("weights", in[kWeights]);
  check_range("gradients", in[kGradients], &in[kWeights]);
  check_segments(in[kSegments]);
  check_step_floats(in[kStepFloats]);
  check_counters(in[kCounters]);
  check_scalar("loss_scale", in[kLossScale], DType::FP32);
  for (const char* name : {"clip_norm", "clip_value"}) {
    TR_CHECK(attrs.f64(name) >= 0, "{} is {}, expected at least 0 (0: off)", name, attrs.f64(name));
  }
}

void check_weight_cast(Types in, std::size_t index) {
  if (!given(in, index)) return;
  check_shape("weight_cast", in[index], in[kWeights].shape,
              "all ranges of parameters are equally long");
  TR_CHECK(in[index].dtype == DType::FP16 || in[index].dtype == DType::BF16,
           "weight_cast has dtype {}, expected fp16 or bf16", in[index].dtype);
}

void check_sgd(const Attrs& attrs, Types in, std::size_t first_moment) {
  check_moments(in, first_moment, 1);
  check_fraction(attrs, "momentum");
  const bool momentum = attrs.f64("momentum") > 0;
  TR_CHECK(momentum || !attrs.flag("nesterov"),
           "nesterov is on and momentum 0, expected a momentum above 0");
  TR_CHECK(momentum == given(in, first_moment), "moment1 is {}, expected it {} (momentum {})",
           momentum ? "missing" : "given", momentum ? "given" : "missing", attrs.f64("momentum"));
}

void check_adam(const Attrs& attrs, Types in, std::size_t first_moment) {
  check_moments(in, first_moment, 2);
  check_fraction(attrs, "beta1");
  check_fraction(attrs, "beta2");
  TR_CHECK(attrs.f64("eps") > 0, "eps is {}, expected a positive number", attrs.f64("eps"));
  TR_CHECK(given(in, first_moment) && given(in, first_moment + 1),
           "moment1 or moment2 is missing, expected both");
}

}  // namespace tr::ops
