// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "renaissance/core/dtype.h"

namespace tr::test {

/// |got - want| <= atol + rtol * |want|
struct Tolerance {
  double rtol = 0;
  double atol = 0;
};

/// Half a unit in the last place: 2^-24 (FP32), 2^-11 (FP16), 2^-8 (BF16).
double unit_roundoff(DType dtype);

/// Of an element that is a function of few values (summed = 1), or a sum of `summed` products,
/// computed in FP32 and stored as `dtype`; `scale` bounds the size of the summed terms and of
/// values that cancel.
///
/// Storing costs u(dtype) relative, a function of our own up to 8 u(FP32). Terms of random sign
/// keep partial sums below scale * sqrt(n); n additions each err by u of that and the errors add
/// like a random walk: n * u(FP32) * scale. A gradient made from a stored output (y of sigmoid,
/// tanh ...) cancels against numbers of size `scale`: 4 u(dtype) * scale.
Tolerance tolerance(DType dtype, std::int64_t summed = 1, double scale = 1);

/// Of losses and weights after `steps` optimizer steps of a small model, computed in FP32 against
/// float64: a loss has about 8 roundings of its own; each step adds one to every weight and passes
/// the deviation on almost unchanged. Optimizers that divide by the gradient's size (Adam) enlarge
/// it where a gradient is small: 16 times.
Tolerance run_tolerance(std::int64_t steps, bool normalising);

}  // namespace tr::test
