// SPDX-License-Identifier: Apache-2.0
#pragma once

// Checks that the ops of a step's tail share, fused or not: the small tensors of
// graph/step_tables.h, whole ranges, optimizers.

#include <string_view>

#include "ops/rules.h"

namespace tr::ops {

/// int64 [kNumCounters]
void check_counters(const TensorType& type);
/// fp32 [capacity, a header and the columns of at least one group]
void check_step_floats(const TensorType& type);
/// fp32 [capacity, kResultColumns]
void check_results(const TensorType& type);
/// uint8 [rows of Segment]
void check_segments(const TensorType& type);
/// A scalar that may be missing. A missing one looks like an fp32 scalar, so that of two faults
/// only a wrong rank and a wrong integer are seen.
void check_optional_scalar(std::string_view name, Types in, std::size_t index, DType dtype);
/// A whole range: flat, fp32, as long as `like` if given.
void check_range(std::string_view name, const TensorType& type, const TensorType* like = nullptr);
/// growth_interval of the loss scale.
void check_growth_interval(const Attrs& attrs);

/// 0 <= attribute `name` < 1
void check_fraction(const Attrs& attrs, const char* name);
/// Behind `first` inputs come none, in a plan, or counters and step_ints, which address draws.
void check_draws(Types in, std::size_t first);
/// The first `wanted` of `places` moments, from input `first` on, are there and the others are not.
void check_num_moments(Types in, std::size_t first, std::size_t places, std::size_t wanted);

/// Places of the inputs with which every optimizer begins, fc_update too.
enum UpdateInput : std::size_t {
  kWeights,
  kGradients,
  kSegments,
  kStepFloats,
  kCounters,
  kLossScale,
  kNumUpdateInputs
};

/// Weights, gradients and what a step says about them, clipping included.
void check_update_inputs(const Attrs& attrs, Types in);
/// The 16-bit copy of the weights, where input `index` is given.
void check_weight_cast(Types in, std::size_t index);
/// The attributes of sgd, and that moment1, input `first_moment`, is there exactly if they ask for
/// it.
void check_sgd(const Attrs& attrs, Types in, std::size_t first_moment);
/// The attributes of adam, and that both moments are there.
void check_adam(const Attrs& attrs, Types in, std::size_t first_moment);

}  // namespace tr::ops
