// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include "renaissance/core/dtype.h"

namespace tr::test {

/// |got - want| <= atol + rtol * |want|
struct Tolerance {
  double rtol = 0;
  double atol = 0;

  bool allows(double got, double want) const {
    return std::abs(got - want) <= atol + rtol * std::abs(want);
  }
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

/// What TF32 adds to a sum of `summed` products of numbers up to 1: each operand is rounded to
/// 2^-11, the products err by up to 2^-10 with random sign, and seven deviations of their sum are
/// allowed.
double tf32_error(std::int64_t summed);

/// Of losses and weights after `steps` optimizer steps of a small model, computed in FP32 against
/// float64: a loss has about 8 roundings of its own; each step adds one to every weight and passes
/// the deviation on almost unchanged. Optimizers that divide by the gradient's size (Adam) enlarge
/// it where a gradient is small: 16 times.
Tolerance run_tolerance(std::int64_t steps, bool normalising);

/// Of the same in a basis of eigenvectors (SOAP): a basis is known to u(FP32) over the gap between
/// its eigenvalues, relative to their norm, which no ridge bounds; the second moments, squares in
/// that basis, have it in full. Gaps of a sixteenth. docs/numerics.md has what was measured.
Tolerance turned_basis_tolerance(std::int64_t steps);

/// Between mean losses of a short run of a small model with Shampoo or SOAP whose sums are taken in
/// another order: a ridge of 1e-6 leaves what is beside a gradient's own directions to rounding,
/// and its root or basis makes a step of it: two thousandths. docs/numerics.md has what was
/// measured. Muon in bf16 stays below: another rounding of an operand turns a step by less than
/// 2^-8.
double free_run_band(double loss);

/// By how much roundings in Shampoo and SOAP are larger on a GPU: operands of their products keep
/// 22 of their 24 bits there.
constexpr double kSplitOperands = 4;

/// Of the losses of a short run whose activations are stored as `low`, against one in FP32: a loss
/// has about 8 roundings of its own, as in run_tolerance(), and what they do to the weights stays
/// below.
Tolerance low_run_tolerance(DType low);

/// Of a formula of few terms computed twice in double: thousands of roundings of 2^-53.
constexpr Tolerance kDoubleTolerance{1e-12, 1e-12};

/// Of a derivative in double against the central difference of step h = kDifferenceStep, which errs
/// by h^2 / 6 of the third derivative and by 1e-16 / h: below 1e-9 for the functions of the tests.
constexpr double kDifferenceStep = 1e-5;
constexpr Tolerance kDifferenceTolerance{1e-8, 1e-8};

/// Levels (of 255) between a resampled pixel and bilinear interpolation in double. Its two weights
/// are cut to 1/256, each at most 255 / 256 of a level, and coordinates to 2^-17 of a pixel;
/// rounding adds half a level. Scaling cuts the ratio of the sizes too.
constexpr double kRotationLevels = 2.6;
constexpr double kScalingLevels = 2.9;
/// Between ours and torchvision's rotation, which has neither cut.
constexpr double kTorchvisionLevels = 2;

}  // namespace tr::test
